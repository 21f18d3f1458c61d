package engine

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// gateLimit is how many commits may wait to become durable. Pebble's own limit
// is 4095 syncs in its log's queue; beyond this one Commit blocks.
const gateLimit = 4096

// gate notifies commits, in order, when they are durable. Its claims:
//
//  1. Tickets of one space are notified in the order of its commits, each exactly once, from one
//     goroutine.
//  2. A ticket gets nil only if its batch and all batches of the space before it are on stable
//     storage (or, with NoSync, applied) and the store had not failed by then.
//  3. After the first error every later ticket gets the error too.
//
// The order between spaces is the order of add, which may differ from the order in the log. Waiting
// for a later record first is harmless, since the log is synced in order.
//
// One goroutine serves all commits: one per commit would cost more than the commit, and would have
// to be put back into order.
type gate struct {
	mu     sync.Mutex
	work   sync.Cond // the queue is not empty, or closed
	room   sync.Cond // the queue is not full
	queue  []ticket
	since  time.Time // when the first of the queue was added
	closed bool
	idle   bool          // the goroutine waits for work
	done   chan struct{} // closed when the goroutine has ended
}

// ticket is one commit that waits.
type ticket struct {
	batch  any         // *pebble.Batch; nil if there was nothing to write
	space  *Space      // nil if it is no commit of an actor
	notify func(error) // may be nil
	upTo   Version
	outbox numbers
	audit  numbers
}

func (g *gate) start(s *Store) {
	g.work.L, g.room.L = &g.mu, &g.mu
	g.done = make(chan struct{})
	go func() {
		defer close(g.done)
		g.run(s)
	}()
}

// add queues a ticket and blocks while the gate is full.
func (g *gate) add(t ticket) {
	g.mu.Lock()
	for len(g.queue) >= gateLimit {
		g.room.Wait()
	}
	if len(g.queue) == 0 {
		g.since = time.Now()
	}
	g.queue = append(g.queue, t)
	wake := g.idle
	g.idle = false
	g.mu.Unlock()
	if wake {
		g.work.Signal()
	}
}

func (g *gate) run(s *Store) {
	var taken []ticket
	for {
		g.mu.Lock()
		for len(g.queue) == 0 && !g.closed {
			g.idle = true
			g.work.Wait()
		}
		if len(g.queue) == 0 {
			g.mu.Unlock()
			return
		}
		full := len(g.queue) >= gateLimit
		since := g.since
		taken, g.queue = g.queue, taken[:0]
		g.mu.Unlock()
		if full {
			g.room.Broadcast()
		}
		began := time.Now()
		synced := s.guarded(databaseOf(s).settle)
		if synced != nil {
			s.fail(synced)
		}
		for i := range taken {
			err := s.await(&taken[i], synced)
			if i == 0 && taken[i].batch != nil {
				now := time.Now()
				s.metrics.sync.observe(now.Sub(began))
				s.metrics.gate.observe(now.Sub(since))
			}
			s.tell(&taken[i], err)
			taken[i] = ticket{}
		}
		if cap(taken) > gateLimit/8 {
			taken = nil
		}
	}
}

// close ends the goroutine when all tickets have been notified. No ticket may be added afterwards.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.work.Signal()
	<-g.done
}

// await waits until a ticket's batch is durable, and returns the error for the ticket.
func (s *Store) await(t *ticket, synced error) error {
	err := synced
	if b, ok := t.batch.(*pebble.Batch); ok {
		if waitErr := databaseOf(s).wait(b); waitErr != nil {
			s.fail(waitErr)
			err = waitErr
		}
		b.Close()
	}
	if failure := s.readOnly(); failure != nil {
		err = failure
	}
	return err
}

// tell notifies a ticket of the result of await.
func (s *Store) tell(t *ticket, err error) {
	if err == nil {
		if t.space != nil {
			t.space.durable.Store(uint64(t.upTo))
		}
		s.outbox.settle(t.outbox)
		s.audit.settle(t.audit)
	}
	if t.notify != nil {
		t.notify(err)
	}
}
