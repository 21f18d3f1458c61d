// Package gate holds readers back until what they have read is durable.
package gate

import (
	"context"
	"sync"
	"sync/atomic"
)

// A Gate holds back readers of a commit until the commit is durable. Commits are numbered from 1,
// in order. No commit of the zero value is durable.
//
// Invariant: each reader that waits is released once: by the first Advance to its commit or beyond,
// or by Fail.
type Gate struct {
	Durable atomic.Uint64 // the last commit that is durable; changed by Advance

	mu      sync.Mutex
	waiting []waiter
	failed  error
}

// A waiter is a reader that waits for a commit.
type waiter struct {
	commit uint64
	ready  chan error
}

// Pass waits until a commit is durable. The error is that of ctx, or of Fail.
func (g *Gate) Pass(ctx context.Context, commit uint64) error {
	if g.Durable.Load() >= commit {
		return nil
	}
	g.mu.Lock()
	if g.Durable.Load() >= commit {
		g.mu.Unlock()
		return nil
	}
	if err := g.failed; err != nil {
		g.mu.Unlock()
		return err
	}
	w := waiter{commit: commit, ready: make(chan error, 1)}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Advance records that a commit is durable, and all before it. It does not block.
func (g *Gate) Advance(commit uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if commit <= g.Durable.Load() {
		return
	}
	g.Durable.Store(commit)
	kept := g.waiting[:0]
	for _, w := range g.waiting {
		if w.commit <= commit {
			w.ready <- nil
		} else {
			kept = append(kept, w)
		}
	}
	clear(g.waiting[len(kept):])
	g.waiting = kept
}

// Fail ends the wait of every reader, now and later: what they read may never be durable. It does
// not block.
func (g *Gate) Fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = err
	for _, w := range g.waiting {
		w.ready <- err
	}
	g.waiting = nil
}
