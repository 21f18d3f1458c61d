package queuerows

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// Send adds 1 to host.MaxQueueBatch messages to a queue, all or none, and returns their results in
// order. A message whose de-duplication id the queue has seen within its window is not added: it
// gets the id of the first.
//
// The error is host.InvalidArgument, host.TooLarge for a body, host.Overloaded if the queue is full
// (retryable; "what" in its metadata is "messages" or "bytes"), or host.NotFound for an unknown
// queue; nothing was done then.
func (s *Set) Send(queue string, messages []host.Enqueue) ([]host.Sent, error) {
	l, err := s.open(queue)
	if err != nil {
		return nil, err
	}
	if err := Check(&l.cfg, messages); err != nil {
		return nil, err
	}
	sent := make([]host.Sent, len(messages))
	inBatch, err := s.duplicates(l, messages, sent)
	if err != nil {
		return nil, err
	}
	added, bytes := int64(0), int64(0)
	for i := range messages {
		if !sent[i].Duplicate {
			added++
			bytes += int64(len(messages[i].Body))
		}
	}
	if err := l.room(added, bytes); err != nil {
		return nil, err
	}
	for i := range messages {
		e := &messages[i]
		switch {
		case !sent[i].Duplicate:
			if sent[i].ID, err = s.sendOne(l, e); err != nil {
				return nil, err
			}
		case sent[i].ID == 0:
			sent[i].ID = sent[inBatch[e.DedupID]].ID
		}
	}
	return sent, nil
}

// Check returns what is wrong with messages for a queue, regardless of its content. cfg has its
// defaults filled in.
func Check(cfg *host.Queue, messages []host.Enqueue) error {
	if err := CheckCount(len(messages)); err != nil {
		return err
	}
	for i := range messages {
		if err := check(cfg, messages, i); err != nil {
			return err
		}
	}
	return nil
}

// CheckCount returns an error for a batch of n messages that has none, or too many.
func CheckCount(n int) error {
	switch {
	case n == 0:
		return host.Errorf(host.InvalidArgument, "messages: there are none, want 1 to %d",
			host.MaxQueueBatch).With("field", "messages")
	case n > host.MaxQueueBatch:
		return host.OverLimit("messages", host.MaxQueueBatch, int64(n)).With("field", "messages")
	}
	return nil
}

// room returns an error if the queue has no room for more messages. Messages that do not even fit
// an empty queue need not be tried again.
func (l *line) room(messages, bytes int64) error {
	if messages > int64(l.cfg.Messages) {
		return tooMany(l.name, "messages", int64(l.cfg.Messages), messages)
	}
	if l.cfg.Bytes > 0 && bytes > l.cfg.Bytes {
		return tooMany(l.name, "bytes", l.cfg.Bytes, bytes)
	}
	if n := l.held() + messages; messages > 0 && n > int64(l.cfg.Messages) {
		return full(l.name, "messages", int64(l.cfg.Messages), n)
	}
	if n := l.bytes + bytes; bytes > 0 && l.cfg.Bytes > 0 && n > l.cfg.Bytes {
		return full(l.name, "bytes", l.cfg.Bytes, n)
	}
	return nil
}

func tooMany(queue, what string, limit, actual int64) *host.Error {
	e := host.OverLimit(what, limit, actual)
	e.Message = fmt.Sprintf("queue %q holds %d %s, and not the %d of this batch", queue, limit, what, actual)
	return e
}

func full(queue, what string, limit, actual int64) *host.Error {
	e := host.Errorf(host.Overloaded, "queue %q is full: it would have %d %s, its limit is %d",
		queue, actual, what, limit)
	e.Retryable = true
	e.Metadata = map[string]string{
		"what": what, "limit": strconv.FormatInt(limit, 10), "actual": strconv.FormatInt(actual, 10),
	}
	return e
}

// check returns what is wrong with message i of a batch.
func check(cfg *host.Queue, messages []host.Enqueue, i int) error {
	e := &messages[i]
	bad := func(field, format string, args ...any) error {
		if len(messages) > 1 {
			field = fmt.Sprintf("messages[%d].%s", i, field)
		}
		return host.Errorf(host.InvalidArgument, "%s: %s", field, fmt.Sprintf(format, args...)).With("field", field)
	}
	switch {
	case len(e.Body) > cfg.MessageBytes:
		field, err := "body", host.OverLimit("body", int64(cfg.MessageBytes), int64(len(e.Body)))
		if len(messages) > 1 {
			field = fmt.Sprintf("messages[%d].body", i)
			err.Message = strings.Replace(err.Message, "body", field, 1)
		}
		return err.With("field", field)
	case e.Delay < 0 || e.Delay > host.MaxQueueDelay:
		return bad("delay_ms", "%s", outside(e.Delay))
	case e.Priority < -host.MaxQueuePriority || e.Priority > host.MaxQueuePriority:
		return bad("priority", "%d, want %d to %d", e.Priority, -host.MaxQueuePriority, host.MaxQueuePriority)
	case len(e.DedupID) > host.MaxDedupID:
		return bad("dedup_id", "%d bytes, the limit is %d", len(e.DedupID), host.MaxDedupID)
	case e.TTL < 0 || e.TTL > host.MaxQueueDelay:
		return bad("ttl_ms", "%s", outside(e.TTL))
	case e.TTL > 0 && milliseconds(e.TTL) <= milliseconds(e.Delay):
		return bad("ttl_ms", "%d is over before the delay of %d", e.TTL.Milliseconds(), e.Delay.Milliseconds())
	case len(e.Backoff) > maxPauses:
		return bad("backoff_ms", "%d pauses, the limit is %d", len(e.Backoff), maxPauses)
	case len(e.KeysIfUndelivered) > maxKeys:
		return bad("keys_if_undelivered", "%d keys, the limit is %d", len(e.KeysIfUndelivered), maxKeys)
	}
	for k, pause := range e.Backoff {
		if pause < 0 || pause > host.MaxQueueDelay {
			return bad(fmt.Sprintf("backoff_ms[%d]", k), "%s", outside(pause))
		}
	}
	for k, key := range e.KeysIfUndelivered {
		if len(key) > maxKeyBytes {
			return bad(fmt.Sprintf("keys_if_undelivered[%d]", k), "%d bytes, the limit is %d", len(key), maxKeyBytes)
		}
		if _, err := tuple.Unpack(key); err != nil {
			return bad(fmt.Sprintf("keys_if_undelivered[%d]", k), "it is not a packed tuple")
		}
	}
	return nil
}

// duplicates marks the messages of a batch that repeat the de-duplication id of an earlier one. If
// the earlier one is in the batch, its place is returned, and the mark has no id.
func (s *Set) duplicates(l *line, messages []host.Enqueue, sent []host.Sent) (inBatch map[string]int, err error) {
	for i := range messages {
		id := messages[i].DedupID
		if id == "" {
			continue
		}
		if _, ok := inBatch[id]; ok {
			sent[i].Duplicate = true
			continue
		}
		s.key = keyspace.QueueDedup.Append(s.key[:0], l.name, id)
		e, ok, err := s.rows.Get(s.key)
		if err == nil && ok {
			sent[i].Duplicate = true
			sent[i].ID, err = decodeDedup(e.Value)
		}
		if err != nil {
			return nil, s.fail(err)
		}
		if !ok && len(messages) > 1 {
			if inBatch == nil {
				inBatch = make(map[string]int)
			}
			inBatch[id] = i
		}
	}
	return inBatch, nil
}

// sendOne writes a message that was checked and returns its id.
func (s *Set) sendOne(l *line, e *host.Enqueue) (uint64, error) {
	meta, err := s.metadata()
	if err != nil {
		return 0, err
	}
	m := &s.out
	*m = message{
		id: meta.next, state: pending, priority: int16(e.Priority), created: s.now,
		queue: append(m.queue[:0], l.name...), dedup: append(m.dedup[:0], e.DedupID...), body: e.Body,
		backoff: m.backoff[:0], keys: m.keys[:0],
	}
	if e.WantReply {
		m.flags |= flagReply
	}
	if e.TTL > 0 {
		m.flags |= flagTTL
		m.ttl = milliseconds(e.TTL)
		m.expires = s.now + m.ttl
	}
	if s.Span.Sampled() {
		m.flags |= flagSpan
		m.span = s.Span
	}
	if e.Backoff != nil {
		m.flags |= flagBackoff
		m.backoff = binary.AppendUvarint(m.backoff, uint64(len(e.Backoff)))
		for _, pause := range e.Backoff {
			m.backoff = binary.AppendUvarint(m.backoff, uint64(milliseconds(pause)))
		}
	}
	if len(e.KeysIfUndelivered) > 0 {
		m.keys = binary.AppendUvarint(m.keys, uint64(len(e.KeysIfUndelivered)))
		for _, key := range e.KeysIfUndelivered {
			m.keys = appendText(m.keys, key)
		}
	}
	if e.Delay > 0 {
		m.state, m.due = delayed, s.now+milliseconds(e.Delay)
	}
	s.key = keyspace.QueueMessage.Append(s.key[:0], m.id)
	s.value = m.append(s.value[:0])
	err = s.fail(s.rows.Put(s.key, s.value, engine.PutOptions{New: true}))
	m.body = nil // it is the caller's
	if err != nil {
		return 0, err
	}
	meta.next++
	meta.count++
	l.bytes += int64(len(e.Body))
	l.sent++
	if err := s.enter(l, m); err != nil {
		return 0, err
	}
	if e.DedupID != "" {
		at := s.now + milliseconds(l.cfg.DedupWindow)
		s.key = keyspace.QueueDedup.Append(s.key[:0], l.name, e.DedupID)
		s.value = appendDedup(s.value[:0], m.id)
		if err := s.rows.Put(s.key, s.value, engine.PutOptions{ExpireAt: at}); err != nil {
			return 0, s.fail(err)
		}
		s.expires(at)
	}
	return m.id, nil
}

// outside says that a span is too short or too long. A span below a millisecond is shown as one.
func outside(d time.Duration) string {
	ms := d.Milliseconds()
	if d < 0 {
		ms = min(ms, -1)
	}
	return outsideMS(ms)
}

func outsideMS(ms int64) string {
	return fmt.Sprintf("%d is not from 0 to %d", ms, host.MaxQueueDelay.Milliseconds())
}

// checkSpan returns what is wrong with a lock or pause that a caller asks for.
func checkSpan(field string, d time.Duration) error {
	if d < 0 || d > host.MaxQueueDelay {
		return host.Errorf(host.InvalidArgument, "%s: %s", field, outside(d)).With("field", field)
	}
	return nil
}

// Span returns a span of milliseconds from a request; these may be more than a Duration can hold.
// field names it in the error.
func Span(field string, ms int64) (time.Duration, error) {
	if ms < 0 || ms > host.MaxQueueDelay.Milliseconds() {
		return 0, host.Errorf(host.InvalidArgument, "%s: %s", field, outsideMS(ms)).With("field", field)
	}
	return time.Duration(ms) * time.Millisecond, nil
}
