package queuerows

import (
	"errors"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// maxOperate is how many messages one call of an operator's method moves, and maxOperateBytes the
// bytes of them.
const (
	maxOperate      = 10_000
	maxOperateBytes = 16 << 20
)

// bury makes a message a dead letter: it stores the body under the named keys, notifies the sender,
// and removes the oldest dead letters if there are too many. The dead letter keeps cause, for
// operators; its sender gets told.
func (s *Set) bury(l *line, m *message, cause string, told *host.Error) error {
	if err := s.leave(l, m); err != nil {
		return err
	}
	if err := s.remove(l, m); err != nil {
		return err
	}
	cause = clip(cause)
	m.state, m.died, m.due = dead, s.now, s.now+milliseconds(l.cfg.DeadFor)
	m.code, m.cause = []byte(told.Code), []byte(cause)
	kept := 0
	err := m.eachKey(func(packed []byte) error {
		var err error
		if kept += len(m.body); s.Room > 0 && kept > s.Room/2 { // the rest is for the dead letter
			err = host.OverLimit("bodies under keys", int64(s.Room/2), int64(kept))
		} else {
			err = s.Keeper.Keep(packed, m.body)
		}
		switch host.CodeOf(err) {
		case host.TooLarge, host.QuotaExceeded, host.FailedPrecondition:
			// The body is in the dead letter all the same. Failing here would bring the message
			// back for ever.
			note := "; a key of keys_if_undelivered does not take its body"
			m.cause = []byte(clip(cause[:min(len(cause), maxCause-len(note))]) + note)
			return nil
		}
		return err
	})
	if err != nil {
		return s.fail(err)
	}
	s.key = keyspace.DeadLetter.Append(s.key[:0], l.name, m.id)
	if err := s.putText(s.key, m, engine.PutOptions{New: true}); err != nil {
		return s.fail(err)
	}
	if err := s.enter(l, m); err != nil {
		return err
	}
	l.failed++
	s.Dead++
	if m.wantsReply() {
		if err := s.reply(l, m, &reply{queue: m.queue, failure: told}); err != nil {
			return err
		}
	}
	left := 2 // one for the new one, and one in case that the limit was lowered
	return s.trim(l, &left)
}

// trim removes up to left dead letters beyond the queue's limit, the oldest first.
func (s *Set) trim(l *line, left *int) error {
	f := &l.fronts[deadIndex]
	for over := f.n - int64(max(l.cfg.Dead, 0)); over > 0 && *left > 0; over = f.n - int64(max(l.cfg.Dead, 0)) {
		places, err := walk(s.rows, l.name, deadIndex, f, int(min(over, int64(*left), 128)), last)
		if err != nil {
			return s.fail(err)
		}
		for _, p := range places {
			*left--
			if err := s.forget(l, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget removes the dead letter that stands at a place of its index.
func (s *Set) forget(l *line, p place) error {
	s.key = keyspace.DeadLetter.Append(s.key[:0], l.name, p.id)
	if _, err := s.rows.Delete(s.key); err != nil {
		return s.fail(err)
	}
	return s.removeEntry(l, deadIndex, p)
}

// readDead reads a dead letter of the queue.
func (s *Set) readDead(l *line, id uint64, m *message) (bool, error) {
	s.key = keyspace.DeadLetter.Append(s.key[:0], l.name, id)
	e, ok, err := s.rows.Get(s.key)
	if err == nil && ok {
		err = m.decodeDead(id, e.Value)
	}
	return ok, s.fail(err)
}

func (m *message) decodeDead(id uint64, b []byte) error {
	if err := m.decode(id, b); err != nil {
		return err
	}
	if m.state != dead {
		return corrupt("dead letter %d is %v", id, m.state)
	}
	return nil
}

// RequeueDead makes dead letters of a queue messages again, by ids or all: with their ids, no
// attempts, and a new time-to-live. It returns their number; unknown ids do not count. All is up to
// 10,000 of them or 16 MiB in one call, within the room of the queue: call it until it returns 0.
//
// The error is host.Overloaded if the queue is full; the turn must not be committed then.
func (s *Set) RequeueDead(queue string, ids []uint64, all bool) (int64, error) {
	l, err := s.selecting(queue, ids)
	if err != nil {
		return 0, err
	}
	n, err := s.eachDead(l, ids, all, func(m *message) error {
		err := l.room(1, int64(len(m.body)))
		if err == nil {
			err = s.requeue(l, m)
		}
		return err
	})
	if all && n > 0 && errors.Is(err, &host.Error{Code: host.Overloaded}) {
		return n, nil // as many as there is room for
	}
	return n, s.fail(err)
}

// requeue makes a dead letter a message again.
func (s *Set) requeue(l *line, m *message) error {
	if err := s.forget(l, m.place()); err != nil {
		return err
	}
	m.state, m.attempts, m.due, m.tried, m.died = pending, 0, 0, 0, 0
	m.code, m.cause = nil, nil
	if m.flags&flagTTL != 0 {
		m.expires = s.now + m.ttl
	}
	meta, err := s.metadata()
	if err != nil {
		return err
	}
	if err := s.put(m, true); err != nil {
		return err
	}
	meta.count++
	l.bytes += int64(len(m.body))
	if m.wantsReply() {
		s.key = keyspace.QueueReply.Append(s.key[:0], m.id)
		if _, err := s.rows.Delete(s.key); err != nil {
			return s.fail(err)
		}
	}
	return s.enter(l, m)
}

// DeleteDead removes dead letters of a queue, by ids or all, and returns their number.
func (s *Set) DeleteDead(queue string, ids []uint64, all bool) (int64, error) {
	l, err := s.selecting(queue, ids)
	if err != nil {
		return 0, err
	}
	if !all {
		return s.eachDead(l, ids, false, func(m *message) error { return s.forget(l, m.place()) })
	}
	n := l.fronts[deadIndex].n
	letters := keyspace.DeadLetter.Prefix(nil, l.name)
	if _, err := s.rows.DeleteRange(letters, keyspace.TupleEnd(letters)); err != nil {
		return 0, s.fail(err)
	}
	return n, s.clear(l, deadIndex)
}

// clear removes all entries of an index.
func (s *Set) clear(l *line, ix index) error {
	prefix := appendIndex(nil, ix, l.name)
	if _, err := s.rows.DeleteRange(prefix, keyspace.TupleEnd(prefix)); err != nil {
		return s.fail(err)
	}
	l.fronts[ix].clear()
	l.dirty = true
	return nil
}

func (s *Set) selecting(queue string, ids []uint64) (*line, error) {
	l, err := s.openAny(queue)
	if err == nil && len(ids) > host.MaxQueueBatch {
		err = host.OverLimit("ids", host.MaxQueueBatch, int64(len(ids))).With("field", "ids")
	}
	return l, err
}

// eachDead visits dead letters, by ids or as many as a call may move, and counts them.
func (s *Set) eachDead(l *line, ids []uint64, all bool, visit func(*message) error) (n int64, err error) {
	m := s.scratch()
	if !all {
		for _, id := range ids {
			ok, err := s.readDead(l, id, m)
			if err != nil {
				return n, err
			}
			if !ok {
				continue
			}
			if err := visit(m); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	prefix := keyspace.DeadLetter.Prefix(nil, l.name)
	q := engine.ListQuery{Start: prefix, End: keyspace.TupleEnd(prefix), Limit: 1_000, MaxBytes: maxReceiveBytes}
	most := s.share(maxOperateBytes)
	for bytes := 0; n < maxOperate && bytes < most; {
		page, err := s.rows.List(q)
		if err != nil {
			return n, s.fail(err)
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			_, id, err := keyspace.DeadLetter.Parse(e.Key)
			if err == nil {
				err = m.decodeDead(id, e.Value)
			}
			if err != nil {
				return n, s.fail(err)
			}
			if err := visit(m); err != nil {
				return n, err
			}
			n++
			if bytes += len(e.Value); bytes >= most {
				return n, nil
			}
		}
		if q.After = page.Next; q.After == nil {
			break
		}
	}
	return n, nil
}
