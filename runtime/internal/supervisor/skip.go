package supervisor

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// hold notes that a busy channel waits, until a time if that is known, and returns what ends the wait.
func (s *sender) hold(ch *channel, until time.Time) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch.waits++
	ch.held, ch.next = true, until
	n := ch.waits
	return func() {
		s.mu.Lock()
		mine := ch.held && ch.waits == n
		if mine {
			ch.held = false
		}
		s.mu.Unlock()
		if mine {
			s.send(ch)
		}
	}
}

// await lets a busy channel wait until its target, which is paused, is resumed.
func (s *sender) await(ch *channel) {
	again := s.hold(ch, time.Time{})
	if !s.current().sup.pauses.park(ch.addr, again) {
		again() // it was resumed meanwhile
	}
}

// skipSend moves the next message to an actor aside, so that those after it have their turn.
func (s *Supervisor) skipSend(ctx context.Context, on target, in *host.SendSkipInput) (host.CountOutput, error) {
	to := host.Address{Type: in.Type, Key: in.Key}
	if err := checkKey(to.Key); err != nil {
		return host.CountOutput{}, err
	}
	// The messages are taken up first, if the node has just started.
	if err := s.ask(ctx, on, func(w *work) { w.kind = workRecover }); err != nil {
		return host.CountOutput{}, err
	}
	a := s.find(on.addr)
	if a == nil {
		return host.CountOutput{}, nil // it has none, and has fallen asleep
	}
	done := make(chan struct{})
	found, err := a.mail().skip(to, func() { close(done) })
	if err != nil || !found {
		return host.CountOutput{}, err
	}
	select {
	case <-done:
		return host.CountOutput{Count: 1}, nil
	case <-ctx.Done():
		return host.CountOutput{}, contextError(ctx)
	case <-s.life.Done():
		return host.CountOutput{}, unavailable(causeShutdown)
	}
}

// errSkipped is why a message was moved aside that an operator skipped.
var errSkipped = host.Errorf(host.Canceled, "skipped by an operator")

// skip moves the first message of the channel to addr aside and reports whether there was one; settled is called when that
// is durable. A message that is being handled cannot be skipped.
func (s *sender) skip(addr host.Address, settled func()) (bool, error) {
	s.mu.Lock()
	ch := s.channels[string(appendAddress(nil, addr))]
	if ch == nil || len(ch.queue) == 0 {
		s.mu.Unlock()
		return false, nil
	}
	if !ch.held {
		s.mu.Unlock()
		return false, host.Errorf(host.FailedPrecondition,
			"the message is with %s already, which has not answered; see what that actor waits for", formatAddress(addr)).Retry()
	}
	set := &settlement{channel: ch, settled: settled, failed: []failedSend{{message: ch.queue[0], err: errSkipped, attempts: ch.attempts}}}
	ch.queue = ch.queue[1:]
	ch.attempts, ch.cause, ch.held = 0, nil, false // nobody else ends this wait
	s.mu.Unlock()
	s.settle(set)
	s.send(ch)
	return true, nil
}
