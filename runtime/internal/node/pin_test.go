package node

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
)

// A post office sends numbered messages to an actor that is not there yet, and notes what arrives.
type postOffice struct {
	mu    sync.Mutex
	came  []int
	lives []string // of the receiver
	visit func()   // runs when a message is handled; may be nil
}

// fill lets an actor send messages of a size that the next start delivers.
func (p *postOffice) fill(g *stage, turns, each, size int) {
	g.Offline = true
	for i := range turns {
		g.must("sender", func(_ *puppet, t host.Turn) error {
			for k := range each {
				n := i*each + k
				input := strings.Repeat("x", size) + string(remember(deed(func(_ *puppet, t host.Turn) error {
					p.mu.Lock()
					defer p.mu.Unlock()
					if p.visit != nil {
						p.visit()
					}
					p.came = append(p.came, n)
					if id := t.Self().ID; !slices.Contains(p.lives, id) {
						p.lives = append(p.lives, id)
					}
					return nil
				})))
				f, _ := deeds.Load(input[size:])
				deeds.Store(input, f)
				if err := t.Send(&host.Message{Type: "p", Key: []string{"receiver"}, Method: "do", Input: []byte(input)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// check compares what arrived with the numbers up to n, and forgets it.
func (p *postOffice) check(t *testing.T, n int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.came) != n || !slices.IsSorted(p.came) || len(slices.Compact(p.came)) != n || len(p.lives) != 1 {
		t.Errorf("%d messages arrived at %v, want %d in order", len(p.came), p.lives, n)
	}
	p.came, p.lives = nil, nil
}

func TestMoreMessagesThanATurnMayWriteAreBoundToTheirTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p postOffice
		g := newStage(t, nil)
		p.fill(g, 10, 3, 1<<16)
		g.writeBytes = 1 << 20
		g.restart()
		time.Sleep(time.Minute)
		p.check(t, 30)
		same(t, g.status("sender").PendingSends, 0, "messages wait")
	})
}

func TestMessagesAreHandledOnceInOrderThoughTheirBindingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 300
		var p postOffice
		g := newStage(t, nil)
		p.fill(g, 2, messages/2, 0)
		g.stop()
		var clones []*engine.Disk
		first, crashes := rand.IntN(3), 0
		g.disk.Fail(func(op, _ string) error { // each sync may be the last; of what was written since, all or nothing survives
			p.mu.Lock()
			defer p.mu.Unlock()
			if op == "sync" && len(p.came) == 0 {
				clones = append(clones, g.disk.Crash(1, 0), g.disk.Crash(1, 100))
			}
			return nil
		})
		g.start()
		time.Sleep(time.Minute)
		g.stop()
		g.disk.Fail(nil)
		p.check(t, messages)
		parts := 0
		for i, c := range clones {
			chosen := long() || i/2%3 == first // in the short form each third one, and one while some messages were bound
			if !chosen && parts > 0 {
				continue
			}
			if bound := boundOn(t, c); bound > 0 && bound < messages {
				parts++
			} else if !chosen {
				continue
			}
			crashes++
			m := &stage{t: t, disk: c, types: g.types}
			m.start()
			time.Sleep(time.Minute)
			same(t, m.status("sender").PendingSends, 0, "crash", i, "messages wait")
			m.stop()
			p.check(t, messages)
		}
		t.Logf("%d crashes, %d of them while some messages were bound", crashes, parts)
		errorIf(t, parts == 0, "no crash came while some messages were bound and others not")
	})
}

func TestMessagesOfASenderThatNeverRestsAreDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, nil)
		var came, turns atomic.Int64
		note := remember(deed(func(*puppet, host.Turn) error { came.Add(1); return nil }))
		send := func(_ *puppet, t host.Turn) error {
			for range mail.MaxPinned + 1 {
				if err := t.Send(&host.Message{Type: "p", Key: []string{"receiver"}, Method: "do", Input: note}); err != nil {
					return err
				}
			}
			return nil
		}
		var senders sync.WaitGroup
		for range 4 {
			senders.Go(func() {
				for came.Load() == 0 && turns.Add(1) < 100 {
					if err := g.do("sender", send); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		senders.Wait()
		if came.Load() == 0 {
			t.Errorf("nothing has arrived after %d turns", turns.Load())
		}
	})
}

// TestMessageIsDeliveredOnlyWhenItsRowNamesItsTarget: a binding whose commit fails, here because the disk is full from time to
// time, has not happened.
func TestMessageIsDeliveredOnlyWhenItsRowNamesItsTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p postOffice
		g := newStage(t, nil)
		p.fill(g, 1, mail.MaxPinned+10, 0) // two turns bind them
		unbound := 0
		p.visit = func() {
			if len(p.came)%16 > 0 { // to count takes its time
				return
			}
			_, n := count(t, g.store)
			unbound += n
		}
		g.options = func(*Options) { // before anything is committed
			time.Sleep(time.Minute)
			g.disk.SetFree(1)
		}
		g.restart()
		g.disk.Fail(func(op, _ string) error {
			if op == "sync" { // so that the disk fills up between the two turns
				time.Sleep(700 * time.Millisecond)
			}
			return nil
		})
		for i := range 100 {
			time.Sleep(time.Second)
			g.disk.SetFree([]uint64{1, 1 << 40}[i%2])
		}
		g.disk.SetFree(1 << 40)
		g.disk.Fail(nil)
		time.Sleep(10 * time.Minute)
		slices.Sort(p.came) // a turn whose commit fails runs again
		if n := len(slices.Compact(p.came)); n != mail.MaxPinned+10 || len(p.lives) != 1 || g.status("sender").PendingSends != 0 {
			t.Errorf("%d messages arrived at %v", n, p.lives)
		}
		errorIf(t, unbound > 0, "%d rows named no target when messages were handled", unbound)
	})
}

// count returns how many messages of the sender are bound to their target, and how many are not.
func count(t *testing.T, store *engine.Store) (bound, unbound int) {
	t.Helper()
	id, ok, err := store.Lookup(engine.Identity{Namespace: "default", Type: "p", Key: []string{"sender"}})
	fatalIf(t, err != nil || !ok, "%v %v", ok, err)
	snap := store.Snapshot(id)
	defer snap.Close()
	var q engine.ListQuery
	q.Start, q.End = keyspace.Outgoing.Range()
	for {
		page, err := snap.List(q)
		must(t, err)
		found, err := mail.AppendOutgoing(nil, page.Entries)
		must(t, err)
		for _, m := range found {
			if m.Record.Pinned().IsZero() {
				unbound++
			} else {
				bound++
			}
		}
		if q.After = page.Next; q.After == nil {
			return bound, unbound
		}
	}
}

// boundOn is count of a disk, before a node starts on it.
func boundOn(t *testing.T, disk *engine.Disk) int {
	t.Helper()
	store, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: disk, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer store.Close()
	bound, _ := count(t, store)
	return bound
}
