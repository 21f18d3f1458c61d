package queuerows

import (
	"bytes"
	"math"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// Rest returns how many messages of a queue wait, pending or delayed, and how many dead letters it
// has, as of the changes of this Set.
func (s *Set) Rest(queue string) (waiting, dead int64, err error) {
	l, err := s.openAny(queue)
	if err != nil {
		return 0, 0, err
	}
	return l.waiting(), l.fronts[deadIndex].n, nil
}

const causeSkipped = "skipped by an operator"

// Skip makes the message that is received next a dead letter. It returns 0 if none can be received.
func (s *Set) Skip(queue string) (int64, error) {
	l, err := s.openAny(queue)
	if err != nil {
		return 0, err
	}
	m, err := s.ready(l)
	if m == nil || err != nil {
		return 0, err
	}
	cause := causeSkipped
	if len(m.cause) > 0 {
		cause += "; the last attempt failed: " + string(m.cause)
	}
	if err := s.bury(l, m, cause, host.Errorf(host.Canceled, causeSkipped)); err != nil {
		return 0, err
	}
	return 1, nil
}

// Delete removes messages of a queue by their ids, locked ones too, and returns their number. It
// reports no result to senders.
func (s *Set) Delete(queue string, ids []uint64) (int64, error) {
	l, err := s.selecting(queue, ids)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for _, id := range ids {
		ok, err := s.get(id)
		if err != nil {
			return n, err
		}
		if !ok || string(s.msg.queue) != l.name {
			continue
		}
		if err := s.drop(l, &s.msg); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// An Edit is a change of a message; nil leaves the field as it is.
type Edit struct {
	Body     []byte
	Priority *int
	Delay    *time.Duration // until it can be received; 0 is at once
}

// Replace changes a message of a queue that no worker holds, or a dead letter, and returns it as it
// was and as it is. The error code is NotFound if there is no such message, and FailedPrecondition
// if a worker holds it.
func (s *Set) Replace(queue string, id uint64, e Edit) (before, after host.ListedMessage, err error) {
	if p := e.Priority; p != nil && (*p < -host.MaxQueuePriority || *p > host.MaxQueuePriority) {
		return before, after,
			host.Errorf(host.InvalidArgument, "priority: %d, want %d to %d", *p,
				-host.MaxQueuePriority, host.MaxQueuePriority).With("field", "priority")
	}
	l, err := s.openAny(queue)
	if err != nil {
		return before, after, err
	}
	m := &s.msg
	ok, err := s.get(id)
	if err == nil && !ok {
		ok, err = s.readDead(l, id, m)
	}
	switch {
	case err != nil:
		return before, after, err
	case !ok || string(m.queue) != l.name:
		return before, after, host.Errorf(host.NotFound, "the queue %q has no message %d", queue, id)
	case m.state == locked:
		return before, after, host.Errorf(host.FailedPrecondition, "a worker holds message %d", id).Retry()
	case m.state == dead && e.Delay != nil:
		return before, after,
			host.Errorf(host.InvalidArgument, "delay_ms: a dead letter has no delay").With("field", "delay_ms")
	case len(e.Body) > l.cfg.MessageBytes:
		return before, after,
			host.OverLimit("body", int64(l.cfg.MessageBytes), int64(len(e.Body))).With("field", "body")
	}
	if grows := int64(len(e.Body) - len(m.body)); e.Body != nil && m.state != dead {
		if err := l.room(0, grows); err != nil {
			return before, after, err
		}
		l.bytes, l.dirty = max(l.bytes+grows, 0), true
	}
	before = m.listed()
	before.Body = bytes.Clone(before.Body)
	if err := s.leave(l, m); err != nil {
		return before, after, err
	}
	if e.Body != nil {
		m.body = e.Body
	}
	if e.Priority != nil {
		m.priority = int16(*e.Priority)
	}
	if e.Delay != nil {
		m.state, m.due = pending, 0
		if *e.Delay > 0 {
			m.state, m.due = delayed, s.now+milliseconds(*e.Delay)
		}
	}
	if m.state == dead {
		s.key = keyspace.DeadLetter.Append(s.key[:0], l.name, m.id)
		err = s.fail(s.putText(s.key, m, engine.PutOptions{}))
	} else {
		err = s.put(m, false)
	}
	if err == nil {
		err = s.enter(l, m)
	}
	after = m.listed()
	after.Body = bytes.Clone(after.Body)
	return before, after, err
}

// drop removes a message without a trace.
func (s *Set) drop(l *line, m *message) error {
	if err := s.leave(l, m); err != nil {
		return err
	}
	if m.wantsReply() {
		s.Replied = append(s.Replied, m.id)
	}
	return s.remove(l, m)
}

// Purge removes the pending and delayed messages of a queue, not the locked ones. It returns their
// number. One call removes all of them if the actor has no other messages, otherwise up to 10,000
// or 16 MiB: call it until it returns 0.
func (s *Set) Purge(queue string) (int64, error) {
	l, err := s.openAny(queue)
	if err != nil {
		return 0, err
	}
	waiting := l.waiting()
	if waiting == 0 {
		return 0, nil
	}
	meta, err := s.metadata()
	if err != nil {
		return 0, err
	}
	if meta.count == waiting {
		return waiting, s.purgeAll(l, meta)
	}
	n, most := int64(0), s.share(maxOperateBytes)
	for bytes := 0; n < maxOperate && bytes < most; {
		places, err := walk(s.rows, l.name, readyIndex, &l.fronts[readyIndex], 1_000, last)
		if err == nil && len(places) == 0 {
			places, err = walk(s.rows, l.name, delayedIndex, &l.fronts[delayedIndex], 1_000, last)
		}
		if err != nil {
			return n, s.fail(err)
		}
		if len(places) == 0 {
			break
		}
		err = s.each(places, func(m *message) (bool, error) {
			if string(m.queue) != l.name || m.state != pending && m.state != delayed {
				return false, corrupt("queue %q: message %d is %v, the index tells otherwise", l.name, m.id, m.state)
			}
			n++
			bytes += len(m.body)
			return bytes < most, s.drop(l, m)
		})
		if err != nil {
			return n, s.fail(err)
		}
	}
	return n, nil
}

// purgeAll removes the messages of the only queue that has any, as ranges.
func (s *Set) purgeAll(l *line, meta *metadata) error {
	if err := s.replyTo(l); err != nil {
		return err
	}
	start, end := keyspace.QueueMessage.Range()
	if _, err := s.rows.DeleteRange(start, end); err != nil {
		return s.fail(err)
	}
	for _, ix := range []index{readyIndex, delayedIndex, ttlIndex} {
		if err := s.clear(l, ix); err != nil {
			return err
		}
	}
	meta.count, l.bytes = 0, 0
	return nil
}

// replyTo records the first messages whose senders may wait for a reply, up to one page; the others
// find it with their next request.
func (s *Set) replyTo(l *line) error {
	start, end := keyspace.QueueMessage.Range()
	page, err := s.rows.List(engine.ListQuery{Start: start, End: end, Limit: 1_000, MaxBytes: maxReceiveBytes})
	if err != nil {
		return s.fail(err)
	}
	for i := range page.Entries {
		m := s.scratch()
		if err := m.decode(math.MaxUint64, page.Entries[i].Value); err != nil || !m.wantsReply() {
			continue // purging also gets rid of a row that cannot be read
		}
		if id, err := keyspace.QueueMessage.Parse(page.Entries[i].Key); err == nil {
			s.Replied = append(s.Replied, id)
		}
	}
	return nil
}
