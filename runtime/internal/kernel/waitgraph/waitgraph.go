// Package waitgraph refuses waits that would be a deadlock, at the moment at which they would
// begin.
package waitgraph

import "sync"

// A Graph records which node waits for which other node. Nodes wait through edges: one for each
// call under way. The zero value is an empty graph.
//
// Invariant: the graph has no cycle. Enter refuses the edge that would close one, under one lock,
// so of two waits that would be a deadlock together exactly one is refused.
type Graph[Node, Edge comparable] struct {
	mu    sync.Mutex
	edges map[Node]map[Edge]Node
}

// Enter records that from waits for to through an edge. If that closes a cycle, it records nothing
// and returns the nodes of the cycle: from, to, and so on up to from again.
func (g *Graph[Node, Edge]) Enter(from, to Node, through Edge) (cycle []Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if path := g.path(to, from, nil); path != nil {
		return append([]Node{from}, path...)
	}
	if g.edges == nil {
		g.edges = make(map[Node]map[Edge]Node)
	}
	out := g.edges[from]
	if out == nil {
		out = make(map[Edge]Node, 1)
		g.edges[from] = out
	}
	out[through] = to
	return nil
}

// Leave removes an edge, if it stands. It may be called more than once.
func (g *Graph[Node, Edge]) Leave(from Node, through Edge) {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.edges[from]
	delete(out, through)
	if len(out) == 0 {
		delete(g.edges, from)
	}
}

// Chain returns a node and the nodes that it waits for, each for the next. A node may wait through
// several edges: before decides which one the chain follows, so that it is always the same.
func (g *Graph[Node, Edge]) Chain(from Node, before func(a, b Node) bool) []Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	chain := []Node{from}
	for {
		var next Node
		found := false
		for _, to := range g.edges[from] {
			if !found || before(to, next) {
				next, found = to, true
			}
		}
		if !found {
			return chain
		}
		chain = append(chain, next)
		from = next
	}
}

// Len returns the number of nodes that wait.
func (g *Graph[Node, Edge]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.edges)
}

// path returns the nodes from one to another along the edges, both included, or nil. The search
// ends, because the graph has no cycle; visited bounds it when many nodes wait for the same ones.
//
// REQUIRES: g.mu
func (g *Graph[Node, Edge]) path(from, to Node, visited map[Node]bool) []Node {
	if from == to {
		return []Node{from}
	}
	out := g.edges[from]
	if len(out) == 0 || visited[from] {
		return nil
	}
	if visited == nil {
		visited = make(map[Node]bool)
	}
	visited[from] = true
	for _, next := range out {
		if p := g.path(next, to, visited); p != nil {
			return append([]Node{from}, p...)
		}
	}
	return nil
}
