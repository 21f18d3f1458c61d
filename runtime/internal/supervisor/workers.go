package supervisor

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// workers are the goroutines that run actors. An actor with work takes one that is free, or a new one; a worker that has
// nothing left takes the next actor, and a few stay around for it, because a goroutine that has run handlers before has
// the stack that they need. How many run at once is not bounded: handlers may block.
type workers struct {
	s      *Supervisor
	ready  chan assignment // unbuffered: a send succeeds only if a worker is free
	quit   chan struct{}
	once   sync.Once
	spare  atomic.Int64
	spares int64
}

// An assignment is an actor to run, and the epoch in which it was given out; or an errand.
type assignment struct {
	a      *activation
	epoch  uint64
	errand errand
}

// An errand is something else that a worker runs, because it ends with an actor to run: in this way that needs no other
// goroutine. It counts among Supervisor.tasks by itself, so that what made it can count it off while it runs.
type errand interface {
	// run returns the actor to run, if there is one.
	run() (next assignment)
}

func (p *workers) init(s *Supervisor) {
	p.s, p.ready, p.quit = s, make(chan assignment), make(chan struct{})
	p.spares = int64(4 * runtime.GOMAXPROCS(0))
}

// run lets a worker run a. It does not block.
func (p *workers) run(a *activation, epoch uint64) {
	job := assignment{a: a, epoch: epoch}
	select {
	case p.ready <- job:
		return
	default:
	}
	if p.s.tasks.begin() { // else the supervisor has closed, and has answered everything that waited
		go p.work(job)
	}
}

// send lets a worker run an errand, and then the actor that the errand ends with. It does not block.
func (p *workers) send(e errand) {
	job := assignment{errand: e}
	select {
	case p.ready <- job:
	default:
		go p.work(job)
	}
}

func (p *workers) work(job assignment) {
	counted := job.errand == nil
	defer func() {
		if counted {
			p.s.tasks.done()
		}
	}()
	for {
		if e := job.errand; e != nil {
			if counted {
				counted = false
				p.s.tasks.done()
			}
			job = e.run()
			if counted = p.s.tasks.begin(); !counted {
				return // as in run
			}
		}
		if job.a != nil {
			job.a.run(job.epoch)
		}
		job = assignment{}
		if p.spare.Add(1) > p.spares {
			p.spare.Add(-1)
			return
		}
		select {
		case job = <-p.ready:
			p.spare.Add(-1)
		case <-p.quit:
			return
		}
	}
}

// close ends the workers that are free. Those that run an actor end with it.
func (p *workers) close() { p.once.Do(func() { close(p.quit) }) }
