package kernel

import (
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
)

// A Duty is work that an actor has to do whenever there is some: the messages of its queues, its workflow run. However
// often it is asked for before it begins, one item of the mailbox does it. If that fails it is tried again, until it is
// done, the actor is gone or the node stops; then the row at 0 tells the next start.
type Duty struct {
	A           *Actor
	Of          func(*Actor) *Duty // this duty of an Actor
	Job         func(recovered bool) Job
	First, Most time.Duration // the wait after a failure, which doubles
	Finish      func(*Work)   // of its items; it calls done

	Posted   atomic.Bool // an item of the mailbox will do it
	waiting  atomic.Bool // such an item is to come after a while
	failures atomic.Int64
}

// Item returns an item of the mailbox that does the duty. recovered: the row at 0 stands.
func (d *Duty) Item(recovered bool) *Work {
	return &Work{Job: d.Job(recovered), Existing: true, Finish: d.Finish}
}

// Ask has the actor do the duty soon.
func (d *Duty) Ask() {
	if job := d.Post(); job.Actor != nil {
		d.A.Kernel.Workers.Run(job.Actor, job.Epoch)
	}
}

// Post is Ask for a caller that can run the actor itself. The assignment says whether it must.
func (d *Duty) Post() (job Assignment) {
	if d.Posted.Swap(true) {
		return job
	}
	w := d.Item(false)
	job, err := d.A.post(w)
	if err != nil {
		w.Fail(err) // the actor has left memory
	}
	return job
}

// Begin is called when an item starts on the duty. Work that comes later must be asked for again.
func (d *Duty) Begin() { d.Posted.Store(false) }

// Done is called when an item has done the duty, or has failed.
func (d *Duty) Done(w *Work) {
	if w.Err == nil {
		d.failures.Store(0)
		return
	}
	d.Posted.Store(false)
	a := d.A
	if w.Paused {
		a.Kernel.Again(a.Address, w.Job.Traits(a).Kind, w, 0, d.TakeUp)
	} else if a.Kernel.MayPass(w.Err) {
		d.Retry(w.Err)
	}
}

// Retry has the duty done after a while, which err may say, because it could not be done, or was lost with its core.
func (d *Duty) Retry(err error) {
	if d.waiting.Swap(true) {
		return // one is enough: more would never become fewer while the actor cannot run
	}
	wait := retry.In(err, retry.Backoff(int(d.failures.Add(1)), d.First, d.Most))
	d.A.Kernel.Later(wait, func() {
		d.waiting.Store(false)
		d.TakeUp()
	})
}

// TakeUp does the duty of an actor that may have left memory.
func (d *Duty) TakeUp() { d.A.Kernel.TakeUp(d.A.Type, d.A.Address, d.Of) }

// TakeUp has an actor do a duty, which may be from before the actor left memory.
func (s *Kernel) TakeUp(t *Type, addr host.Address, of func(*Actor) *Duty) {
	for {
		a := s.ActorAt(t, addr)
		if a == nil {
			return // the next start finds the row
		}
		if a.Enqueue(of(a).Item(true)) == nil { // else it has left memory since
			return
		}
	}
}

// Again calls f when work that failed may be tried again: after wait, or, if it was refused because the actor is paused,
// when the actor is resumed. It never calls f if the actor is gone or the node stops.
func (s *Kernel) Again(addr host.Address, name string, w *Work, wait time.Duration, f func()) {
	switch {
	case !s.MayPass(w.Err):
	case !w.Paused:
		s.Later(wait, f)
	case !s.Pauses.Park(addr, name, f):
		f() // resumed meanwhile
	}
}

// MayPass reports whether trying again can help after an error: the actor is there, and the node goes on.
func (s *Kernel) MayPass(err error) bool {
	code := host.CodeOf(err)
	return !s.Draining.Load() && code != host.NotFound && code != host.Destroyed
}
