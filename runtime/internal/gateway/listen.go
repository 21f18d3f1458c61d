package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// listenBatch is how many messages are received at a time. Their locks run while they are written
// one by one.
const listenBatch = 64

// A listener is a worker that listens to a queue.
//
//  1. It never holds more than max messages that are neither settled nor free again.
//  2. It receives messages only after all earlier ones are written, so a worker that does not read
//     locks no more messages.
//  3. Received messages that could not be written go back to the queue at once. Written messages
//     stay locked, because the worker may be working on them, even without its connection.
//
// If a worker leaves while the node receives a message for it, that message stays locked until its
// lock ends.
type listener struct {
	x       *exchange
	s       *serve.Stay
	out     *serve.Writer
	address host.Address
	queue   string
	limit   int
	lockMS  int64
	held    []string // receipts of written messages
	fresh   []string // receipts of messages that are not written yet
	begun   bool     // messages were requested
	written time.Time
}

// listen answers GET .../-/queues/{name} with messages as server-sent events.
func (x *exchange) listen(t *target) {
	x.Count(t.Type, serve.LabelListen)
	l := &listener{x: x, address: t.Address, queue: t.name}
	fault := serve.CheckSite(x.R)
	if fault == nil {
		fault = x.Authorize(x.R.Context(), serve.Work, t.Address, host.QueueReceive)
	}
	if fault == nil {
		fault = l.params()
	}
	if fault == nil {
		l.s, fault = x.Front.Admit(x.R.Context(), serve.EventStream)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	defer l.s.Done()
	// The first receive is before the response begins, so that an error has its own status.
	messages, fault := l.receive(0)
	if fault != nil {
		x.Fail(l.s.Why(fault))
		return
	}
	defer l.giveBack()
	l.out = x.stream()
	l.out.Buf = append(l.out.Buf, '\n')
	for {
		if !l.write(messages) {
			return
		}
		if messages, fault = l.next(); fault != nil {
			x.parting(l.s, fault, l.out)
			return
		}
	}
}

// params reads the parameters of the request.
func (l *listener) params() *host.Error {
	p, fault := l.x.params("lock_ms", "limit")
	if fault != nil {
		return fault
	}
	if l.limit, fault = p.number("limit", 1, host.MaxQueueBatch); fault != nil {
		return fault
	}
	l.limit = max(l.limit, 1)
	lock, fault := p.number("lock_ms", 1, int(host.MaxQueueDelay.Milliseconds()))
	l.lockMS = int64(lock)
	return fault
}

// next waits for messages, until a comment is due. While the worker holds its limit, it waits for a
// change of that.
func (l *listener) next() ([]host.ReceivedMessage, *host.Error) {
	if len(l.held) > 0 {
		wait := time.Duration(0)
		if len(l.held) >= l.limit {
			wait = l.quiet()
		}
		out, fault := callBuiltin[host.QueueHeldOutput](l.s.Context(), l.x.g, l.x.g.callNode,
			host.Request{Address: l.address, Method: host.QueueHeld, Continues: true},
			host.QueueHeldInput{Queue: l.queue, Receipts: l.held, WaitMS: waitMS(wait)})
		if fault != nil && fault.Code == host.NotFound { // the actor had the messages
			fault = host.Errorf(host.Destroyed, "the actor was destroyed")
		}
		if fault != nil {
			return nil, fault
		}
		l.held = slices.DeleteFunc(l.held, func(r string) bool { return !slices.Contains(out.Held, r) })
		if len(l.held) >= l.limit {
			return nil, nil
		}
	}
	return l.receive(l.quiet())
}

// quiet returns the time until something must be written.
func (l *listener) quiet() time.Duration {
	return time.Until(l.written.Add(l.x.Front.Limits.Heartbeat))
}

// receive receives as many messages as the worker may hold. It waits for the first.
func (l *listener) receive(wait time.Duration) ([]host.ReceivedMessage, *host.Error) {
	out, fault := callBuiltin[host.QueueReceiveOutput](l.s.Context(), l.x.g, l.x.g.callNode,
		host.Request{Address: l.address, Method: host.QueueReceive, Continues: l.begun},
		host.QueueReceiveInput{Queue: l.queue, Limit: min(l.limit-len(l.held), listenBatch),
			LockMS: l.lockMS, WaitMS: waitMS(wait)})
	l.begun = true
	for i := range out.Messages {
		l.fresh = append(l.fresh, out.Messages[i].Receipt)
	}
	return out.Messages, fault
}

// write writes messages, or a comment if it is due, and reports whether the worker reads them.
func (l *listener) write(messages []host.ReceivedMessage) bool {
	for i := range messages {
		text, err := json.Marshal(&messages[i])
		if err != nil {
			bye(l.out, l.x.Front.Internal("message does not encode", slog.String("queue", l.queue),
				slog.Any("error", err)))
			return false
		}
		l.out.Buf = serve.AppendEvent(l.out.Buf, EventMessage, text)
		if len(l.out.Buf) >= l.x.Front.Limits.StreamBufferBytes && !l.flush(i+1-len(messages)+len(l.fresh)) {
			return false
		}
	}
	l.x.Front.Meter.Events.Add(float64(len(messages)))
	if len(l.out.Buf) > 0 {
		return l.flush(len(l.fresh))
	}
	if l.quiet() <= 0 {
		l.out.Buf = append(l.out.Buf, comment...)
		return l.flush(0)
	}
	return true
}

// flush writes the buffer. After that the worker has the first n fresh messages.
func (l *listener) flush(n int) bool {
	if l.s.Context().Err() != nil && !l.s.Closing() || l.out.Flush() != nil {
		return false
	}
	l.written = time.Now()
	l.held = append(l.held, l.fresh[:n]...)
	l.fresh = l.fresh[n:]
	return true
}

// giveBack returns to the queue the received messages that were not written.
func (l *listener) giveBack() {
	if len(l.fresh) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.s.Context()), closeTimeout)
	defer cancel()
	at := int64(0)
	_, fault := callBuiltin[host.QueueSettleOutput](ctx, l.x.g, l.x.g.callNode,
		host.Request{Address: l.address, Method: host.QueueNack, Continues: true},
		host.QueueNackInput{Queue: l.queue, Receipts: l.fresh, DelayMS: &at,
			Error: "the worker left before it got the message"})
	if fault != nil {
		l.x.Front.Logger.Warn("messages not given back; they stay locked", "actor_type",
			l.address.Type, "actor_key", l.address.Key,
			"queue", l.queue, "messages", len(l.fresh), "error", fault)
	}
}
