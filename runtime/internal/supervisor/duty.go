package supervisor

import (
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A duty is work that an actor has to do whenever there is some: the messages of its queues, its workflow run. However
// often it is asked for before it begins, one item of the mailbox does it. If that fails it is tried again, until it is
// done, the actor is gone or the node stops; then the row at 0 tells the next start.
type duty struct {
	a           *activation
	of          func(*activation) *duty // this duty of an activation
	job         func(recovered bool) job
	first, most time.Duration // the wait after a failure, which doubles
	finish      func(*work)   // of its items; it calls done

	posted   atomic.Bool // an item of the mailbox will do it
	waiting  atomic.Bool // such an item is to come after a while
	failures atomic.Int64
}

// item returns an item of the mailbox that does the duty. recovered: the row at 0 stands.
func (d *duty) item(recovered bool) *work {
	return &work{job: d.job(recovered), existing: true, finish: d.finish}
}

// ask has the actor do the duty soon.
func (d *duty) ask() {
	if job := d.post(); job.a != nil {
		d.a.sup.workers.run(job.a, job.epoch)
	}
}

// post is ask for a caller that can run the actor itself. The assignment says whether it must.
func (d *duty) post() (job assignment) {
	if d.posted.Swap(true) {
		return job
	}
	w := d.item(false)
	job, err := d.a.post(w)
	if err != nil {
		w.fail(err) // the actor has left memory
	}
	return job
}

// begin is called when an item starts on the duty. Work that comes later must be asked for again.
func (d *duty) begin() { d.posted.Store(false) }

// done is called when an item has done the duty, or has failed.
func (d *duty) done(w *work) {
	if w.err == nil {
		d.failures.Store(0)
		return
	}
	d.posted.Store(false)
	a := d.a
	if w.paused {
		a.sup.again(a.addr, w.job.traits(a).kind, w, 0, d.takeUp)
	} else if a.sup.mayPass(w.err) {
		d.retry(w.err)
	}
}

// retry has the duty done after a while, which err may say, because it could not be done, or was lost with its core.
func (d *duty) retry(err error) {
	if d.waiting.Swap(true) {
		return // one is enough: more would never become fewer while the actor cannot run
	}
	wait := retryIn(err, backoff(int(d.failures.Add(1)), d.first, d.most))
	d.a.sup.later(wait, func() {
		d.waiting.Store(false)
		d.takeUp()
	})
}

// takeUp does the duty of an actor that may have left memory.
func (d *duty) takeUp() { d.a.sup.takeUp(d.a.typ, d.a.addr, d.of) }

// takeUp has an actor do a duty, which may be from before the actor left memory.
func (s *Supervisor) takeUp(t *actorType, addr host.Address, of func(*activation) *duty) {
	for {
		a := s.activation(t, addr)
		if a == nil {
			return // the next start finds the row
		}
		if a.enqueue(of(a).item(true)) == nil { // else it has left memory since
			return
		}
	}
}

// again calls f when work that failed may be tried again: after wait, or, if it was refused because the actor is paused,
// when the actor is resumed. It never calls f if the actor is gone or the node stops.
func (s *Supervisor) again(addr host.Address, name string, w *work, wait time.Duration, f func()) {
	switch {
	case !s.mayPass(w.err):
	case !w.paused:
		s.later(wait, f)
	case !s.pauses.park(addr, name, f):
		f() // resumed meanwhile
	}
}

// mayPass reports whether trying again can help after an error: the actor is there, and the node goes on.
func (s *Supervisor) mayPass(err error) bool {
	code := host.CodeOf(err)
	return !s.draining.Load() && code != host.NotFound && code != host.Destroyed
}
