package replay

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// A movement shows another goroutine whether the functions of a run move. A function that blocks
// outside of a step (on a channel, a mutex, the network) holds the goroutine that calls Advance,
// which cannot check this itself.
//
// count is odd while the driver waits for a coroutine to park. It grows with every such wait and
// with every operation of a function. Its top bit is set while do of Stalled runs; the driver then
// waits for do.
type movement struct {
	count     atomic.Uint64
	mu        sync.Mutex
	abandoned atomic.Bool
}

const claimed = 1 << 63

// enter records that a coroutine runs.
func (m *movement) enter() { m.count.Add(1) }

// leave records that it has parked. It waits for do of Stalled.
func (m *movement) leave() {
	for {
		n := m.count.Load()
		if n&claimed == 0 && m.count.CompareAndSwap(n, n+1) {
			return
		}
		if n&claimed != 0 {
			m.mu.Lock()
			//lint:ignore SA2001 do of Stalled holds mu until it is done
			m.mu.Unlock()
		}
	}
}

// move records that a function began an operation.
func (m *movement) move() { m.count.Add(2) }

// Moves returns a number that changes with every operation of the run's functions, and whether an
// Advance is waiting for a function of the run. It may be called from any goroutine.
func (r *Run) Moves() (n uint64, inside bool) {
	n = r.moves.count.Load() &^ claimed
	return n, n&1 == 1
}

// Stalled calls do and reports true if the functions of the run have not moved since Moves returned
// n and inside, and no other do runs. Until do returns, Advance does not go on. It may be called
// from any goroutine.
func (r *Run) Stalled(n uint64, do func()) bool {
	if n&1 == 0 || !r.moves.mu.TryLock() {
		return false
	}
	defer r.moves.mu.Unlock()
	if !r.moves.count.CompareAndSwap(n, n|claimed) {
		return false
	}
	do()
	r.moves.count.And(^uint64(claimed))
	return true
}

// Abandon makes the run useless for good, while an Advance may be waiting for a function that does
// not return. If the function returns after all, Advance ends with ErrClosed, and the run is
// closed. It may be called from any goroutine.
func (r *Run) Abandon() { r.moves.abandoned.Store(true) }

// Blame causes the next Advance to pause the run, because its function did harm and would do so
// again. Only Resume continues it. The run must be newly opened.
func (r *Run) Blame(reason PauseReason, text string) { r.failForGood(reason, text) }

// maxStack is the maximum length of the result of Stack, in bytes.
const maxStack = 16 << 10

// Stack returns the stack of the function that Advance waits for, and whether it waits. waits is
// false if it computes, or if this is unknown because a function of another run computes.
// If functions of several runs wait, it returns all of their stacks. It stops all goroutines for a
// moment, and may be called from any of them.
func (r *Run) Stack() (stack string, waits bool) {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= 64<<20 {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var found []byte
	for g := range bytes.SplitSeq(buf, []byte("\n\n")) {
		if !bytes.Contains(g, []byte("workflow/internal/replay.(*coroutine).main(")) {
			continue
		}
		switch state := stateOf(g); {
		case strings.HasPrefix(state, "coroutine"): // parked
		case computes(state):
			return "", false
		default:
			found = append(append(found, g...), "\n\n"...)
		}
	}
	if len(found) > maxStack {
		found = append(found[:maxStack], "…"...)
	}
	return strings.TrimSpace(string(found)), len(found) > 0
}

// stateOf returns the state in the first line of a goroutine's stack.
func stateOf(g []byte) string {
	line, _, _ := bytes.Cut(g, []byte("\n"))
	_, state, _ := bytes.Cut(line, []byte("["))
	return string(state)
}

// computes reports whether a goroutine in a state waits for nothing but a processor.
func computes(state string) bool {
	for _, busy := range []string{"run", "GC", "preempted", "copystack"} {
		if strings.HasPrefix(state, busy) {
			return true
		}
	}
	return false
}
