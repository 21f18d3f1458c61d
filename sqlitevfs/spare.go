package sqlitevfs

import (
	"slices"
	"time"
)

// mostSpares returns how many instances of a kind a pool keeps that serve nothing: as many as a few databases need that are
// opened at once, and little beside those that are open.
func (o Options) mostSpares() int { return min(max(o.MaxOpen/128, 2), 16) }

// spare returns a spare for sessions that write, or for such that read, or nil.
func (p *Pool) spare(write bool) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, in := range slices.Backward(p.spares) {
		if in.write == write {
			p.spares = slices.Delete(p.spares, i, i+1)
			return in
		}
	}
	return nil
}

// reuse makes a spare of an instance that no conn has any more, if it can and there is room. If not it has to be closed.
func (p *Pool) reuse(in *instance) bool {
	p.mu.Lock()
	room := p.roomForSpare(in.write)
	p.mu.Unlock()
	if !room || !in.renew() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.roomForSpare(in.write) {
		return false
	}
	in.since = time.Now()
	p.spares = append(p.spares, in)
	p.arm()
	return true
}

// roomForSpare reports whether there may be another spare of a kind. REQUIRES: mu
func (p *Pool) roomForSpare(write bool) bool {
	n := 0
	for _, in := range p.spares {
		if in.write == write {
			n++
		}
	}
	return !p.closed && n < p.options.mostSpares()
}

// stale takes the spares out of the pool that have been there for so long, the oldest of which is the first. REQUIRES: mu
func (p *Pool) stale(age time.Duration) []*instance {
	n := 0
	for n < len(p.spares) && time.Since(p.spares[n].since) >= age {
		n++
	}
	gone := slices.Clone(p.spares[:n])
	p.spares = slices.Delete(p.spares, 0, n)
	return gone
}

// closeSpares closes instances that are out of the pool.
func (p *Pool) closeSpares(gone []*instance) {
	for _, in := range gone {
		in.close(p.options.Logger)
	}
}
