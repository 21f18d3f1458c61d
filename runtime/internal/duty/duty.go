// Package duty does the standing work of actors: work that must be done whenever there is some, and
// is tried again until it is.
package duty

import (
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
)

// A Duty is work that an actor must do whenever there is some: the messages of its queues, its
// workflow run. Regardless of how often it is requested before it begins, one item of the mailbox
// does it. A failed item is tried again, until the duty is done, the actor is gone or the node
// stops; then the row at 0 tells the next start.
type Duty struct {
	A           *kernel.Actor
	Of          func(*kernel.Actor) *Duty // this duty of an Actor
	Job         func(recovered bool) kernel.Job
	First, Most time.Duration      // the wait after a failure, which doubles
	Finish      func(*kernel.Work) // of its items; it calls Done

	Posted   atomic.Bool // an item of the mailbox will do it
	waiting  atomic.Bool // such an item comes after a while
	failures atomic.Int64
}

// Item returns an item of the mailbox that does the duty. recovered: the row at 0 stands.
func (d *Duty) Item(recovered bool) *kernel.Work {
	return &kernel.Work{Job: d.Job(recovered), Existing: true, Finish: d.Finish}
}

// Ask requests the duty soon.
func (d *Duty) Ask() {
	if job := d.Post(); job.Actor != nil {
		d.A.Kernel.Workers.Run(job)
	}
}

// Post is Ask for a caller that can run the actor itself. The assignment says whether it must.
func (d *Duty) Post() (job kernel.Assignment) {
	if d.Posted.Swap(true) {
		return job
	}
	w := d.Item(false)
	job, err := d.A.Post(w)
	if err != nil {
		w.Fail(err) // the actor has left memory
	}
	return job
}

// Begin is called when an item starts on the duty. Later work must be requested again.
func (d *Duty) Begin() { d.Posted.Store(false) }

// Done is called when an item has done the duty, or has failed.
func (d *Duty) Done(w *kernel.Work) {
	if w.Err == nil {
		d.failures.Store(0)
		return
	}
	d.Posted.Store(false)
	a := d.A
	if w.Paused {
		Again(a.Kernel, a.Address, w.Job.Traits(a).Kind, w, 0, d.TakeUp)
	} else if MayPass(a.Kernel, w.Err) {
		d.Retry(w.Err)
	}
}

// Retry schedules another item, after the backoff or at err's retry_at, because the duty could not
// be done, or was lost with its core.
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
func (d *Duty) TakeUp() { TakeUp(d.A.Kernel, d.A.Type, d.A.Address, d.Of) }

// TakeUp posts a duty to an actor, which may be from before the actor left memory.
func TakeUp(s *kernel.Kernel, t *kernel.Type, addr host.Address, of func(*kernel.Actor) *Duty) {
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

// Again calls f when failed work may be tried again: after wait, or, if it was refused because the
// actor is paused, when the actor is resumed. It never calls f if the actor is gone or the node
// stops.
func Again(s *kernel.Kernel, addr host.Address, name string, w *kernel.Work, wait time.Duration, f func()) {
	switch {
	case !MayPass(s, w.Err):
	case !w.Paused:
		s.Later(wait, f)
	case !s.Pauses.Park(addr, name, f):
		f() // resumed meanwhile
	}
}

// MayPass reports whether trying again can help after an error: the actor exists, and the node goes
// on.
func MayPass(s *kernel.Kernel, err error) bool {
	code := host.CodeOf(err)
	return !s.Draining.Load() && code != host.NotFound && code != host.Destroyed
}
