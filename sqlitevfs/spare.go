package sqlitevfs

import (
	"slices"
	"time"
)

// mostSpares returns the largest number of spare instances of a kind. They suffice for a few
// databases opened at once, and are few beside the open connections.
func (o Options) mostSpares() int { return min(max(o.MaxOpen/128, 2), 16) }

// manyOpen is the number of open connections from which the next instance is made in advance. Fewer
// connections belong to a few databases, which stay open.
const manyOpen = 16

// instance returns an instance for write sessions or for read sessions: a spare if there is one.
func (p *Pool) instance(write bool) (*instance, error) {
	p.mu.Lock()
	var in *instance
	for i, x := range slices.Backward(p.spares) {
		if x.write == write {
			in = x
			p.spares = slices.Delete(p.spares, i, i+1)
			break
		}
	}
	ahead := !p.ahead && !p.closed && p.stats.Open >= manyOpen &&
		p.stats.Open < p.options.MaxOpen && p.countSpares(write) == 0
	if ahead {
		p.ahead = true
	}
	p.mu.Unlock()
	if ahead {
		go p.makeAhead(write)
	}
	if in != nil {
		return in, nil
	}
	return p.newInstance(write)
}

// makeAhead makes a spare. Only one is made at a time, and Close waits for it.
func (p *Pool) makeAhead(write bool) {
	in, err := p.newInstance(write)
	p.mu.Lock()
	if err == nil && p.roomForSpare(write) {
		p.addSpare(in)
		in = nil
	}
	p.mu.Unlock()
	if err == nil && in != nil {
		in.close(p.options.Logger)
	}
	p.mu.Lock()
	p.ahead = false
	p.changed.Broadcast()
	p.mu.Unlock()
}

// reuse turns an instance that no conn uses into a spare, and reports whether it did. Otherwise the
// instance must be closed.
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
	p.addSpare(in)
	return true
}

// addSpare adds a new instance to the spares. REQUIRES: mu
func (p *Pool) addSpare(in *instance) {
	in.since = time.Now()
	p.spares = append(p.spares, in)
	p.arm()
}

// roomForSpare reports whether there may be another spare of a kind. REQUIRES: mu
func (p *Pool) roomForSpare(write bool) bool {
	return !p.closed && p.countSpares(write) < p.options.mostSpares()
}

// countSpares returns how many spares there are of a kind. REQUIRES: mu
func (p *Pool) countSpares(write bool) (n int) {
	for _, in := range p.spares {
		if in.write == write {
			n++
		}
	}
	return n
}

// stale removes and returns the spares that are at least age old; the first is the oldest.
// REQUIRES: mu
func (p *Pool) stale(age time.Duration) []*instance {
	n := 0
	for n < len(p.spares) && time.Since(p.spares[n].since) >= age {
		n++
	}
	gone := slices.Clone(p.spares[:n])
	p.spares = slices.Delete(p.spares, 0, n)
	return gone
}

// closeSpares closes instances that were removed from the pool.
func (p *Pool) closeSpares(gone []*instance) {
	for _, in := range gone {
		in.close(p.options.Logger)
	}
}
