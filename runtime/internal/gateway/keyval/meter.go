package keyval

import (
	order "container/list"
	"encoding/binary"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// maxMetered is how many actors a meter counts.
const maxMetered = 10_000

// bounds are the upper bounds of the buckets of times, in milliseconds.
var bounds = [...]float64{1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000}

// A timing holds a meter's numbers of one operation of an actor.
type timing struct {
	count, errors uint64
	sum           float64 // milliseconds
	buckets       [len(bounds)]uint64
}

// A meter counts the requests of actors, and their times, since the start of the node. If there are
// too many actors, it drops the one without a request for the longest time. An actor has as many
// operations as there are routes, so the memory is bounded.
type meter struct {
	mu     sync.Mutex
	actors map[string]*order.Element // of *metered, by address
	recent order.List                // the actor of the last request is first
}

type metered struct {
	address string
	timings map[string]*timing // by operation
}

func newMeter() *meter { return &meter{actors: make(map[string]*order.Element)} }

// addressOf returns a string that is unique for an address.
func addressOf(a host.Address) string {
	b := []byte(a.Type)
	for _, part := range a.Key {
		b = append(binary.AppendUvarint(append(b, 0), uint64(len(part))), part...)
	}
	return string(b)
}

// observe counts an answered request. NotFound does not count as an error.
func (m *meter) observe(r *kvrest.Request, operation string, err error) {
	failed := err != nil && host.CodeOf(err) != host.NotFound
	m.add(addressOf(r.Address), operation, time.Since(r.Start), failed)
}

func (m *meter) add(address, operation string, took time.Duration, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.actors[address]
	if e == nil {
		e = m.recent.PushFront(&metered{address, make(map[string]*timing)})
		m.actors[address] = e
		if len(m.actors) > maxMetered {
			oldest := m.recent.Back()
			delete(m.actors, m.recent.Remove(oldest).(*metered).address)
		}
	}
	m.recent.MoveToFront(e)
	timings := e.Value.(*metered).timings
	t := timings[operation]
	if t == nil {
		t = new(timing)
		timings[operation] = t
	}
	ms := float64(took) / float64(time.Millisecond)
	t.count++
	t.sum += ms
	if failed {
		t.errors++
	}
	for i, bound := range bounds {
		if ms <= bound {
			t.buckets[i]++ // they are cumulative
		}
	}
}

// of returns the timings of an actor by operation.
func (m *meter) of(a host.Address) map[string]timing {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]timing)
	if e := m.actors[addressOf(a)]; e != nil {
		for name, t := range e.Value.(*metered).timings {
			out[name] = *t
		}
	}
	return out
}
