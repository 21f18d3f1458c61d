package serve

import (
	"context"
	"sync"
)

// A Line orders the requests of one WebSocket that are not placed yet.
//
//  1. Requests enter the actor's mailbox in the order of their messages. They do not wait for each
//     other's answers.
//  2. A request that reads begins when no turn is open. It is placed once it has its version to
//     read, so no later request can enter the mailbox before.
//  3. A turn is open from the placing of its request until its answer, or until it waits for
//     something.
//  4. A request that is refused or gives up leaves the line from any place.
type Line struct {
	mu          sync.Mutex
	first, last *Place
	open        int           // turns
	quiet       chan struct{} // closed when open is 0, if the first waits for that
}

// A Place is the place of a request in a line. It implements host.Order.
type Place struct {
	line       *Line
	prev, next *Place
	ready      chan struct{} // closed when it is the first; nil if it was first on joining
	left       bool          // it has left the line
	reads      bool
	opened     bool // its turn is open
}

// Join makes p the last place.
func (l *Line) Join(p *Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.line, p.prev = l, l.last
	if l.last == nil {
		l.first = p
	} else {
		p.ready = make(chan struct{})
		l.last.next = p
	}
	l.last = p
}

// part removes p from the line. REQUIRES: mu
func (l *Line) part(p *Place) {
	p.left = true
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	if p.prev != nil {
		p.prev.next = p.next
	} else if l.first = p.next; p.next != nil {
		close(p.next.ready)
	}
	p.prev, p.next = nil, nil
}

// Arrive waits until p is the first. It returns false if ctx ends before that.
func (p *Place) Arrive(ctx context.Context) bool {
	if p.ready == nil {
		return true
	}
	select {
	case <-p.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// Placed implements host.Order.
func (p *Place) Placed() {
	if p.left {
		return
	}
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.opened = !p.reads; p.opened {
		l.open++
	}
	l.part(p)
}

// Reads implements host.Order.
func (p *Place) Reads(ctx context.Context) bool {
	if p.left {
		return true
	}
	p.reads = true
	l := p.line
	l.mu.Lock()
	if l.open == 0 {
		l.mu.Unlock()
		return true
	}
	quiet := make(chan struct{})
	l.quiet = quiet
	l.mu.Unlock()
	select {
	case <-quiet:
		return true
	case <-ctx.Done():
		return false
	}
}

// Waits implements host.Order.
func (p *Place) Waits() {
	p.Placed()
	p.Leave()
}

// Leave ends the request's turn, or removes the request from the line.
func (p *Place) Leave() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.left {
		l.part(p)
	}
	if !p.opened {
		return
	}
	p.opened = false
	if l.open--; l.open == 0 && l.quiet != nil {
		close(l.quiet)
		l.quiet = nil
	}
}
