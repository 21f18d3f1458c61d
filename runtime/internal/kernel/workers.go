package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// workers are the goroutines that run actors. An actor with work takes one that is free, or a new one; a worker that has
// nothing left takes the next actor, and a few stay around for it, because a goroutine that has run handlers before has
// the stack that they need. How many run at once is not bounded: handlers may block.
type workers struct {
	s      *Kernel
	ready  chan Assignment // unbuffered: a send succeeds only if a worker is free
	quit   chan struct{}
	once   sync.Once
	spare  atomic.Int64
	Spares int64
}

// An Assignment is an actor to run, and the epoch in which it was given out; or an errand.
type Assignment struct {
	Actor  *Actor
	Epoch  uint64
	errand errand
}

// An errand is something else that a worker runs, because it ends with an actor to run: in this way that needs no other
// goroutine. It counts among Kernel.Goroutines by itself, so that what made it can count it off while it runs.
type errand interface {
	// Run returns the actor to run, if there is one.
	Run() (next Assignment)
}

func (p *workers) init(s *Kernel) {
	p.s, p.ready, p.quit = s, make(chan Assignment), make(chan struct{})
	p.Spares = int64(4 * runtime.GOMAXPROCS(0))
}

// Run lets a worker run a. It does not block.
func (p *workers) Run(a *Actor, epoch uint64) {
	job := Assignment{Actor: a, Epoch: epoch}
	select {
	case p.ready <- job:
		return
	default:
	}
	if p.s.Goroutines.Begin() { // else the kernel has closed, and has answered everything that waited
		go p.work(job)
	}
}

// Send lets a worker run an errand, and then the actor that the errand ends with. It does not block.
func (p *workers) Send(e errand) {
	job := Assignment{errand: e}
	select {
	case p.ready <- job:
	default:
		go p.work(job)
	}
}

func (p *workers) work(job Assignment) {
	counted := job.errand == nil
	defer func() {
		if counted {
			p.s.Goroutines.Done()
		}
	}()
	for {
		if e := job.errand; e != nil {
			if counted {
				counted = false
				p.s.Goroutines.Done()
			}
			job = e.Run()
			if counted = p.s.Goroutines.Begin(); !counted {
				return // as in run
			}
		}
		if job.Actor != nil {
			job.Actor.run(job.Epoch)
		}
		job = Assignment{}
		if p.spare.Add(1) > p.Spares {
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
