package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestCrashLosesNothingAcknowledgedAndTearsNothing runs actors at full speed. It cuts the power of
// the memory disk at random moments, keeps random amounts of unsynced data, and compares the disk
// after each cut with the histories.
func TestCrashLosesNothingAcknowledgedAndTearsNothing(t *testing.T) {
	for _, name := range []string{"pipelined", "plain"} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds(1) {
				crashRun(t, modes()[name], seed)
			}
		})
	}
}

// TestEveryWriteFaultLeavesAcknowledgedState makes the n-th write or sync fail, for n after n (see
// stride) until a run succeeds, and checks the disk afterwards.
func TestEveryWriteFaultLeavesAcknowledgedState(t *testing.T) {
	for _, name := range []string{"pipelined", "plain"} {
		t.Run(name, func(t *testing.T) {
			n, done := int64(0), false
			for ; !done; n += stride(48) {
				done = faultRun(t, modes()[name], n)
				fatalIf(t, n > 2000, "no end of faults")
			}
			fatalIf(t, n < 60, "only %d operations could fail", n)
			t.Logf("faults among %d operations", n)
		})
	}
}

// stride is the step of a test that breaks each operation of a disk, or each byte of a file, in
// turn. It is 1 in the long form (`make soak`), else random up to most, so a few runs break each
// once.
func stride(most int64) int64 {
	if long() {
		return 1
	}
	return rand.Int64N(most) + 1
}

// seeds returns how often a random test runs, each time with another seed.
func seeds(n uint64) uint64 {
	if long() {
		n *= 8
	}
	return n * *rounds
}

// long reports whether tests run in their long form.
func long() bool { return os.Getenv("CAIRN_LONG") != "" }

// history has an actor's states by version, and the last version reported durable.
type history struct {
	mu     sync.Mutex
	states map[Version]*model
	acked  Version
}

// keep records a state that is about to be committed.
func (h *history) keep(m *model) Version {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states[m.version] = m.clone()
	return m.version
}

// told records that a version is durable.
func (h *history) told(v Version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = v
}

// check compares an actor of a store with the history, and returns the actor's space.
func (h *history) check(t *testing.T, s *Store, n int, acked Version, where ...any) *Space {
	t.Helper()
	sp := openSpace(t, s, n)
	h.mu.Lock()
	state, known := h.states[sp.Head().Version]
	h.mu.Unlock()
	fatalIf(t, sp.Head().Version < acked || !known, "%v: version %d of actor %d, %d was acknowledged", where, sp.Head().Version, n, acked)
	(&walker{t: t, model: state, space: sp}).checkAll(sp.Writes())
	return sp
}

func crashRun(t *testing.T, o Options, seed uint64) {
	o.Disk = NewDisk()
	o.MemTableBytes = 256 << 10 // flushes and log rotations while it runs
	s := mustOpen(t, o)
	defer s.Close()
	histories := make([]*history, crashActors)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for n := range crashActors {
		w, of := newWalker(t, openSpace(t, s, n), seed, uint64(n)), Identity{"ns", "t", []string{fmt.Sprint(n)}}
		h := &history{states: map[Version]*model{0: w.model.clone()}}
		histories[n] = h
		wg.Go(func() {
			slots := make(chan struct{}, 16) // commits in flight
			for i := 0; i < 400; i++ {
				if stop.Load() {
					return
				}
				w.advance()
				if i == 0 {
					check(t, w.space.Writes().Create(of))
				}
				check(t, w.space.Writes().Audit(of, fmt.Append(nil, w.model.version)))
				for range w.rnd.IntN(4) {
					key, value := w.randomKey(), w.randomValue()
					if isAttribute(key) {
						value = w.randomAttribute()
					}
					if w.rnd.IntN(4) > 0 {
						w.model.put(key, value, 0, false)
						check(t, w.space.Writes().Put(key, value, PutOptions{Encoding: encodingOf(key, len(value))}))
						continue
					}
					w.model.delete(key)
					check(t, errOf(w.space.Writes().Delete(key)))
				}
				version := h.keep(w.model)
				slots <- struct{}{}
				_, err := w.space.Commit(func(err error) {
					check(t, err)
					h.told(version)
					<-slots
				})
				if check(t, err); err != nil {
					return
				}
			}
		})
	}
	rnd := rand.New(rand.NewPCG(seed, 99))
	cuts := 3
	if long() {
		cuts = 6
	}
	for cut := range cuts {
		acked := make([]Version, crashActors)
		for n, h := range histories {
			h.mu.Lock()
			acked[n] = h.acked
			h.mu.Unlock()
		}
		after := o
		after.Disk = o.Disk.Crash(rnd.Uint64(), []int{0, 50, 100}[cut%3])
		c := mustOpen(t, after)
		checkRows(t, c)
		for n, h := range histories {
			sp := h.check(t, c, n, acked[n], "cut", cut)
			records := auditOf(t, c, AuditQuery{Of: &Identity{"ns", "t", []string{fmt.Sprint(n)}}})
			same(t, len(records), int(sp.Head().Version), "records of as many commits")
			putCommit(t, sp, []byte{1}, "life goes on")
		}
		must(t, c.Close())
	}
	stop.Store(true)
	wg.Wait()
}

func faultRun(t *testing.T, o Options, n int64) (clean bool) {
	o.Disk = NewDisk()
	o.MemTableBytes = 64 << 10
	s := mustOpen(t, o)
	var mu sync.Mutex
	left, hit := n, false
	o.Disk.Fail(func(op, path string) error {
		if !slices.Contains([]string{"write", "sync", "create", "remove", "rename", "open dir"}, op) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if left--; left == -1 {
			hit = true
			return fmt.Errorf("%s %s: %w", op, path, errFault)
		}
		return nil
	})
	sp := openSpace(t, s, 1)
	w := newWalker(t, sp, uint64(n), 5)
	h := &history{states: map[Version]*model{0: w.model.clone()}}
	for i := range 24 {
		w.advance()
		if i == 0 {
			must(t, sp.Writes().Create(Identity{"ns", "t", []string{"1"}}))
		}
		for range 3 {
			w.put(w.randomKey(), append(w.randomValue(), make([]byte, 4000)...), 0)
		}
		version := h.keep(w.model)
		_, err := commitWait(sp)
		if err == nil {
			h.told(version)
			continue
		}
		fatalIf(t, !errors.Is(err, ErrReadOnly) || !errors.Is(err, errFault) || s.Err() == nil,
			"fault %d: %v, store says %v", n, err, s.Err())
		// Reads continue, a further commit is refused.
		w.checkAll(sp.Writes())
		put(t, sp.Writes(), []byte{1}, "more")
		wantErr(t, errOf(sp.Commit(nil)), ErrReadOnly, n)
		break
	}
	closed := s.Close()
	failure := s.Err()
	fatalIf(t, failure != nil && !errors.Is(closed, errFault), "fault %d: close returned %v after %v", n, closed, failure)
	o.Disk.Fail(nil)
	for _, percent := range []int{0, 100} {
		after := o
		after.Disk = o.Disk.Crash(uint64(n), percent)
		c := mustOpen(t, after)
		checkRows(t, c)
		h.check(t, c, 1, h.acked, "fault", n)
		must(t, c.Close())
	}
	mu.Lock()
	defer mu.Unlock()
	return !hit
}
