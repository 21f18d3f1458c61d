// Package worker has the goroutines that run actors.
package worker

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/runtime/internal/kernel/spawn"
)

// A Pool runs jobs. A job takes a worker that is free, or a new one. A worker that has nothing left takes the next job, and
// a few stay around for it, because a goroutine that has run handlers before has the stack that they need. How many run at
// once is not bounded: handlers may block.
//
// Invariant: a worker that runs a job counts in the group, and so does one that is free. A worker on an errand does not,
// because the errand counts by itself.
type Pool[Job any] struct {
	run    func(Job)
	group  *spawn.Group
	ready  chan item[Job] // unbuffered: a send succeeds only if a worker is free
	quit   chan struct{}
	once   sync.Once
	spare  atomic.Int64
	spares int64
}

// item is a job, or an errand that may end with one.
type item[Job any] struct {
	job    Job
	errand Errand[Job]
}

// An Errand is something else that a worker runs, because it may end with a job: in this way the job needs no other
// goroutine. It counts in the group by itself, so that its maker can count it off while it runs.
type Errand[Job any] interface {
	// Run returns the job to run, if there is one.
	Run() (next Job, ok bool)
}

// New makes a pool whose workers count in a group. run runs a job.
func New[Job any](group *spawn.Group, run func(Job)) *Pool[Job] {
	return &Pool[Job]{run: run, group: group, ready: make(chan item[Job]), quit: make(chan struct{}), spares: int64(4 * runtime.GOMAXPROCS(0))}
}

// Run starts a job. It does not block. It drops the job if the group is closed.
func (p *Pool[Job]) Run(job Job) {
	it := item[Job]{job: job}
	select {
	case p.ready <- it:
		return
	default:
	}
	if p.group.Begin() {
		go p.work(it)
	}
}

// Send starts an errand, and then the job that the errand ends with. It does not block.
func (p *Pool[Job]) Send(e Errand[Job]) {
	it := item[Job]{errand: e}
	select {
	case p.ready <- it:
	default:
		go p.work(it)
	}
}

func (p *Pool[Job]) work(it item[Job]) {
	counted := it.errand == nil
	defer func() {
		if counted {
			p.group.Done()
		}
	}()
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
		it = item[Job]{}
		if p.spare.Add(1) > p.spares {
			p.spare.Add(-1)
			return
		}
		select {
		case it = <-p.ready:
			p.spare.Add(-1)
		case <-p.quit:
			return
		}
	}
}

// Spares returns how many free workers stay around.
func (p *Pool[Job]) Spares() int { return int(p.spares) }

// Close ends the workers that are free. A worker that runs a job ends with it.
func (p *Pool[Job]) Close() { p.once.Do(func() { close(p.quit) }) }
