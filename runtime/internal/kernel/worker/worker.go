// Package worker has the goroutines that run actors.
package worker

import (
	"sync"

	"github.com/cairn-run/cairn/runtime/internal/kernel/spawn"
)

// A Pool runs jobs. A job takes the worker that became free last, or a new one. A worker that has
// nothing left stays for the next job, because a goroutine that has run handlers before has the
// stack that they need, and the last one has it in the processor's cache. How many run at once is
// not bounded: handlers may block.
//
// Invariant: a worker that runs a job counts in the group, and so does one that is free. A worker
// on an errand does not, because the errand counts by itself.
type Pool[Job any] struct {
	run   func(Job)
	group *spawn.Group

	mu     sync.Mutex
	free   []chan item[Job] // one of each free worker, of capacity 1, so that a send does not block
	closed bool
}

// spares is how many free workers stay around: what the actors of one sync of the log need. Their
// stacks shrink when they are not used.
const spares = 256

// item is a job, or an errand that may end with one.
type item[Job any] struct {
	job    Job
	errand Errand[Job]
}

// An Errand is other work of a worker that may end with a job; then the job needs no other
// goroutine. It counts in the group by itself, so that its maker can count it off while it runs.
type Errand[Job any] interface {
	// Run returns the job to run, if there is one.
	Run() (next Job, ok bool)
}

// New makes a pool whose workers count in a group. run runs a job.
func New[Job any](group *spawn.Group, run func(Job)) *Pool[Job] {
	return &Pool[Job]{run: run, group: group}
}

// Run starts a job. It does not block. It drops the job if the group is closed.
func (p *Pool[Job]) Run(job Job) {
	it := item[Job]{job: job}
	if !p.hand(it) && p.group.Begin() {
		go p.work(it)
	}
}

// Send starts an errand, and then the job that the errand ends with. It does not block.
func (p *Pool[Job]) Send(e Errand[Job]) {
	it := item[Job]{errand: e}
	if !p.hand(it) {
		go p.work(it)
	}
}

// hand gives an item to a free worker; false if there is none.
func (p *Pool[Job]) hand(it item[Job]) bool {
	p.mu.Lock()
	last := len(p.free) - 1
	if last < 0 {
		p.mu.Unlock()
		return false
	}
	next := p.free[last]
	p.free = p.free[:last]
	p.mu.Unlock()
	next <- it
	return true
}

// wait makes a worker free until it gets an item; false if the worker must end.
func (p *Pool[Job]) wait(next chan item[Job]) (item[Job], bool) {
	p.mu.Lock()
	if p.closed || len(p.free) == spares {
		p.mu.Unlock()
		return item[Job]{}, false
	}
	p.free = append(p.free, next)
	p.mu.Unlock()
	it, ok := <-next
	return it, ok
}

func (p *Pool[Job]) work(it item[Job]) {
	counted := it.errand == nil
	defer func() {
		if counted {
			p.group.Done()
		}
	}()
	next := make(chan item[Job], 1)
	for {
		ok := true
		if e := it.errand; e != nil {
			if counted {
				counted = false
				p.group.Done()
			}
			it.job, ok = e.Run()
			if counted = p.group.Begin(); !counted {
				return // as in Run
			}
		}
		if ok {
			p.run(it.job)
		}
		if it, ok = p.wait(next); !ok {
			return
		}
	}
}

// Free returns how many workers wait for a job.
func (p *Pool[Job]) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}

// Close ends the workers that are free. A worker that runs a job ends with it.
func (p *Pool[Job]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, next := range p.free {
		close(next)
	}
	p.free = nil
}
