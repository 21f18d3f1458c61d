package queuerows

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// This file is for messages that a workflow run takes out of a queue. The commit of the turn moves
// them from the queue to the history of the run. A row marks for a sender that waits for a reply
// that there is none yet.

// Take removes the next message of a queue and returns it. It returns false if none can be
// received, or if BuryRetired has not moved all messages that Retire has marked. A sender that
// waits for a reply waits on until Answer, for up to host.MaxQueueDelay.
func (s *Set) Take(queue string) (*host.Received, bool, error) {
	l, err := s.open(queue)
	if err != nil {
		return nil, false, err
	}
	m, err := s.ready(l)
	if m == nil || err != nil {
		return nil, false, err
	}
	if l.retired != 0 {
		// BuryRetired is not done yet, and later messages wait for it.
		return nil, false, nil
	}
	r := new(host.Received)
	m.received(r, l.name)
	r.Attempt++
	r.Body = append([]byte(nil), m.body...) // it outlives the turn
	if err := s.leave(l, m); err != nil {
		return nil, false, err
	}
	if err := s.remove(l, m); err != nil {
		return nil, false, err
	}
	l.done++
	if m.wantsReply() {
		if err := s.replyLater(m); err != nil {
			return nil, false, err
		}
	}
	return r, true, nil
}

// replyLater puts the row that stands for a reply to come.
func (s *Set) replyLater(m *message) error {
	at := s.now + milliseconds(host.MaxQueueDelay)
	s.key = keyspace.QueueReply.Append(s.key[:0], m.id)
	s.value = (&reply{open: true, queue: m.queue}).append(s.value[:0])
	// It takes the message's room.
	if err := s.rows.Put(s.key, s.value, engine.PutOptions{ExpireAt: at, Exempt: true}); err != nil {
		return s.fail(err)
	}
	s.expires(at)
	return nil
}

// Return puts a message that Take returned, in this turn or an earlier one, back at the head of its
// queue, with the id that it had. The other options of its sender, such as its time to live and its
// priority, are lost.
func (s *Set) Return(r *host.Received) error {
	l, err := s.openAny(r.Queue)
	if err != nil {
		return err
	}
	priority := int64(0)
	if head, err := s.ready(l); err != nil {
		return err
	} else if head != nil {
		priority = max(priority, int64(head.priority))
	}
	meta, err := s.metadata()
	if err != nil {
		return err
	}
	m := &s.out
	*m = message{
		id: r.ID, state: pending, priority: int16(priority), created: r.Sent.UnixMilli(), attempts: uint32(max(r.Attempt-1, 0)),
		queue: append(m.queue[:0], l.name...), dedup: append(m.dedup[:0], r.DedupID...), body: r.Body,
		backoff: m.backoff[:0], keys: m.keys[:0],
	}
	if r.WantReply {
		open, err := s.openRequest(r.Queue, r.ID)
		if err != nil {
			return err
		}
		if open {
			m.flags |= flagReply
			if _, err := s.rows.Delete(s.key); err != nil {
				return s.fail(err)
			}
		} // else it was answered, and has no waiter
	}
	s.key = keyspace.QueueMessage.Append(s.key[:0], m.id)
	s.value = m.append(s.value[:0])
	// it was there before, and is no longer in the history
	err = s.fail(s.rows.Put(s.key, s.value, engine.PutOptions{Exempt: true}))
	m.body = nil // it is the caller's
	if err != nil {
		return err
	}
	meta.count++
	l.bytes += int64(len(r.Body))
	l.done = max(l.done, 1) - 1
	l.dirty = true
	return s.enter(l, m)
}

// openRequest reports whether a message was taken whose sender waits for a reply, and leaves the
// key of the reply in s.key.
func (s *Set) openRequest(queue string, id uint64) (bool, error) {
	s.key = keyspace.QueueReply.Append(s.key[:0], id)
	e, ok, err := s.rows.Get(s.key)
	if err != nil || !ok {
		return false, s.fail(err)
	}
	var r reply
	if err := r.decode(id, e.Value); err != nil {
		return false, s.fail(err)
	}
	return r.open && string(r.queue) == queue, nil
}

// AnswerRest answers the messages that Take returned, of any queue, whose senders still wait. It
// reads all replies that are kept.
func (s *Set) AnswerRest(failure *host.Error) error {
	start, end := keyspace.QueueReply.Range()
	type request struct {
		queue string
		id    uint64
	}
	var open []request
	var after []byte
	for {
		page, err := s.rows.List(engine.ListQuery{Start: start, End: end, After: after})
		if err != nil {
			return s.fail(err)
		}
		for i := range page.Entries {
			id, err := keyspace.QueueReply.Parse(page.Entries[i].Key)
			if err != nil {
				return s.fail(err)
			}
			var r reply
			if err := r.decode(id, page.Entries[i].Value); err != nil {
				return s.fail(err)
			}
			if r.open {
				open = append(open, request{string(r.queue), id})
			}
		}
		if after = page.Next; after == nil {
			break
		}
	}
	for _, r := range open {
		if err := s.Answer(r.queue, r.id, nil, failure); err != nil {
			return err
		}
	}
	return nil
}

// Answer replies to a message that Take returned: with a reply in CBOR, of at most the queue's
// limit for a body, or with why there is none. It does nothing if the sender wants no reply or has
// one.
func (s *Set) Answer(queue string, id uint64, value []byte, failure *host.Error) error {
	l, err := s.openAny(queue)
	if err == nil {
		err = checkReply(l, value)
	}
	if err != nil {
		return err
	}
	open, err := s.openRequest(queue, id)
	if err != nil || !open {
		return err
	}
	r := reply{queue: []byte(queue), value: value, failure: failure}
	at := s.now + milliseconds(l.cfg.ReplyFor)
	s.value = r.append(s.value[:0])
	if err := s.rows.Put(s.key, s.value, engine.PutOptions{ExpireAt: at, Exempt: failure != nil}); err != nil {
		return s.fail(err)
	}
	s.expires(at)
	s.Replied = append(s.Replied, id)
	return nil
}
