package replay

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A Source is a queue of the host with messages of type T. Inbox is one; hosts have others.
type Source[T any] interface {
	// QueueName names the queue within the host.
	QueueName() string
	// DecodeMessage decodes the body of a message.
	DecodeMessage(body []byte) (T, error)
}

// An Inbox is a Source of messages in CBOR.
type Inbox[T any] struct{ Name string }

// QueueName implements Source.
func (q Inbox[T]) QueueName() string { return q.Name }

// DecodeMessage implements Source.
func (q Inbox[T]) DecodeMessage(body []byte) (v T, err error) {
	c, err := defaultCodec()
	if err != nil {
		return v, err
	}
	if err := c.Decode(body, &v); err != nil {
		return v, &CodecError{Type: fmt.Sprintf("%T", v), Decoding: true, Err: err}
	}
	return v, nil
}

// Raw is the body of a message as it was sent, in CBOR.
type Raw []byte

// A Received is a received message.
type Received[T any] struct {
	Body  T
	Queue string
	ID    uint64 // names the message within its queue
	Sent  time.Time
	// WantReply is set if the sender waits for a reply: see Reply.
	WantReply bool
}

// A WaitOption is an option of operations that wait.
type WaitOption interface{ wait(*waitOptions) error }

type waitOption func(*waitOptions) error

func (o waitOption) wait(w *waitOptions) error { return o(w) }

type waitOptions struct {
	within  time.Duration
	limited bool
}

// Within bounds a wait, counted from its begin.
func Within(d time.Duration) WaitOption {
	return waitOption(func(w *waitOptions) error {
		w.within, w.limited = d, true
		return notNegativeDuration("Within", d)
	})
}

// Receive waits for a message of a queue and removes it, in the transaction that records it.
func Receive[T any](ctx Context, name string, from Source[T], options ...WaitOption) (Received[T], error) {
	got, err := receiveFrom(ctx, name, from, 1, options)
	if err != nil {
		return Received[T]{}, err
	}
	return messageFrom(from, &got[0])
}

// ReceiveBatch is Receive for up to limit messages. It waits only for the first one.
func ReceiveBatch[T any](ctx Context, name string, from Source[T], limit int,
	options ...WaitOption) ([]Received[T], error) {
	got, err := receiveFrom(ctx, name, from, limit, options)
	if err != nil {
		return nil, err
	}
	list := make([]Received[T], len(got))
	for i := range got {
		var derr error
		list[i], derr = messageFrom(from, &got[i])
		err = errors.Join(err, derr)
	}
	return list, err
}

func receiveFrom[T any](ctx Context, name string, from Source[T], limit int, options []WaitOption) ([]Delivery, error) {
	s := ctx.scope()
	if from == nil {
		s.own()
		s.misuse(s.owner, fmt.Sprintf("receive %q: the source is nil", s.pathOf(name)))
	}
	return s.receive(name, []string{from.QueueName()}, limit, options)
}

// messageFrom returns a message with its body.
func messageFrom[T any](from Source[T], d *Delivery) (Received[T], error) {
	m := messageOf[T](d)
	body, err := decodeBody(from, d.Body)
	if err != nil {
		return m, fmt.Errorf("message %d of queue %q: %w", d.ID, d.Queue, err)
	}
	m.Body = body
	return m, nil
}

// decodeBody decodes with a source, and turns a panic into an error.
func decodeBody[T any](from Source[T], body []byte) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return from.DecodeMessage(body)
}

// ReceiveAny is Receive for the first message of any of the queues.
func ReceiveAny(ctx Context, name string, queues []string, options ...WaitOption) (Received[Raw], error) {
	got, err := ctx.scope().receive(name, queues, 1, options)
	if err != nil {
		return Received[Raw]{}, err
	}
	m := messageOf[Raw](&got[0])
	m.Body = got[0].Body
	return m, nil
}

func messageOf[T any](d *Delivery) Received[T] {
	return Received[T]{Queue: d.Queue, ID: d.ID, Sent: d.Sent, WantReply: d.WantReply}
}

// A receive is a wait for messages that has not ended.
type receive struct {
	op    op
	limit int
	timer timer
	asked uint64 // Run.asked when the queues were empty
	late  bool   // the time limit has passed
	taken []Delivery
}

func (s *scope) receive(name string, queues []string, limit int, options []WaitOption) ([]Delivery, error) {
	w := new(receive)
	o := &w.op
	if err := s.beginOp(o, KindReceive, name); err != nil {
		return nil, err
	}
	if !o.done && o.replay == 0 {
		w.begin(queues, limit, s.waitOptions("receive", name, options))
	}
	o.wait(s.owner)
	if err := o.waitError(); err != nil {
		return nil, err
	}
	return o.entry.Messages, nil
}

// waitOptions returns the options of a wait. It does not return if they are invalid.
func (s *scope) waitOptions(kind, name string, options []WaitOption) (w waitOptions) {
	for i, option := range options {
		err := fmt.Errorf("option %d is nil", i)
		if option != nil {
			err = option.wait(&w)
		}
		if err != nil {
			s.misuse(s.owner, fmt.Sprintf("%s %q: %v", kind, s.pathOf(name), err))
		}
	}
	return w
}

// begin starts the wait of a live receive.
func (w *receive) begin(queues []string, limit int, options waitOptions) {
	o := &w.op
	s := o.s
	r := s.run
	if err := checkQueues(queues, limit); err != nil {
		s.misuse(s.owner, fmt.Sprintf("receive %q: %v", s.pathOf(o.name), err))
	}
	w.limit = limit
	o.live = w
	switch {
	case !o.recorded:
		o.entry.Queues = slices.Clone(queues)
		if options.limited {
			o.entry.Deadline = after(o.entry.Created, options.within)
		}
	case !slices.Equal(o.entry.Queues, queues):
		w.renamed(queues)
	}
	w.timer.fire = func() error {
		w.late = true
		o.happened()
		return nil
	}
	if !o.entry.Deadline.IsZero() {
		r.timers.set(&w.timer, o.entry.Deadline)
	}
	r.receives = append(r.receives, w)
	o.listen()
}

// renamed compares the queues of a running wait with the queues in the code. A recorded queue that
// is missing in the code gets no messages from current senders, so this is a divergence, and
// renamed does not return.
func (w *receive) renamed(queues []string) {
	o := &w.op
	r := o.s.run
	for _, old := range o.entry.Queues {
		if !slices.Contains(queues, old) {
			r.diverged(o, queueList(o.entry.Queues), queueList(queues), fmt.Sprintf(
				"The wait is under way, and messages in %q would never reach it. Keep that queue, or wait for both with workflow.ReceiveAny.", old))
		}
	}
	o.entry.Queues = slices.Clone(queues)
	r.put(o)
}

func queueList(queues []string) string {
	if len(queues) == 1 {
		return "queue " + strconv.Quote(queues[0])
	}
	return "queues " + quoted(queues)
}

func checkQueues(queues []string, limit int) error {
	if len(queues) == 0 {
		return fmt.Errorf("no queues")
	}
	for _, q := range queues {
		if q == "" {
			return fmt.Errorf("the name of a queue is empty")
		}
	}
	if limit < 1 {
		return fmt.Errorf("a limit of %d messages", limit)
	}
	return nil
}

func (w *receive) canceled(bool) {
	if !w.op.queued {
		w.op.setCanceled()
		w.op.happened()
	}
}

func (w *receive) resolve() error {
	o := &w.op
	r := o.s.run
	if w.late && o.entry.Status == Pending {
		// A message in the queue counts, even if no Advance looked in time.
		got, err := r.take(o.entry.Queues, w.limit)
		if err != nil {
			return err
		}
		w.taken = got
	}
	switch {
	case o.entry.Status == Canceled:
	case len(w.taken) > 0:
		o.entry.Status, o.entry.Messages = Completed, w.taken
	default:
		o.entry.Status, o.entry.Failure = TimedOut, &Failure{Reason: reasonTimeout, Message: ErrTimeout.Error()}
	}
	r.timers.stop(&w.timer)
	if i := slices.Index(r.receives, w); i >= 0 {
		r.receives = slices.Delete(r.receives, i, i+1)
	}
	return nil
}

// take receives messages in the transaction.
func (r *Run) take(queues []string, limit int) ([]Delivery, error) {
	got, err := r.turn.Receive(queues, limit)
	if len(got) > 0 {
		r.wrote, r.durable = true, true
	}
	for i := range got {
		got[i].Sent = millisUTC(got[i].Sent)
	}
	return got, err
}

// pollReceives takes messages for the first receive that has any.
func (r *Run) pollReceives() (bool, error) {
	for _, w := range r.receives {
		if w.asked == r.asked || w.op.queued || w.op.done {
			continue
		}
		got, err := r.take(w.op.entry.Queues, w.limit)
		if err != nil {
			return false, err
		}
		if len(got) > 0 {
			w.taken = got
			w.op.happened()
			return true, nil
		}
		w.asked = r.asked
	}
	return false, nil
}

// waitingQueues returns the queues of all receives, and writes their entries.
func (r *Run) waitingQueues() (queues []string) {
	var seen map[string]struct{} // of many
	for _, w := range r.receives {
		if w.op.hidden {
			r.put(&w.op)
		}
		for _, q := range w.op.entry.Queues {
			_, twice := seen[q]
			if twice || seen == nil && slices.Contains(queues, q) {
				continue
			}
			queues = append(queues, q)
			if len(queues) == 16 {
				seen = make(map[string]struct{}, len(r.receives))
				for _, q := range queues {
					seen[q] = struct{}{}
				}
			} else if seen != nil {
				seen[q] = struct{}{}
			}
		}
	}
	return queues
}

// waitError returns the error of a wait that has ended.
func (o *op) waitError() error {
	switch o.entry.Status {
	case Completed:
		return nil
	case Canceled:
		return o.canceledError()
	case TimedOut:
		return fmt.Errorf("%s %q: %w", o.entry.Kind, o.name, ErrTimeout)
	}
	return o.s.run.errorOf(o.entry.Failure)
}

// Reply answers the sender of a message in the transaction, if the sender waits for a reply.
func Reply[T, R any](tx *Tx, m Received[T], reply R) error {
	c, err := defaultCodec()
	if err != nil {
		return err
	}
	data, err := c.Encode(reply)
	if err != nil {
		return &CodecError{Type: fmt.Sprintf("%T", reply), Err: err}
	}
	return sendReply(tx, m.Queue, m.ID, m.Sent, m.WantReply, data, nil)
}

// ReplyError answers the sender of a message with an error, which must not be nil.
func ReplyError[T any](tx *Tx, m Received[T], reason error) error {
	if tx.run == nil {
		return errTx
	}
	if reason == nil {
		return fmt.Errorf("workflow: ReplyError: nil")
	}
	return sendReply(tx, m.Queue, m.ID, m.Sent, m.WantReply, nil, tx.run.failure(reason))
}

func sendReply(tx *Tx, queue string, id uint64, sent time.Time, want bool, reply []byte, f *Failure) error {
	if tx.run == nil {
		return errTx
	}
	// The entry names the answered messages: a race does not take these back from its losers.
	tx.o.entry.Messages = append(tx.o.entry.Messages, Delivery{Queue: queue, ID: id, Sent: sent})
	return tx.run.turn.Reply(&Delivery{Queue: queue, ID: id, Sent: sent, WantReply: want}, reply, f)
}
