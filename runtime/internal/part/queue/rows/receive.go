package queuerows

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// maxReceiveBytes is how many bytes of bodies a call returns before it stops short of its limit,
// and how many bytes a call reads that works through messages.
const maxReceiveBytes = 4 << 20

// Next returns the next message for the actor's own handler, and false if none can be received. It
// only makes due messages receivable and expired ones dead letters. The message is settled with
// Done, in the handler's turn, or with Fail, in a turn of its own; until then it stays the next.
func (s *Set) Next(queue string) (*host.Received, bool, error) {
	l, err := s.open(queue)
	if err != nil {
		return nil, false, err
	}
	m, err := s.ready(l)
	if m == nil || err != nil {
		return nil, false, err
	}
	r := new(host.Received)
	m.received(r, l.name)
	r.Attempt++
	return r, true, nil
}

// ready reads the first message that can be received into s.msg, nil if there is none. It is also
// nil after many messages that had expired; then a due row for the queue follows.
func (s *Set) ready(l *line) (*message, error) {
	if err := s.catchUp(l); err != nil {
		return nil, err
	}
	m := s.scratch()
	for bytes := s.share(maxReceiveBytes); bytes > 0; bytes -= m.weight() + 4<<10 {
		ok, err := firstReady(s.rows, s.key, l.name, &l.fronts[readyIndex], m)
		if err != nil {
			return nil, s.fail(err)
		}
		if !ok {
			return nil, nil
		}
		if !m.expired(s.now) {
			s.fresh = true
			return m, nil
		}
		if err := s.expire(l, m); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (m *message) received(r *host.Received, queue string) {
	r.ID, r.Queue, r.Body = m.id, queue, m.body
	r.Attempt, r.Priority = int(m.attempts), int(m.priority)
	r.Sent = time.UnixMilli(m.created)
	r.DedupID = string(m.dedup)
	r.WantReply = m.wantsReply()
	r.Span = m.span
}

// Done removes a message that Next returned: its handler has done its work in this turn. reply is
// kept if the sender wants one; it is CBOR, of at most the queue's limit for a body.
//
// The error is host.FailedPrecondition if the message is no longer in the queue; the turn must not
// be committed then.
func (s *Set) Done(m *host.Received, reply []byte) error {
	l, err := s.open(m.Queue)
	if err == nil {
		err = checkReply(l, reply)
	}
	if err != nil {
		return err
	}
	msg, err := s.handled(l, m.ID)
	if err != nil {
		return err
	}
	if msg == nil {
		return host.Errorf(host.FailedPrecondition, "message %d is no longer in queue %q", m.ID, m.Queue)
	}
	return s.done(l, msg, reply)
}

// handled returns a message that Next returned, nil if it is no longer there or no longer pending.
func (s *Set) handled(l *line, id uint64) (*message, error) {
	m := &s.msg
	if s.fresh && m.id == id && string(m.queue) == l.name {
		return m, nil
	}
	ok, err := s.get(id)
	if err != nil || !ok || m.state != pending || string(m.queue) != l.name {
		return nil, err
	}
	return m, nil
}

// done removes a message that is settled.
func (s *Set) done(l *line, m *message, value []byte) error {
	if err := s.leave(l, m); err != nil {
		return err
	}
	if err := s.remove(l, m); err != nil {
		return err
	}
	l.done++
	if !m.wantsReply() {
		return nil
	}
	return s.reply(l, m, &reply{queue: m.queue, value: value})
}

// reply keeps the result of a message for its sender.
func (s *Set) reply(l *line, m *message, r *reply) error {
	at := s.now + milliseconds(l.cfg.ReplyFor)
	s.key = keyspace.QueueReply.Append(s.key[:0], m.id)
	s.value = r.append(s.value[:0])
	// A reply that is no larger than the message takes its room.
	o := engine.PutOptions{ExpireAt: at, Exempt: r.failure != nil || len(r.value) <= len(m.body)}
	if err := s.rows.Put(s.key, s.value, o); err != nil {
		return s.fail(err)
	}
	s.expires(at)
	s.Replied = append(s.Replied, m.id)
	return nil
}

func checkReply(l *line, reply []byte) error {
	if len(reply) <= l.cfg.MessageBytes {
		return nil
	}
	return host.OverLimit("reply", int64(l.cfg.MessageBytes), int64(len(reply))).With("field", "reply")
}

// Fail counts a failed attempt of a message that Next returned: it waits for its next attempt, or
// becomes a dead letter if that was the last. It does nothing if the message is no longer there.
//
// The message keeps reason, for operators; cause is what its sender may be told. An empty reason is
// the message of cause.
func (s *Set) Fail(m *host.Received, cause *host.Error, reason string) error {
	l, err := s.openAny(m.Queue)
	if err != nil {
		return err
	}
	msg, err := s.handled(l, m.ID)
	if msg == nil || err != nil {
		return err
	}
	if cause == nil {
		cause = host.Errorf(host.Internal, "the handler failed")
	}
	msg.attempts++
	return s.failed(l, msg, failure{told: cause, cause: reason})
}

// Receive locks up to limit messages for a worker, 1 to host.MaxQueueBatch, and counts an attempt
// of each. lock is how long they are locked, 0 for the queue's. It returns fewer if no more can be
// received now, or if their bodies are large: it stops before they are more than 4 MiB in all.
func (s *Set) Receive(queue string, limit int, lock time.Duration) ([]host.Received, error) {
	l, err := s.open(queue)
	if err == nil {
		err = checkSpan("lock_ms", lock)
	}
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > host.MaxQueueBatch {
		return nil, host.Errorf(host.InvalidArgument, "limit: %d, want 1 to %d", limit,
			host.MaxQueueBatch).With("field", "limit")
	}
	if lock == 0 {
		lock = l.cfg.Lock
	}
	first, err := s.ready(l)
	if first == nil || err != nil {
		return nil, err
	}
	until := s.now + milliseconds(lock)
	if limit == 1 || l.fronts[readyIndex].n == 1 {
		received := make([]host.Received, 1)
		return received, s.lock(l, first, until, &received[0])
	}
	places, err := walk(s.rows, l.name, readyIndex, &l.fronts[readyIndex], limit, last)
	if err != nil {
		return nil, s.fail(err)
	}
	received := make([]host.Received, 0, len(places))
	size, most := 0, s.share(maxReceiveBytes)
	err = s.each(places, func(m *message) (bool, error) {
		if m.state != pending || string(m.queue) != l.name {
			return false, corrupt("queue %q: message %d should be ready", l.name, m.id)
		}
		if m.expired(s.now) {
			return true, s.expire(l, m)
		}
		if size += len(m.body); size > most && len(received) > 0 {
			return false, nil
		}
		received = append(received, host.Received{})
		return true, s.lock(l, m, until, &received[len(received)-1])
	})
	if err != nil {
		return nil, s.fail(err)
	}
	return received, nil
}

// lock gives a pending message to a worker.
func (s *Set) lock(l *line, m *message, until int64, r *host.Received) error {
	if err := s.leave(l, m); err != nil {
		return err
	}
	m.state, m.due = locked, until
	m.attempts++
	m.nonce = nextNonce(m.nonce, s.now)
	if err := s.put(m, false); err != nil {
		return err
	}
	m.received(r, l.name)
	r.Receipt, r.LockedUntil = receipt(m.id, m.nonce), time.UnixMilli(until)
	return s.enter(l, m)
}

// each reads messages in the order of their places and visits them until visit returns false.
// Neighbours are read together.
func (s *Set) each(places []place, visit func(*message) (bool, error)) error {
	m := s.scratch()
	for len(places) > 0 {
		n := together(places)
		if n < 4 {
			ok, err := s.get(places[0].id)
			if err != nil {
				return err
			}
			if !ok {
				return corrupt("message %d is in an index and not there", places[0].id)
			}
			if more, err := visit(m); !more || err != nil {
				return err
			}
			places = places[1:]
			continue
		}
		page, err := s.rows.List(engine.ListQuery{
			Start: keyspace.QueueMessage.Append(nil,
				places[0].id), End: keyspace.QueueMessage.Append(nil, places[n-1].id+1),
			MaxBytes: maxReceiveBytes, Limit: 2 * n,
		})
		if err != nil {
			return err
		}
		next := 0
		for i := range page.Entries {
			id, err := keyspace.QueueMessage.Parse(page.Entries[i].Key)
			if err != nil {
				return corrupt("%v", err)
			}
			if next == n || id != places[next].id {
				continue // of another queue, or in another state
			}
			next++
			if err := m.decode(id, page.Entries[i].Value); err != nil {
				return err
			}
			if more, err := visit(m); !more || err != nil {
				return err
			}
		}
		if next == 0 {
			return corrupt("message %d is in an index and not there", places[0].id)
		}
		places = places[next:]
	}
	return nil
}

// together returns how many of the first places are those of messages that stand close to each
// other, in order.
func together(places []place) int {
	n := 1
	for n < len(places) && places[n].id > places[n-1].id && places[n].id-places[0].id < 2*uint64(n+1) {
		n++
	}
	return n
}
