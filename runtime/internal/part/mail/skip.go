package mail

import (
	"cmp"
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// Busy reports whether the sender must stay in memory: messages are on their way, or wait for their
// next attempt. Messages for paused targets may wait for long, and wait in the store.
func (s *sender) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working()
}

// working is Busy.
//
// REQUIRES: s.mu
func (s *sender) working() bool {
	if s.Pending == 0 {
		return false
	}
	if s.owner.Left() {
		return true // no address finds it again
	}
	parked := 0
	for _, ch := range s.channels {
		if len(ch.queue) == 0 {
			continue
		}
		if !ch.held || !ch.next.IsZero() {
			return true
		}
		parked += len(ch.queue)
	}
	return parked < s.Pending // some are being settled
}

// Leave removes the sender from memory, if it is not busy.
func (s *sender) Leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working() {
		return false
	}
	if s.dormant = s.Pending > 0; s.dormant {
		s.channels = nil // the rows say it all
	}
	return true
}

// hold records that a busy channel waits, until a time if that is known, and returns a function
// that ends the wait.
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
		dormant, roused := s.dormant, s.roused
		s.roused = s.roused || mine && dormant
		s.mu.Unlock()
		switch {
		case !mine:
		case !dormant:
			s.send(ch)
		case !roused:
			s.owner.Kernel.TakeUpOf(s.owner.Type, s.owner.Address, s.owner.Remains, s.Part.TakeUp)
		}
	}
}

// await holds a busy channel until its paused target is resumed.
func (s *sender) await(ch *channel) {
	again := s.hold(ch, time.Time{})
	name := "messages of "
	if s.owner.Left() {
		name = "last messages of " // the sender before it may park after it
	}
	if !s.owner.Kernel.Pauses.Park(ch.addr, name+string(s.id[:]), again) {
		again() // it was resumed meanwhile
	}
}

// skipSend moves the next message to an actor aside, so that later messages can go on.
func skipSend(s *kernel.Kernel, ctx context.Context, on kernel.Target,
	in *host.SendSkipInput) (host.CountOutput, error) {
	to := host.Address{Type: in.Type, Key: in.Key}
	if err := address.Check(to.Key); err != nil {
		e, _ := s.PublicError(err)
		return host.CountOutput{}, e.With("field", "key")
	}
	// The messages are taken up first, if the node has just started. The actor skips one itself,
	// because it may leave memory right after that.
	done := make(chan error, 1)
	found := false
	if err := s.Ask(ctx, on, &recovery{taken: func(m *sender) (err error) {
		found, err = m.skip(to, audit.Of(ctx), func(err error) { done <- err })
		return err
	}}); err != nil || !found {
		return host.CountOutput{}, err
	}
	select {
	case err := <-done:
		if err != nil {
			return host.CountOutput{}, err
		}
		return host.CountOutput{Count: 1}, nil
	case <-ctx.Done():
		return host.CountOutput{}, fault.Ended(ctx)
	case <-s.Life.Done():
		return host.CountOutput{}, fault.Unavailable(kernel.CauseShutdown)
	}
}

// errSkipped is why a message was moved aside that an operator skipped.
var errSkipped = host.Errorf(host.Canceled, "skipped by an operator")

// skip moves the first message of the channel to addr aside and reports whether there was one;
// settled is called when that is durable, or the actor was destroyed before. A message that is
// being handled cannot be skipped.
func (s *sender) skip(addr host.Address, entry *audit.Entry, settled func(error)) (bool, error) {
	s.mu.Lock()
	ch := s.channels[string(address.Append(nil, addr))]
	if ch == nil || len(ch.queue) == 0 {
		s.mu.Unlock()
		return false, nil
	}
	if !ch.held {
		s.mu.Unlock()
		return false, host.Errorf(host.FailedPrecondition,
			"the message is with %s already, which has not answered; see what that actor waits for", address.Format(addr)).Retry()
	}
	skipped := failedSend{message: ch.queue[0], err: errSkipped, attempts: ch.attempts}
	if ch.cause != nil {
		e, _ := s.owner.Kernel.PublicError(ch.cause)
		skipped.reason = errSkipped.Message + "; the last attempt failed: " + cmp.Or(ch.reason, e.Message)
	}
	set := &settlement{sender: s, entry: entry, failed: []failedSend{skipped}, settled: func(err error) {
		settled(err)
		s.send(ch)
	}}
	ch.queue = ch.queue[1:]
	ch.attempts, ch.cause, ch.held = 0, nil, false // only this ends the wait
	s.mu.Unlock()
	s.settle(set)
	return true, nil
}
