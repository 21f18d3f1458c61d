// Package signal wakes waiters when something appears in an actor: a message in a queue, an item in
// a stream, a reply. A signal says "look again" and nothing more.
package signal

import (
	"sync"
	"sync/atomic"
)

// Topics has the subscriptions to the topics of all actors. An actor is named by the key of its
// address. The zero value has none.
//
// Invariants:
//  1. A subscription misses no signal that is given after Subscribe returns and before the
//     subscriber looks: signals that come while nobody receives become one.
//  2. Nothing blocks. No subscription is left when all are closed.
type Topics struct {
	mu   sync.Mutex
	subs map[string]map[*Subscription]bool // by actor
}

// A Subscription is one waiter.
type Subscription struct {
	// C has a value when the subscriber must look again.
	C <-chan struct{}

	signal       chan struct{} // C; capacity 1
	topics       *Topics
	actor, topic string
	destroyed    atomic.Bool
}

// Subscribe begins to wait for a topic of an actor.
func (s *Topics) Subscribe(actor, topic string) *Subscription {
	signal := make(chan struct{}, 1)
	sub := &Subscription{C: signal, signal: signal, topics: s, actor: actor, topic: topic}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs == nil {
		s.subs = make(map[string]map[*Subscription]bool)
	}
	if s.subs[actor] == nil {
		s.subs[actor] = make(map[*Subscription]bool)
	}
	s.subs[actor][sub] = true
	return sub
}

// Close ends the wait.
func (sub *Subscription) Close() {
	s := sub.topics
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs[sub.actor], sub)
	if len(s.subs[sub.actor]) == 0 {
		delete(s.subs, sub.actor)
	}
}

// Destroyed reports whether the actor was destroyed after the wait began.
func (sub *Subscription) Destroyed() bool { return sub.destroyed.Load() }

// Notify wakes the waiters for a topic of an actor. It is called when the commit that made the
// difference is durable.
func (s *Topics) Notify(actor, topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.subs[actor] {
		if sub.topic == topic {
			sub.wake()
		}
	}
}

// End ends the waits for an actor that is destroyed. It is called before anything of a
// successor is durable.
func (s *Topics) End(actor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.subs[actor] {
		sub.destroyed.Store(true)
		sub.wake()
	}
}

// Len returns the number of actors that have subscriptions.
func (s *Topics) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subs)
}

func (sub *Subscription) wake() {
	select {
	case sub.signal <- struct{}{}:
	default:
	}
}
