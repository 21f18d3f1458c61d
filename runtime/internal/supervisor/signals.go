package supervisor

import "sync"

// signals wakes those who wait for something to appear in an actor: a message in a queue, an item in a stream, a reply.
// A signal says "look again" and nothing more; it is given when the commit that made the difference is durable.
type signals struct {
	mu   sync.Mutex
	subs map[string]map[*signalSub]bool // by actor and topic
}

// A signalSub is one who waits.
type signalSub struct {
	s      *signals
	key    string
	signal chan struct{} // capacity 1
}

func signalKey(actor, topic string) string { return topic + "\x00" + actor }

// subscribe begins to wait; the signals from now on are heard.
func (s *signals) subscribe(actor, topic string) *signalSub {
	sub := &signalSub{s: s, key: signalKey(actor, topic), signal: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs == nil {
		s.subs = make(map[string]map[*signalSub]bool)
	}
	if s.subs[sub.key] == nil {
		s.subs[sub.key] = make(map[*signalSub]bool)
	}
	s.subs[sub.key][sub] = true
	return sub
}

func (sub *signalSub) close() {
	s := sub.s
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs[sub.key], sub)
	if len(s.subs[sub.key]) == 0 {
		delete(s.subs, sub.key)
	}
}

// notify tells everybody who waits for a topic of an actor. It does not block.
func (s *signals) notify(actor, topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.subs) == 0 {
		return
	}
	for sub := range s.subs[signalKey(actor, topic)] {
		select {
		case sub.signal <- struct{}{}:
		default:
		}
	}
}
