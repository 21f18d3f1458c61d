package kernel

import (
	"sync"
	"sync/atomic"
)

// signals wakes those who wait for something to appear in an actor: a message in a queue, an item in a stream, a reply.
// A signal says "look again" and nothing more; it is given when the commit that made the difference is durable.
type signals struct {
	mu   sync.Mutex
	Subs map[string]map[*signalSub]bool // by actor
}

// A signalSub is one who waits.
type signalSub struct {
	s            *signals
	actor, topic string
	ofLife       bool          // the wait is for something of the actor as it is, and ends when the actor is destroyed
	signal       chan struct{} // capacity 1
	destroyed    atomic.Bool   // the actor was, after the wait began
}

// subscribe begins to wait; the signals from now on are heard.
func (s *signals) subscribe(actor, topic string, ofLife bool) *signalSub {
	sub := &signalSub{s: s, actor: actor, topic: topic, ofLife: ofLife, signal: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Subs == nil {
		s.Subs = make(map[string]map[*signalSub]bool)
	}
	if s.Subs[actor] == nil {
		s.Subs[actor] = make(map[*signalSub]bool)
	}
	s.Subs[actor][sub] = true
	return sub
}

func (sub *signalSub) close() {
	s := sub.s
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.Subs[sub.actor], sub)
	if len(s.Subs[sub.actor]) == 0 {
		delete(s.Subs, sub.actor)
	}
}

// Notify tells everybody who waits for a topic of an actor. It does not block.
func (s *signals) Notify(actor, topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.Subs[actor] {
		if sub.topic == topic {
			sub.wake()
		}
	}
}

// end tells everybody who waits for something of an actor as it was that the actor was destroyed. It does not block. It is
// called before anything of a successor is durable.
func (s *signals) end(actor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.Subs[actor] {
		if sub.ofLife {
			sub.destroyed.Store(true)
			sub.wake()
		}
	}
}

// Notify gives a signal to those who wait for a topic of the actor, once the turn is durable.
func (t *Turn) Notify(topic string) {
	a := t.Actor
	t.Then(func() { a.Kernel.Signals.Notify(a.Key, topic) })
}

func (sub *signalSub) wake() {
	select {
	case sub.signal <- struct{}{}:
	default:
	}
}
