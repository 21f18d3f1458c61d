package kernel

import (
	"strings"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
)

// A waitGraph records which actor's turn waits for which other actor, so that a cycle is an error at the moment it
// would form.
//
// Invariant: the graph has no cycle. enter refuses the edge that would close one, under one lock, so of two calls that
// would deadlock together exactly one fails.
//
// An edge stands from the call until the callee's turn has run, not until the reply has passed the gate: from then on
// the reply needs nothing but the disk.
type waitGraph struct {
	mu    sync.Mutex
	Edges map[*Actor]map[*Work]*Actor
}

// Enter records that a turn of from waits for w at to. The error has code Cycle.
func (g *waitGraph) Enter(from, to *Actor, w *Work) *host.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if path := g.path(to, from, nil); path != nil {
		names := make([]string, 0, len(path)+1)
		names = append(names, from.String())
		for _, a := range path {
			names = append(names, a.String())
		}
		chain := strings.Join(names, " -> ")
		return host.Errorf(host.Cycle, "the call would make actors wait for each other: %s", chain).With("chain", chain)
	}
	if g.Edges == nil {
		g.Edges = make(map[*Actor]map[*Work]*Actor)
	}
	out := g.Edges[from]
	if out == nil {
		out = make(map[*Work]*Actor, 1)
		g.Edges[from] = out
	}
	out[w] = to
	w.waiter = from
	return nil
}

// path returns the actors from a to target along wait edges, both included, or nil. The graph is acyclic, so the search
// ends; visited bounds it when many turns wait for the same actors.
//
// REQUIRES: g.mu
func (g *waitGraph) path(a, target *Actor, visited map[*Actor]bool) []*Actor {
	if a == target {
		return []*Actor{a}
	}
	out := g.Edges[a]
	if len(out) == 0 || visited[a] {
		return nil
	}
	if visited == nil {
		visited = make(map[*Actor]bool)
	}
	visited[a] = true
	for _, next := range out {
		if p := g.path(next, target, visited); p != nil {
			return append([]*Actor{a}, p...)
		}
	}
	return nil
}

// Chain returns an actor and those that its turn waits for, each for the next.
func (g *waitGraph) Chain(a *Actor) []*Actor {
	g.mu.Lock()
	defer g.mu.Unlock()
	chain := []*Actor{a}
	for {
		var next *Actor
		for _, to := range g.Edges[a] {
			if next == nil || to.Key < next.Key { // of several calls at once any will do, but always the same
				next = to
			}
		}
		if next == nil {
			return chain
		}
		chain = append(chain, next)
		a = next
	}
}

// leave removes the edge of w, if it stands. It may be called more than once.
func (g *waitGraph) leave(w *Work) {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := w.waiter
	if from == nil {
		return
	}
	w.waiter = nil
	out := g.Edges[from]
	delete(out, w)
	if len(out) == 0 {
		delete(g.Edges, from)
	}
}
