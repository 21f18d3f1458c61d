package queuerows

import (
	"github.com/cairn-run/cairn/actor/host"
)

// This file is for messages to a workflow run that has ended without receiving them. They must not
// reach the actor's next run. They become dead letters, so that nothing is lost silently.
//
// Retire marks them in one write, for any number of them: counts.retired is the id that the next
// message got then. BuryRetired makes them dead letters, as many as a turn has room for, and
// removes the mark with the last one. Until then Take passes none of them on.

const causeRetired = "the workflow run ended without receiving the message"

// Retire marks the waiting messages of a queue, pending or delayed, as sent to a run that has
// ended.
func (s *Set) Retire(queue string) error {
	l, err := s.openAny(queue)
	if err != nil || l.waiting() == 0 {
		return err
	}
	meta, err := s.metadata()
	if err != nil {
		return err
	}
	l.retired, l.dirty = meta.next, true
	return nil
}

// Readmit removes the mark of Retire: the run goes on after all. Dead letters stay dead.
func (s *Set) Readmit(queue string) error {
	l, err := s.openAny(queue)
	if err == nil && l.retired != 0 {
		l.retired, l.dirty = 0, true
	}
	return err
}

// BuryRetired makes dead letters of messages that Retire has marked, up to 10,000 or 16 MiB in one
// call, and returns how many. Their senders get the code FailedPrecondition. It reports whether
// there are more: then call it again in another turn.
func (s *Set) BuryRetired(queue string) (n int, more bool, err error) {
	l, err := s.openAny(queue)
	if err != nil || l.retired == 0 {
		return 0, false, err
	}
	most := s.share(maxOperateBytes)
	for bytes := 0; n < maxOperate && bytes < most; {
		places, err := s.retired(l)
		if err != nil {
			return n, false, s.fail(err)
		}
		if len(places) == 0 {
			l.retired, l.dirty = 0, true
			return n, false, nil
		}
		for _, p := range places[:min(len(places), maxOperate-n)] {
			if err := s.buryRetired(l, p.id, &bytes); err != nil {
				return n, false, err
			}
			if n++; bytes >= most {
				break
			}
		}
	}
	return n, true, nil
}

// buryRetired makes a dead letter of one message, and adds the bytes that it writes to bytes.
func (s *Set) buryRetired(l *line, id uint64, bytes *int) error {
	ok, err := s.get(id)
	if err != nil {
		return err
	}
	if m := &s.msg; !ok || string(m.queue) != l.name || m.state != pending && m.state != delayed {
		return s.fail(corrupt("queue %q: message %d does not wait, the index tells otherwise", l.name, id))
	}
	*bytes += s.msg.weight()
	return s.bury(l, &s.msg, causeRetired, host.Errorf(host.FailedPrecondition, causeRetired))
}

// retired returns places of messages with the mark, some of them if there are many, and none only
// if there are none.
func (s *Set) retired(l *line) ([]place, error) {
	const page = 1_000
	var found []place
	for _, ix := range []index{readyIndex, delayedIndex} {
		// Messages that came later may stand before them, by their priority or their time.
		for limit := page; len(found) == 0; limit *= 10 {
			places, err := walk(s.rows, l.name, ix, &l.fronts[ix], limit, last)
			if err != nil {
				return nil, err
			}
			for _, p := range places {
				if p.id < l.retired {
					found = append(found, p)
				}
			}
			if len(places) < limit {
				break
			}
		}
	}
	return found, nil
}

// waiting returns how many messages are pending or delayed.
func (c *counts) waiting() int64 { return c.fronts[readyIndex].n + c.fronts[delayedIndex].n }
