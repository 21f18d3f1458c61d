package queue

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	queuerows "github.com/cairn-run/cairn/runtime/internal/part/queue/rows"
)

// Methods implements call.Server.
func (*Part) Methods() []*call.Method {
	receive := call.Waiting(call.Act(method.QueueReceive, queueReceive),
		func(in *host.QueueReceiveInput) (string, int64) { return "queue/" + in.Queue, in.WaitMS },
		func(_ *host.QueueReceiveInput, codec host.Codec, out []byte) bool {
			return len(wire.Read[host.QueueReceiveOutput](codec, out).Messages) == 0
		})
	receive.Missing = receiveNothing
	return []*call.Method{
		call.Act(method.QueueSend, queueSend),
		receive,
		call.Act(method.QueueAck, queueAck),
		call.Act(method.QueueNack, queueNack),
		call.Act(method.QueueExtend, queueExtend),
		call.Waiting(call.Ask(method.QueueHeld, queueHeld),
			func(in *host.QueueHeldInput) (string, int64) { return "settled/" + in.Queue, in.WaitMS },
			func(in *host.QueueHeldInput, codec host.Codec, out []byte) bool {
				return len(wire.Read[host.QueueHeldOutput](codec, out).Held) == len(in.Receipts)
			}),
		call.Waiting(call.Ask(method.QueueResult, queueResult),
			func(in *host.QueueResultInput) (string, int64) { return replyTopic(in.ID), in.WaitMS },
			func(_ *host.QueueResultInput, codec host.Codec, out []byte) bool {
				return !wire.Read[host.QueueResultOutput](codec, out).Done
			}),
		call.Unwoken(call.Ask(method.QueueStats, queueStats)),
		call.Unwoken(call.Ask(method.QueuePeek, queuePeek)),
		call.Unwoken(call.Ask(method.QueueDeadList, queueDeadList)),
		call.Act(method.QueueReplace, queueReplace),
		counting(method.QueueDelete, "delete",
			func(s *queuerows.Set, in *host.QueueSelectInput) (host.CountOutput, error) {
				if err := selects(in); err != nil {
					return host.CountOutput{}, err
				}
				if in.All {
					return purgeQueue(s, in.Queue)
				}
				n, err := s.Delete(in.Queue, in.IDs)
				return host.CountOutput{Count: n}, err
			}),
		counting(method.QueuePurge, "purge",
			func(s *queuerows.Set, in *host.QueueInput) (host.CountOutput, error) { return purgeQueue(s, in.Queue) }),
		counting(method.QueueSkip, "skip", func(s *queuerows.Set, in *host.QueueInput) (host.CountOutput, error) {
			n, err := s.Skip(in.Queue)
			return host.CountOutput{Count: n}, err
		}),
		counting(method.QueueDeadRequeue, "requeue",
			func(s *queuerows.Set, in *host.QueueSelectInput) (host.CountOutput, error) {
				return eachDead(s, in, s.RequeueDead)
			}),
		counting(method.QueueDeadDelete, "delete_dead",
			func(s *queuerows.Set, in *host.QueueSelectInput) (host.CountOutput, error) {
				return eachDead(s, in, s.DeleteDead)
			}),
	}
}

// queueReplace implements queue.replace.
func queueReplace(c *kernel.Core, h *kernel.Turn, codec host.Codec,
	in *host.QueueReplaceInput) (out host.ListedMessage, err error) {
	i, _, err := queueOf(c.Actor.Type, in.Queue)
	if err != nil {
		return out, err
	}
	e := queuerows.Edit{Priority: in.Priority}
	if in.DelayMS != nil {
		d, err := queuerows.Span("delay_ms", *in.DelayMS)
		if err != nil {
			return out, err
		}
		e.Delay = &d
	}
	if len(in.Body) > 0 {
		if e.Body, err = wire.Convert(c.Actor.Type.Behavior, host.QueueBody, i, codec, in.Body,
			host.CBOR, "body"); err != nil {
			return out, err
		}
	}
	before, out, err := SetOf(h).Replace(in.Queue, in.ID, e)
	if err != nil {
		return out, err
	}
	entry := audit.Of(h.Work.Ctx)
	for _, m := range []*host.ListedMessage{&before, &out} {
		stored := m.Body
		m.Body = wire.Shown(c.Actor.Type.Behavior, host.QueueBody, i, stored, host.JSON)
		if m == &before {
			entry.Before(m)
			continue
		}
		entry.After(m)
		m.Body = wire.Shown(c.Actor.Type.Behavior, host.QueueBody, i, stored, codec)
	}
	QueueChange(h, "replace", in.Queue, func(d map[string]any) { d["id"] = in.ID })
	return out, nil
}

// purgeQueue removes waiting messages, as many as fit one turn.
func purgeQueue(s *queuerows.Set, name string) (out host.CountOutput, err error) {
	if out.Count, err = s.Purge(name); err != nil {
		return out, err
	}
	waiting, _, err := s.Rest(name)
	out.More = waiting > 0
	return out, err
}

// eachDead handles dead letters, as many as fit one turn.
func eachDead(s *queuerows.Set, in *host.QueueSelectInput,
	do func(string, []uint64, bool) (int64, error)) (out host.CountOutput, err error) {
	if err = selects(in); err != nil {
		return out, err
	}
	if out.Count, err = do(in.Queue, in.IDs, in.All); err != nil || !in.All {
		return out, err
	}
	_, dead, err := s.Rest(in.Queue)
	out.More = dead > 0
	return out, err
}

// selects checks that a request selects messages in exactly one way.
func selects(in *host.QueueSelectInput) error {
	if in.All == (len(in.IDs) > 0) {
		return host.Errorf(host.InvalidArgument, "give either ids or all").With("field", "ids")
	}
	return nil
}

// counting makes a built-in method that changes messages of a queue that exists and counts them.
func counting[In any](m method.Typed[In, host.CountOutput], op string,
	f func(*queuerows.Set, *In) (host.CountOutput, error)) *call.Method {
	return call.Act(m, func(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *In) (host.CountOutput, error) {
		out, err := f(SetOf(h), in)
		if out.Count > 0 && err == nil {
			QueueChange(h, op, queueName(in), func(m map[string]any) { m["count"] = out.Count })
		}
		return out, err
	})
}

func queueName(in any) string {
	switch in := in.(type) {
	case *host.QueueInput:
		return in.Queue
	case *host.QueueSelectInput:
		return in.Queue
	}
	return ""
}

func queueSend(c *kernel.Core, h *kernel.Turn, codec host.Codec,
	in *host.QueueSendInput) (host.QueueSendOutput, error) {
	messages, _, err := enqueues(c.Actor.Type, codec, in)
	if err != nil {
		return host.QueueSendOutput{}, err
	}
	sent, err := enqueue(h, in.Queue, messages)
	if e, ok := errors.AsType[*host.Error](err); ok && e.Metadata["field"] != "" &&
		!strings.HasPrefix(e.Metadata["field"], "messages") {
		err = within(0, e) // for a batch of one, the queue names only the member of the message
	}
	return host.QueueSendOutput{Messages: sent}, err
}

// enqueues returns the messages of a call of queue.send for an actor of the type, and the settings
// of their queue.
func enqueues(t *kernel.Type, codec host.Codec, in *host.QueueSendInput) ([]host.Enqueue, *host.Queue, error) {
	i, cfg, err := queueOf(t, in.Queue)
	if err == nil {
		err = queuerows.CheckCount(len(in.Messages))
	}
	if err != nil {
		return nil, nil, err
	}
	messages := make([]host.Enqueue, len(in.Messages))
	for n := range in.Messages {
		m := &in.Messages[n]
		e := host.Enqueue{
			Priority: m.Priority, DedupID: m.DedupID, WantReply: m.WantReply,
		}
		if e.Delay, err = queuerows.Span("delay_ms", m.DelayMS); err != nil {
			return nil, nil, within(n, err)
		}
		if m.TTLMS != nil {
			if *m.TTLMS <= 0 {
				return nil, nil, wire.NotPositive("messages["+strconv.Itoa(n)+"].ttl_ms", *m.TTLMS)
			}
			if e.TTL, err = queuerows.Span("ttl_ms", *m.TTLMS); err != nil {
				return nil, nil, within(n, err)
			}
		}
		if e.Body, err = wire.Convert(t.Behavior, host.QueueBody, i, codec, m.Body, host.CBOR, "body"); err != nil {
			return nil, nil, within(n, err)
		}
		if e.KeysIfUndelivered, err = packKeys(m.KeysIfUndelivered); err != nil {
			return nil, nil, within(n, err)
		}
		if m.BackoffMS != nil {
			e.Backoff = make([]time.Duration, len(m.BackoffMS))
			for k, ms := range m.BackoffMS {
				if e.Backoff[k], err = queuerows.Span("backoff_ms["+strconv.Itoa(k)+"]", ms); err != nil {
					return nil, nil, within(n, err)
				}
			}
		}
		messages[n] = e
	}
	return messages, &cfg, nil
}

// within names the message of a batch that an error is about.
func within(n int, err error) error {
	e, ok := errors.AsType[*host.Error](err)
	if !ok {
		return err
	}
	at, c := "messages["+strconv.Itoa(n)+"]", *e
	field := e.Metadata["field"]
	if member, _, _ := strings.Cut(field, "."); member != "" && strings.HasPrefix(e.Message, member) {
		c.Message = at + "." + e.Message
	} else {
		c.Message = at + ": " + e.Message
	}
	if field != "" {
		return c.With("field", at+"."+field)
	}
	return &c
}

// millis makes a span of milliseconds, whose range was checked.
func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// workers checks that a queue is one that workers receive from.
func workers(t *kernel.Type, name string) (int, error) {
	i, q, err := queueOf(t, name)
	if err == nil && q.ByRun {
		err = host.Errorf(host.FailedPrecondition,
			"the messages of queue %q are received by the actor's workflow run", name).With("queue", name)
	}
	if err == nil && q.Handler != "" {
		err = host.Errorf(host.FailedPrecondition,
			"the messages of queue %q are handled by the actor itself", name).With("queue", name)
	}
	return i, err
}

// receiveNothing answers a worker of an actor that does not exist: its queue is empty. A worker
// that begins before the first send waits for it, and a worker that goes on after the actor's end
// does not bring the actor back.
func receiveNothing(t *kernel.Type, req *host.Request, notFound error) ([]byte, error) {
	var in host.QueueReceiveInput
	if err := wire.Decode(req.Method, req.Codec, req.Input, &in); err != nil {
		return nil, err
	}
	if _, err := workers(t, in.Queue); err != nil {
		return nil, err
	}
	if req.Existing {
		return nil, notFound
	}
	return wire.Encode(req.Codec, &host.QueueReceiveOutput{Messages: []host.ReceivedMessage{}})
}

func queueReceive(c *kernel.Core, h *kernel.Turn, codec host.Codec,
	in *host.QueueReceiveInput) (out host.QueueReceiveOutput, err error) {
	out.Messages = []host.ReceivedMessage{}
	h.Work.GoodFor = -1 // the next request asks for messages
	i, err := workers(c.Actor.Type, in.Queue)
	if err != nil {
		return out, err
	}
	// A message whose body has no form in the codec fails, and others are received in its place.
	before := h.Core.Rows.Bytes()
	for tries := 0; len(out.Messages) == 0; tries++ {
		if tries == 100 || h.Core.Rows.Bytes()-before > h.Core.Limits.Storage.MaxWriteSet/2 {
			h.Notify("queue/" + in.Queue) // the next request goes on
			break
		}
		received, err := SetOf(h).Receive(in.Queue, cmp.Or(in.Limit, 1), millis(in.LockMS))
		if err != nil || len(received) == 0 {
			return out, err
		}
		if err := present(c, h, codec, i, received, &out); err != nil {
			return out, err
		}
	}
	if len(out.Messages) > 0 {
		// then the receipts are useless, and the bodies must not be kept
		h.Work.GoodFor = out.Messages[0].LockedUntil.UnixMilli()
		QueueChange(h, "receive", in.Queue, func(d map[string]any) { d["count"] = len(out.Messages) })
	}
	return out, nil
}

// noForm is why a message fails if its worker cannot read it.
const noForm = "its body has no form in the codec of the worker"

// present adds messages that were received of queue i to the output.
func present(c *kernel.Core, h *kernel.Turn, codec host.Codec, i int, received []host.Received,
	out *host.QueueReceiveOutput) (err error) {
	for _, m := range received {
		r := host.ReceivedMessage{
			ID: m.ID, Queue: m.Queue, Attempt: m.Attempt, Priority: m.Priority, Sent: m.Sent.UTC(), DedupID: m.DedupID,
			WantReply: m.WantReply, Traceparent: m.Span.String(), Receipt: m.Receipt, LockedUntil: m.LockedUntil.UTC(),
		}
		if r.Body, err = wire.Present(c.Actor.Type.Behavior, host.QueueBody, i, m.Body, codec); err != nil {
			if _, _, err = SetOf(h).Nack(m.Queue, []string{m.Receipt}, nil, noForm, false); err != nil {
				return err
			}
			continue
		}
		Queueing(c.Actor.Type).Lag.Observe(h.Start.Sub(m.Sent).Seconds())
		out.Messages = append(out.Messages, r)
	}
	return nil
}

func queueAck(c *kernel.Core, h *kernel.Turn, codec host.Codec,
	in *host.QueueAckInput) (host.QueueSettleOutput, error) {
	i, err := workers(c.Actor.Type, in.Queue)
	if err != nil {
		return host.QueueSettleOutput{}, err
	}
	var reply []byte
	if len(in.Reply) > 0 {
		if reply, err = wire.Convert(c.Actor.Type.Behavior, host.QueueReplyValue, i, codec,
			in.Reply, host.CBOR, "reply"); err != nil {
			return host.QueueSettleOutput{}, err
		}
	}
	settled, lost, err := SetOf(h).Ack(in.Queue, in.Receipts, reply)
	return settleOutput(h, "ack", in.Queue, settled, lost, err)
}

func queueNack(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.QueueNackInput) (host.QueueSettleOutput, error) {
	if _, err := workers(c.Actor.Type, in.Queue); err != nil {
		return host.QueueSettleOutput{}, err
	}
	var delay *time.Duration
	if in.DelayMS != nil {
		d, err := queuerows.Span("delay_ms", *in.DelayMS)
		if err != nil {
			return host.QueueSettleOutput{}, err
		}
		delay = &d
	}
	settled, lost, err := SetOf(h).Nack(in.Queue, in.Receipts, delay, in.Error, in.Dead)
	if err == nil {
		Queueing(c.Actor.Type).failures.Add(float64(settled))
	}
	return settleOutput(h, "nack", in.Queue, settled, lost, err)
}

// settleOutput records that messages of a queue were settled.
func settleOutput(t *kernel.Turn, op, name string, n int, lost []string, err error) (host.QueueSettleOutput, error) {
	if n > 0 && err == nil {
		QueueChange(t, op, name, func(d map[string]any) { d["count"] = n })
	}
	return host.QueueSettleOutput{Settled: n, Lost: lost}, err
}

func queueExtend(c *kernel.Core, h *kernel.Turn, _ host.Codec,
	in *host.QueueExtendInput) (host.QueueExtendOutput, error) {
	if _, err := workers(c.Actor.Type, in.Queue); err != nil {
		return host.QueueExtendOutput{}, err
	}
	until, lost, err := SetOf(h).Extend(in.Queue, in.Receipts, millis(in.LockMS))
	return host.QueueExtendOutput{LockedUntil: until.UTC(), Lost: lost}, err
}

func queueHeld(r *call.Query, _ host.Codec, in *host.QueueHeldInput) (host.QueueHeldOutput, error) {
	if _, err := workers(r.Actor.Type, in.Queue); err != nil {
		return host.QueueHeldOutput{}, err
	}
	rows, done, err := r.Rows()
	if err != nil {
		return host.QueueHeldOutput{}, err
	}
	defer done()
	held, err := queuerows.Held(rows, in.Queue, in.Receipts)
	if held == nil {
		held = []string{}
	}
	return host.QueueHeldOutput{Held: held}, err
}

func queueResult(r *call.Query, codec host.Codec, in *host.QueueResultInput) (out host.QueueResultOutput, err error) {
	i, _, err := queueOf(r.Actor.Type, in.Queue)
	if err != nil {
		return out, err
	}
	rows, done, err := r.Rows()
	if err != nil {
		return out, err
	}
	defer done()
	res, known, err := queuerows.ResultOf(rows, in.Queue, in.ID, time.Now())
	switch {
	case err != nil:
		return out, err
	case !known:
		return out, host.Errorf(host.NotFound, "message %d has no reply and will get none", in.ID)
	}
	out.Done, out.Error = res.Done, res.Err
	if res.Done && res.Err == nil && len(res.Reply) > 0 {
		out.Reply, err = wire.Present(r.Actor.Type.Behavior, host.QueueReplyValue, i, res.Reply, codec)
	}
	return out, err
}

func queueStats(r *call.Query, _ host.Codec, in *host.QueueStatsInput) (out host.QueueStatsOutput, err error) {
	rows, done, err := r.Rows()
	if err != nil {
		return out, err
	}
	defer done()
	if in.Queue != "" {
		if _, _, err := queueOf(r.Actor.Type, in.Queue); err != nil {
			return out, err
		}
		s, err := queuerows.Stats(rows, in.Queue)
		return host.QueueStatsOutput{Queues: []host.QueueStats{s}}, err
	}
	if out.Queues, err = queuerows.AllStats(rows); out.Queues == nil {
		out.Queues = []host.QueueStats{}
	}
	return out, err
}

func queuePeek(r *call.Query, codec host.Codec, in *host.QueueListInput) (host.QueueListOutput, error) {
	return listMessages(r, codec, in, queuerows.Peek)
}

func queueDeadList(r *call.Query, codec host.Codec, in *host.QueueListInput) (host.QueueListOutput, error) {
	return listMessages(r, codec, in, queuerows.DeadList)
}

// replyTopic is the topic of waiters for the result of a message.
func replyTopic(id uint64) string { return "reply/" + strconv.FormatUint(id, 10) }

// listMessages answers queue.peek and queue.dead.list.
func listMessages(r *call.Query, codec host.Codec, in *host.QueueListInput,
	list func(engine.Reader, *host.QueueListInput) ([]host.ListedMessage, bool, error),
) (out host.QueueListOutput, err error) {
	i, _, err := queueOf(r.Actor.Type, in.Queue)
	if err != nil {
		return out, err
	}
	if len(in.IDs) > host.MaxQueueBatch {
		return out, host.OverLimit("ids", host.MaxQueueBatch, int64(len(in.IDs))).With("field", "ids")
	}
	rows, done, err := r.Rows()
	if err != nil {
		return out, err
	}
	defer done()
	if out.Messages, out.More, err = list(rows, in); err != nil {
		return out, err
	}
	for n := range out.Messages {
		m := &out.Messages[n]
		m.Body = wire.Shown(r.Actor.Type.Behavior, host.QueueBody, i, m.Body, codec)
	}
	if out.Messages == nil {
		out.Messages = []host.ListedMessage{}
	}
	return out, nil
}

// packKey packs a key whose parts came as JSON or CBOR.
func packKey(parts []any) ([]byte, error) {
	if len(parts) == 0 {
		return nil, errors.New("the key is empty")
	}
	t := make(tuple.Tuple, len(parts))
	for i, p := range parts {
		if n, ok := p.(json.Number); ok {
			if v, err := n.Int64(); err == nil {
				t[i] = v
			} else if v, err := n.Float64(); err == nil {
				t[i] = v
			} else {
				return nil, errors.New("part " + strconv.Itoa(i+1) + " is a number that does not fit")
			}
			continue
		}
		switch p.(type) {
		case string, bool, int64, uint64, float64, []byte:
			t[i] = p
		default:
			return nil, errors.New("part " + strconv.Itoa(i+1) + " is neither a string nor a number nor a boolean")
		}
	}
	return t.Pack()
}
