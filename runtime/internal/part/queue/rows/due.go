package queuerows

import (
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

// maxDue is how many due messages one call moves.
const maxDue = 1_000

// Due does what is due in a queue: delayed messages become receivable, expired locks are taken
// back, messages whose time-to-live is over become dead letters, and old dead letters are removed.
// It does up to 1,000 of these, or fewer if they are large; then the wake row stays in the past.
// row is the time of the wake row that it is called for, 0 for none; a row that is out of date is
// removed.
//
// A queue that the actor type no longer has gets the defaults of host.Queue.
func (s *Set) Due(queue string, row int64) error {
	l, err := s.openAny(queue)
	if err != nil {
		return err
	}
	if err := s.catchUp(l); err != nil {
		return err
	}
	left := maxDue
	if err := s.trim(l, &left); err != nil {
		return err
	}
	if row != 0 && row != l.wake {
		s.rows.ClearWake(row, keyspace.WakeQueue, l.name, "")
	}
	if l.fronts[readyIndex].n > 0 { // a receiver may have ended behind so many that had expired
		s.Ready = note(s.Ready, l.name)
	}
	// The row is set anew even if its time is the same, so that it is reported again.
	l.dirty, l.again = true, true
	return nil
}

// catchUp does the due work of a queue, at most maxDue of it.
func (s *Set) catchUp(l *line) error {
	left, bytes := maxDue, s.share(maxReceiveBytes)
	for ix := delayedIndex; ix < indexes; ix++ {
		for left > 0 && bytes > 0 {
			f := &l.fronts[ix]
			if len(f.runs) == 0 || f.runs[0].from.at > s.now {
				break
			}
			places, err := walk(s.rows, l.name, ix, f, min(left, 128), place{at: s.now + 1})
			if err != nil {
				return s.fail(err)
			}
			if len(places) == 0 {
				break
			}
			for _, p := range places {
				if left--; bytes <= 0 {
					break
				}
				n, err := s.comeDue(l, ix, p)
				if err != nil {
					return s.fail(err)
				}
				bytes -= n
			}
		}
	}
	return nil
}

// comeDue does what is due for one entry of an index, and returns how many bytes it moved.
func (s *Set) comeDue(l *line, ix index, p place) (bytes int, err error) {
	if ix == deadIndex {
		return 0, s.forget(l, p)
	}
	ok, err := s.get(p.id)
	if err != nil {
		return 0, err
	}
	m := &s.msg
	if !ok || string(m.queue) != l.name {
		return 0, corrupt("queue %q: message %d is in an index and not there", l.name, p.id)
	}
	bytes = m.weight()
	switch {
	case ix == delayedIndex && m.state == delayed && m.place() == p:
		if m.expired(s.now) {
			return bytes, s.expire(l, m)
		}
		if err := s.leave(l, m); err != nil {
			return bytes, err
		}
		m.state, m.due = pending, 0
		if err := s.put(m, false); err != nil {
			return bytes, err
		}
		return bytes, s.enter(l, m)
	case ix == lockedIndex && m.state == locked && m.place() == p:
		// The worker had the lock's time; the next one need not wait for the backoff as well.
		return bytes, s.failed(l, m, failure{
			pause: new(time.Duration),
			told: host.Errorf(host.DeadlineExceeded,
				"the lock expired: the worker neither settled the message nor extended the lock in time"),
		})
	case ix == ttlIndex && m.state == pending && m.expires == p.at:
		return bytes, s.expire(l, m)
	}
	return bytes, corrupt("queue %q: message %d is %v, the index tells otherwise", l.name, p.id, m.state)
}

// expire makes a message whose time-to-live is over a dead letter.
func (s *Set) expire(l *line, m *message) error {
	cause := "the message's time-to-live was over before it was received"
	if m.attempts > 0 {
		cause = fmt.Sprintf("the message's time-to-live was over after %d failed attempts", m.attempts)
	}
	told := host.Errorf(host.DeadlineExceeded, "%s", cause)
	if m.attempts > 0 && len(m.cause) > 0 {
		cause += ", the last: " + string(m.cause)
	}
	return s.bury(l, m, cause, told)
}
