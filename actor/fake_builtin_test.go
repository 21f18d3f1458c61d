package actor_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
)

var _ host.Task = (*fakeTask)(nil)

func (t *fakeTask) Self() host.Identity  { return t.actor.Identity }
func (t *fakeTask) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (t *fakeTask) Turn(ctx context.Context, f func(any, host.Turn) error) error {
	return t.node.turn(ctx, t.actor, func(turn *fakeTurn) error { return f(t.actor.instance.State(), turn) })
}

func (t *fakeTask) Append(ctx context.Context, stream string, items [][]byte) (last uint64, err error) {
	err = t.node.turn(ctx, t.actor, func(turn *fakeTurn) (err error) {
		last, err = turn.StreamAppend(stream, items)
		return err
	})
	return last, err
}

var (
	fakeDecoding, _ = cbor.DecOptions{ExtraReturnErrors: cbor.ExtraDecErrorUnknownField}.DecMode()
	fakeEncoding, _ = cbor.EncOptions{Time: cbor.TimeRFC3339Nano, TimeTag: cbor.EncTagRequired}.EncMode()
)

// builtin answers a call of a method that every actor has. It waits by looking again and again: in a bubble, time flies.
func (n *fakeNode) builtin(ctx context.Context, r *host.Request) (host.Reply, error) {
	until := n.time().Add(waitOf(r))
	for {
		out, waits, err := n.builtinOnce(r)
		if err != nil || !waits || !n.time().Before(until) {
			return host.Reply{Output: out}, err
		}
		select {
		case <-ctx.Done():
			return host.Reply{}, host.Errorf(host.CodeOf(ctx.Err()), "the caller gave up")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func waitOf(r *host.Request) time.Duration {
	var in struct {
		WaitMS int64 `json:"wait_ms"`
	}
	if err := cbor.Unmarshal(r.Input, &in); err != nil {
		return 0
	}
	return time.Duration(in.WaitMS) * time.Millisecond
}

// served decodes the input of a method, runs it and encodes its output.
func served[In, Out any](r *host.Request, f func(in *In) (Out, error)) ([]byte, error) {
	var in In
	if err := fakeDecoding.Unmarshal(r.Input, &in); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "input of %s: %s", r.Method, err)
	}
	out, err := f(&in)
	if err != nil {
		return nil, err
	}
	return fakeEncoding.Marshal(out)
}

// builtinOnce answers at once, and says whether there is nothing yet.
func (n *fakeNode) builtinOnce(r *host.Request) (out []byte, waits bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.actors[place(r.Address)]
	b := n.behaviors[r.Type]
	switch {
	case b == nil:
		return nil, false, host.Errorf(host.UnknownType, "no type %q", r.Type)
	case a == nil && (r.Existing || r.Method != host.QueueSend && r.Method != host.StreamAppend && r.Method != host.QueueReceive):
		return nil, false, host.Errorf(host.NotFound, "no actor")
	case a == nil:
		a = &fakeActor{Identity: host.Identity{Type: r.Type, Key: r.Key}, behavior: b, kv: map[string]host.KVEntry{}}
		n.actors[place(r.Address)] = a
	}
	h, now := &a.holding, n.time()
	if n.prompt && r.Method == host.QueueResult {
		if err := n.deliver(context.Background()); err != nil {
			return nil, false, err
		}
	}
	switch r.Method {
	case host.QueueSend:
		out, err = served(r, func(in *host.QueueSendInput) (out host.QueueSendOutput, err error) {
			out.Messages, err = h.enqueue(b, now, in.Queue, enqueues(in.Messages))
			return out, err
		})
	case host.QueueReceive:
		out, err = served(r, func(in *host.QueueReceiveInput) (host.QueueReceiveOutput, error) {
			q := b.Queues[find(b.Queues, in.Queue, queueName)]
			q.EnsureDefaults()
			o := h.receive(in, now, q.Lock)
			waits = len(o.Messages) == 0
			return o, nil
		})
	case host.QueueAck:
		out, err = served(r, func(in *host.QueueAckInput) (host.QueueSettleOutput, error) {
			return h.settle(in.Receipts, now, func(m *fakeMessage) {
				if m.WantReply {
					put(&h.results, m.id, host.QueueResultOutput{Done: true, Reply: in.Reply})
				}
				h.remove(m.id)
			}), nil
		})
	case host.QueueNack:
		out, err = served(r, func(in *host.QueueNackInput) (host.QueueSettleOutput, error) {
			return h.settle(in.Receipts, now, func(m *fakeMessage) {
				delay := time.Duration(-1)
				if in.DelayMS != nil {
					delay = time.Duration(*in.DelayMS) * time.Millisecond
				}
				if in.Dead {
					m.attempt = 1000
				}
				h.failed(b.Queues[find(b.Queues, in.Queue, queueName)], m, delay, host.Errorf(host.Internal, "%s", in.Error), now)
			}), nil
		})
	case host.QueueExtend:
		out, err = served(r, func(in *host.QueueExtendInput) (host.QueueExtendOutput, error) {
			until := now.Add(time.Duration(in.LockMS) * time.Millisecond)
			o := h.settle(in.Receipts, now, func(m *fakeMessage) { m.due = until })
			return host.QueueExtendOutput{LockedUntil: until, Lost: o.Lost}, nil
		})
	case host.QueueResult:
		out, err = served(r, func(in *host.QueueResultInput) (host.QueueResultOutput, error) {
			o := h.results[in.ID]
			waits = !o.Done
			return o, nil
		})
	case host.StreamRead:
		out, err = served(r, func(in *host.StreamReadInput) (host.StreamReadOutput, error) {
			limit := in.Limit
			if limit == 0 {
				limit = n.pageSize
			}
			p := h.read(in.Stream, in.After, limit)
			o := host.StreamReadOutput{Missed: p.Missed, Next: p.Next, Closed: p.Closed}
			for _, i := range p.Items {
				o.Items = append(o.Items, host.ReadStreamItem{Sequence: i.Sequence, Time: i.Time, Value: i.Data})
			}
			waits = len(o.Items) == 0 && !o.Closed && o.Missed == 0
			return o, nil
		})
	default:
		out, err = n.operate(r, b, h, now)
	}
	return out, waits, err
}

// operate answers the methods that never wait.
func (n *fakeNode) operate(r *host.Request, b *host.Behavior, h *fakeHolding, now time.Time) ([]byte, error) {
	switch r.Method {
	case host.QueueStatsMethod:
		return served(r, func(in *host.QueueStatsInput) (host.QueueStatsOutput, error) {
			return host.QueueStatsOutput{Queues: []host.QueueStats{h.stats(in.Queue)}}, nil
		})
	case host.QueueDeadList, host.QueuePeek:
		return served(r, func(in *host.QueueListInput) (host.QueueListOutput, error) {
			return h.list(in, r.Method == host.QueueDeadList, n.pageSize), nil
		})
	case host.QueueDeadRequeue, host.QueueDeadDelete, host.QueueDelete:
		return served(r, func(in *host.QueueSelectInput) (host.CountOutput, error) {
			return h.selected(in, r.Method), nil
		})
	case host.QueuePurge, host.QueueSkip:
		return served(r, func(in *host.QueueInput) (host.CountOutput, error) {
			return host.CountOutput{Count: h.stats(in.Queue).Pending}, nil
		})
	case host.ScheduleSet:
		return served(r, func(in *host.Schedule) (host.Schedule, error) {
			next := now.Add(time.Hour)
			in.Next = &next
			return h.setSchedule(*in), nil
		})
	case host.ScheduleCancel:
		return served(r, func(in *host.ScheduleInput) (host.CountOutput, error) {
			if h.cancelSchedule(in.Name, in.Instance) {
				return host.CountOutput{Count: 1}, nil
			}
			return host.CountOutput{}, nil
		})
	case host.ScheduleList:
		return served(r, func(in *host.ScheduleListInput) (host.ScheduleListOutput, error) {
			return host.ScheduleListOutput{Schedules: h.listSchedules(in.Name)}, nil
		})
	case host.ScheduleTrigger:
		return served(r, func(in *host.ScheduleInput) (host.Schedule, error) {
			put(&h.runs, in.Name, append([]host.ScheduleRun{{Run: uint64(len(h.runs[in.Name])) + 1, Result: "ok"}}, h.runs[in.Name]...))
			return host.Schedule{Name: in.Name}, nil
		})
	case host.ScheduleRuns:
		return served(r, func(in *host.ScheduleInput) (host.ScheduleRunsOutput, error) {
			return host.ScheduleRunsOutput{Runs: h.runs[in.Name]}, nil
		})
	case host.StreamAppend:
		return served(r, func(in *host.StreamAppendInput) (host.StreamAppendOutput, error) {
			if i := find(b.Streams, in.Stream, streamName); i < 0 || !b.Streams[i].External {
				return host.StreamAppendOutput{}, host.Errorf(host.PermissionDenied, "not for clients")
			}
			items := make([][]byte, len(in.Items))
			for i := range in.Items {
				items[i] = in.Items[i]
			}
			last, err := h.appendTo(in.Stream, now, items)
			return host.StreamAppendOutput{Last: last}, err
		})
	case host.StreamClose:
		return served(r, func(in *host.StreamInput) (host.StreamInfo, error) {
			s := h.streams[in.Stream]
			s.closed = true
			put(&h.streams, in.Stream, s)
			return h.info(in.Stream), nil
		})
	case host.StreamDelete:
		return served(r, func(in *host.StreamInput) (host.CountOutput, error) {
			_, was := h.streams[in.Stream]
			delete(h.streams, in.Stream)
			return host.CountOutput{Count: map[bool]int64{true: 1}[was]}, nil
		})
	case host.StreamList:
		return served(r, func(in *host.StreamListInput) (host.StreamListOutput, error) {
			return host.StreamListOutput{Streams: []host.StreamInfo{h.info(in.Stream)}}, nil
		})
	case host.ConnectionList:
		return served(r, func(in *host.ConnectionListInput) (out host.ConnectionListOutput, err error) {
			t := fakeTurn{holding: *h}
			page, err := t.Connections(in.After, 2)
			for _, c := range page {
				out.Connections = append(out.Connections, host.ConnectionInfo{ID: c.ID, Transport: c.Transport})
			}
			out.More = len(page) == 2
			return out, err
		})
	case host.ConnectionClose:
		return served(r, func(in *host.ConnectionCloseInput) (host.CountOutput, error) {
			_, was := h.connections[in.Connection]
			delete(h.connections, in.Connection)
			return host.CountOutput{Count: map[bool]int64{true: 1}[was]}, nil
		})
	}
	return nil, host.Errorf(host.UnknownMethod, "no method %q", r.Method)
}

func enqueues(in []host.QueueMessageInput) []host.Enqueue {
	out := make([]host.Enqueue, len(in))
	for i, m := range in {
		out[i] = host.Enqueue{
			Body: m.Body, Delay: time.Duration(m.DelayMS) * time.Millisecond, Priority: m.Priority, DedupID: m.DedupID,
			WantReply: m.WantReply,
		}
		if m.TTLMS != nil {
			out[i].TTL = time.Duration(*m.TTLMS) * time.Millisecond
		}
		if m.BackoffMS != nil {
			out[i].Backoff = []time.Duration{}
		}
		for _, ms := range m.BackoffMS {
			out[i].Backoff = append(out[i].Backoff, time.Duration(ms)*time.Millisecond)
		}
		for _, key := range m.KeysIfUndelivered {
			out[i].KeysIfUndelivered = append(out[i].KeysIfUndelivered, []byte(fmt.Sprint(key)))
		}
	}
	return out
}

func (h *fakeHolding) receive(in *host.QueueReceiveInput, now time.Time, lock time.Duration) (out host.QueueReceiveOutput) {
	if in.LockMS != 0 {
		lock = time.Duration(in.LockMS) * time.Millisecond
	}
	for len(out.Messages) < max(in.Limit, 1) {
		m := h.next(func(queue string) bool { return queue == in.Queue }, now)
		if m == nil {
			break
		}
		m.attempt++
		m.receipt = fmt.Sprintf("%d-%d", m.id, m.attempt)
		m.due = now.Add(lock)
		out.Messages = append(out.Messages, host.ReceivedMessage{
			ID: m.id, Queue: m.queue, Body: m.Body, Attempt: m.attempt, Priority: m.Priority, Sent: m.sent, DedupID: m.DedupID,
			WantReply: m.WantReply, Receipt: m.receipt, LockedUntil: m.due,
		})
	}
	return out
}

// settle does something about the messages whose receipts are valid.
func (h *fakeHolding) settle(receipts []string, now time.Time, f func(*fakeMessage)) (out host.QueueSettleOutput) {
	for _, receipt := range receipts {
		i := slices.IndexFunc(h.messages, func(m fakeMessage) bool { return m.receipt == receipt && !m.dead && m.due.After(now) })
		if i < 0 {
			out.Lost = append(out.Lost, receipt)
			continue
		}
		out.Settled++
		f(&h.messages[i])
	}
	return out
}

func (h *fakeHolding) list(in *host.QueueListInput, dead bool, limit int) (out host.QueueListOutput) {
	for _, m := range h.messages {
		if m.queue != in.Queue || m.dead != dead || m.id <= in.After {
			continue
		}
		if len(out.Messages) == limit {
			out.More = true
			break
		}
		l := host.ListedMessage{
			ID: m.id, Queue: m.queue, Body: m.Body, State: "pending", Attempts: m.attempt, Sent: m.sent, DedupID: m.DedupID, Error: m.cause,
		}
		if dead {
			l.State, l.Died = "dead", &m.due
		}
		out.Messages = append(out.Messages, l)
	}
	return out
}

func (h *fakeHolding) selected(in *host.QueueSelectInput, method string) (out host.CountOutput) {
	for i := range h.messages {
		m := &h.messages[i]
		if m.queue != in.Queue || m.dead != (method != host.QueueDelete) || !in.All && !slices.Contains(in.IDs, m.id) {
			continue
		}
		out.Count++
		if method == host.QueueDeadRequeue {
			m.dead, m.attempt = false, 0
		} else {
			m.queue = "" // gone
		}
	}
	return out
}
