package queuerows

import (
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// Stats returns the counts of a queue, which are zero if it was never used.
func Stats(rows engine.Reader, queue string) (host.QueueStats, error) {
	var c counts
	if !possible(queue) {
		return host.QueueStats{}, Unknown(queue)
	}
	if err := readCounts(rows, queue, &c); err != nil {
		return host.QueueStats{}, err
	}
	return c.stats(rows, queue)
}

// AllStats returns the counts of the queues that were ever used, in the order of their names.
func AllStats(rows engine.Reader) ([]host.QueueStats, error) {
	var all []host.QueueStats
	err := each(rows, func(queue string, c *counts) error {
		s, err := c.stats(rows, queue)
		all = append(all, s)
		return err
	})
	return all, err
}

// A Wake is the row that a queue has in the wake index.
type Wake struct {
	Queue string
	Due   int64 // Unix ms
}

// Wakes returns the rows that the queues of an actor have in the wake index.
func Wakes(rows engine.Reader) ([]Wake, error) {
	var wakes []Wake
	err := each(rows, func(queue string, c *counts) error {
		if c.wake != 0 {
			wakes = append(wakes, Wake{queue, c.wake})
		}
		return nil
	})
	return wakes, err
}

// each calls f with the counts of each queue that was ever used, in the order of their names, until
// it fails.
func each(rows engine.Reader, f func(queue string, c *counts) error) error {
	start, end := keyspace.QueueStats.Range()
	q := engine.ListQuery{Start: start, End: end, Limit: 1_000}
	for {
		page, err := rows.List(q)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			queue, err := keyspace.QueueStats.Parse(page.Entries[i].Key)
			if err != nil {
				return corrupt("%v", err)
			}
			var c counts
			if err := c.decode(queue, page.Entries[i].Value); err != nil {
				return err
			}
			if err := f(queue, &c); err != nil {
				return err
			}
		}
		if q.After = page.Next; q.After == nil {
			return nil
		}
	}
}

func (c *counts) stats(rows engine.Reader, queue string) (host.QueueStats, error) {
	s := host.QueueStats{
		Queue:   queue,
		Pending: c.fronts[readyIndex].n, Delayed: c.fronts[delayedIndex].n,
		Processing: c.fronts[lockedIndex].n, Dead: c.fronts[deadIndex].n,
		Bytes: c.bytes, Sent: c.sent, Done: c.done, Failed: c.failed,
	}
	var m message
	ok, err := firstReady(rows, nil, queue, &c.fronts[readyIndex], &m)
	if err != nil {
		return host.QueueStats{}, err
	}
	if ok {
		s.Oldest = timeOf(m.created)
	}
	next := last
	for _, ix := range []index{delayedIndex, lockedIndex} {
		places, err := walk(rows, queue, ix, &c.fronts[ix], 1, last)
		if err != nil {
			return host.QueueStats{}, err
		}
		if len(places) > 0 && places[0].before(next) {
			next = places[0]
			s.NextDue = timeOf(next.at)
		}
	}
	return s, nil
}

// timeOf returns a stored time, nil for 0.
func timeOf(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms)
	return &t
}

// Held returns the receipts that still lock their messages, in their order.
func Held(rows engine.Reader, queue string, receipts []string) ([]string, error) {
	if err := checkReceipts(receipts); err != nil {
		return nil, err
	}
	var held []string
	for _, r := range receipts {
		id, nonce, ok := parseReceipt(r)
		if !ok {
			continue
		}
		var m message
		ok, err := readMessage(rows, nil, id, &m)
		if err != nil {
			return nil, err
		}
		if ok && m.lockedBy(queue, nonce) {
			held = append(held, r)
		}
	}
	return held, nil
}

// A Result is the result of a message that was sent with WantReply.
type Result struct {
	// Done: it was handled, or given up. Until then the other fields are empty.
	Done bool
	// Reply is the answer of the handler or worker, CBOR, and may be empty.
	Reply []byte
	// Err is why the message became a dead letter; nil if it did not.
	Err *host.Error
}

// ResultOf returns the result of a message. known is false if the queue has no such message with a
// wanted reply, or if the reply is no longer kept at now.
func ResultOf(rows engine.Reader, queue string, id uint64, now time.Time) (res Result, known bool, err error) {
	e, ok, err := rows.Get(keyspace.QueueReply.Append(nil, id))
	if err != nil {
		return Result{}, false, err
	}
	if ok && (e.Expire == 0 || e.Expire > now.UnixMilli()) {
		var r reply
		if err := r.decode(id, e.Value); err != nil {
			return Result{}, false, err
		}
		if string(r.queue) != queue {
			return Result{}, false, nil
		}
		if r.open {
			return Result{}, true, nil
		}
		if r.failure != nil {
			return Result{Done: true, Err: r.failure}, true, nil
		}
		return Result{Done: true, Reply: r.value}, true, nil
	}
	var m message
	ok, err = readMessage(rows, nil, id, &m)
	return Result{}, ok && m.wantsReply() && string(m.queue) == queue, err
}

// Peek lists messages of a queue that wait or are locked, in the order of their ids, and reports
// whether there are more. Limit 0 is 100; a page with large bodies ends before it. It skips
// messages of other queues between them, so with many of those it takes long.
func Peek(rows engine.Reader, in *host.QueueListInput) ([]host.ListedMessage, bool, error) {
	_, end := keyspace.QueueMessage.Range()
	return list(rows, in, listing{
		key: func(id uint64) []byte { return keyspace.QueueMessage.Append(nil, id) },
		end: end,
		parse: func(m *message, e *engine.Entry) error {
			id, err := keyspace.QueueMessage.Parse(e.Key)
			if err != nil {
				return corrupt("%v", err)
			}
			return m.decode(id, e.Value)
		},
	})
}

// DeadList lists dead letters of a queue like Peek.
func DeadList(rows engine.Reader, in *host.QueueListInput) ([]host.ListedMessage, bool, error) {
	return list(rows, in, listing{
		key: func(id uint64) []byte { return keyspace.DeadLetter.Append(nil, in.Queue, id) },
		end: keyspace.TupleEnd(keyspace.DeadLetter.Prefix(nil, in.Queue)),
		parse: func(m *message, e *engine.Entry) error {
			_, id, err := keyspace.DeadLetter.Parse(e.Key)
			if err != nil {
				return corrupt("%v", err)
			}
			return m.decodeDead(id, e.Value)
		},
	})
}

// A listing is where messages are listed.
type listing struct {
	key   func(id uint64) []byte
	end   []byte
	parse func(m *message, e *engine.Entry) error
}

func list(rows engine.Reader, in *host.QueueListInput, from listing) (listed []host.ListedMessage,
	more bool, err error) {
	limit := in.Limit
	if limit == 0 {
		limit = 100
	}
	switch {
	case !possible(in.Queue):
		return nil, false, Unknown(in.Queue)
	case limit < 1 || limit > host.MaxQueueBatch:
		return nil, false,
			host.Errorf(host.InvalidArgument, "limit: %d, want 1 to %d", limit, host.MaxQueueBatch).
				With("field", "limit")
	case len(in.IDs) > host.MaxQueueBatch:
		return nil, false, host.OverLimit("ids", host.MaxQueueBatch, int64(len(in.IDs))).With("field", "ids")
	}
	size := 0
	add := func(e *engine.Entry) (full bool, err error) {
		var m message
		if err := from.parse(&m, e); err != nil {
			return false, err
		}
		if string(m.queue) != in.Queue {
			return false, nil
		}
		size += len(m.body)
		if len(listed) == limit || size > maxReceiveBytes && len(listed) > 0 {
			return true, nil
		}
		listed = append(listed, m.listed())
		return false, nil
	}
	if len(in.IDs) > 0 {
		ids := slices.Clone(in.IDs)
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			if id <= in.After {
				continue
			}
			e, ok, err := rows.Get(from.key(id))
			if err != nil {
				return nil, false, err
			}
			if !ok {
				continue
			}
			if full, err := add(&e); full || err != nil {
				return listed, full, err
			}
		}
		return listed, false, nil
	}
	if in.After == ^uint64(0) {
		return nil, false, nil
	}
	q := engine.ListQuery{Start: from.key(in.After + 1), End: from.end, Limit: 1_000, MaxBytes: maxReceiveBytes}
	for {
		page, err := rows.List(q)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Entries {
			if full, err := add(&page.Entries[i]); full || err != nil {
				return listed, full, err
			}
		}
		if q.After = page.Next; q.After == nil {
			return listed, false, nil
		}
	}
}

// listed returns the message as operators see it, with its body as it is stored.
func (m *message) listed() host.ListedMessage {
	l := host.ListedMessage{
		ID: m.id, Queue: string(m.queue), Body: m.body, State: m.state.String(), Priority: int(m.priority),
		Attempts: int(m.attempts), Sent: time.UnixMilli(m.created), Expires: timeOf(m.expires), DedupID: string(m.dedup),
		Error: string(m.cause), Tried: timeOf(m.tried), Died: timeOf(m.died),
	}
	if m.state == delayed || m.state == locked {
		l.Due = timeOf(m.due)
	}
	return l
}
