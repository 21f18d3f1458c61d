package queuerows

import (
	"cmp"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// Ack removes messages that a worker has done, by their receipts; reply is kept for those senders
// that want one. It returns how many it settled and which receipts are lost: not of this queue, no
// longer valid, or no receipts at all. Lost receipts have no effect.
func (s *Set) Ack(queue string, receipts []string, reply []byte) (settled int, lost []string, err error) {
	l, err := s.settling(queue, receipts)
	if err == nil {
		err = checkReply(l, reply)
	}
	if err != nil {
		return 0, nil, err
	}
	return s.settle(l, receipts, func(m *message) error { return s.done(l, m, reply) })
}

// Nack gives messages back that a worker has failed with. The first 1,024 bytes of cause are kept.
// The messages wait for delay, or if that is nil for their own pause, until their next attempt; if
// they have no attempt left, or if dead is set, they become dead letters.
func (s *Set) Nack(
	queue string, receipts []string, delay *time.Duration, cause string, dead bool,
) (settled int, lost []string, err error) {
	l, err := s.settling(queue, receipts)
	if err == nil && delay != nil {
		err = checkSpan("delay_ms", *delay)
	}
	if err != nil {
		return 0, nil, err
	}
	if cause == "" {
		cause = "the worker gave the message back"
	}
	f := failure{told: host.Errorf(host.FailedPrecondition, "%s", cause), pause: delay, dead: dead}
	return s.settle(l, receipts, func(m *message) error { return s.failed(l, m, f) })
}

// Extend locks messages for longer, counted from now, 0 for as long as the queue's locks last. It
// returns until when, and which receipts are lost.
func (s *Set) Extend(queue string, receipts []string, lock time.Duration) (until time.Time, lost []string, err error) {
	l, err := s.settling(queue, receipts)
	if err == nil {
		err = checkSpan("lock_ms", lock)
	}
	if err != nil {
		return time.Time{}, nil, err
	}
	if lock == 0 {
		lock = l.cfg.Lock
	}
	end := s.now + milliseconds(lock)
	_, lost, err = s.settle(l, receipts, func(m *message) error {
		if err := s.leave(l, m); err != nil {
			return err
		}
		m.due = end
		if err := s.put(m, false); err != nil {
			return err
		}
		return s.enter(l, m)
	})
	return time.UnixMilli(end), lost, err
}

func (s *Set) settling(queue string, receipts []string) (*line, error) {
	l, err := s.open(queue)
	if err == nil {
		err = checkReceipts(receipts)
	}
	return l, err
}

// checkReceipts returns an error for more receipts than one call takes.
func checkReceipts(receipts []string) error {
	if len(receipts) > host.MaxQueueBatch {
		return host.OverLimit("receipts", host.MaxQueueBatch, int64(len(receipts))).With("field", "receipts")
	}
	return nil
}

// settle visits the messages whose receipts are valid.
func (s *Set) settle(l *line, receipts []string, visit func(*message) error) (n int, lost []string, err error) {
	for _, r := range receipts {
		id, nonce, ok := parseReceipt(r)
		if ok {
			if ok, err = s.get(id); err != nil {
				return n, lost, err
			}
		}
		m := &s.msg
		if !ok || !m.lockedBy(l.name, nonce) || m.due <= s.now {
			lost = append(lost, r)
			continue
		}
		if err := visit(m); err != nil {
			return n, lost, err
		}
		n++
	}
	return n, lost, nil
}

func (m *message) lockedBy(queue string, nonce uint64) bool {
	return m.state == locked && m.nonce == nonce && string(m.queue) == queue
}

// A failure says why an attempt failed and what to do then.
type failure struct {
	told  *host.Error    // the error for the sender
	cause string         // the text for operators in place of its message; "" for that
	pause *time.Duration // nil for the message's own
	dead  bool
}

// failed gives a message back after a failed attempt, which was counted.
func (s *Set) failed(l *line, m *message, f failure) error {
	m.tried = s.now
	f.cause = cmp.Or(f.cause, f.told.Message)
	m.code, m.cause = []byte(f.told.Code), []byte(clip(f.cause))
	pause, more := m.pause(l.cfg.Backoff)
	switch {
	case !more || f.dead:
		return s.bury(l, m, f.cause, f.told)
	case m.expired(s.now):
		return s.expire(l, m)
	case f.pause != nil:
		pause = milliseconds(*f.pause)
	}
	if err := s.leave(l, m); err != nil {
		return err
	}
	m.state, m.due = delayed, s.now+pause
	if pause == 0 {
		m.state, m.due = pending, 0
	}
	if err := s.put(m, false); err != nil {
		return err
	}
	return s.enter(l, m)
}

// clip makes a text valid and at most maxCause bytes long.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxCause)], "")
}
