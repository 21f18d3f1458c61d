package workflowtest

import (
	"context"
	"errors"
	"slices"
	"testing/synctest"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// drive lets things happen until until returns true, which it reports, or nothing is left that happens before or at the limit.
// The clock then stands at the limit, unless that is forever.
func (w *world) drive(limit time.Time, until func() bool) bool {
	w.t.Helper()
	w.mu.Lock()
	if w.driving {
		w.mu.Unlock()
		w.t.Fatal("the Env is driven from two places at once; a body of a step must not")
	}
	w.driving = true
	defer func() {
		w.driving = false
		w.mu.Unlock()
	}()
	holds := func() bool {
		if until == nil {
			return false
		}
		w.mu.Unlock()
		defer w.mu.Lock()
		return until()
	}
	for range w.options.limit {
		if holds() {
			return true
		}
		if !w.step(limit) {
			if !w.bubble && limit != forever && w.clock.Before(limit) {
				w.clock = limit
			}
			return holds()
		}
	}
	w.t.Fatalf("%v: after %d steps it is %v", errStuck, w.options.limit, w.now())
	return false
}

// step does one thing, and reports whether there was one.
func (w *world) step(limit time.Time) bool {
	if w.dying {
		w.dying = false
		w.crash()
		return true
	}
	for _, a := range w.order {
		if a.stale && a.started && !a.ended {
			w.advance(a)
			return true
		}
	}
	if w.land() || w.begin() {
		return true
	}
	if !w.bubble && slices.ContainsFunc(w.bodies, (*body).busy) {
		w.unlocked(func() { <-w.events })
		return true
	}
	if len(w.mail) > 0 {
		w.deliver()
		return true
	}
	return w.tick(limit)
}

// unlocked does something that waits.
func (w *world) unlocked(f func()) {
	w.mu.Unlock()
	defer w.mu.Lock()
	f()
}

// land removes the first launched body that has returned, and reports whether there was one.
func (w *world) land() bool {
	for i, b := range w.bodies {
		if b.returned {
			w.bodies = slices.Delete(w.bodies, i, i+1)
			b.a.stale = true
			return true
		}
	}
	return false
}

// begin starts the next body. In a bubble it then waits until the body blocks. Otherwise it starts no body while another one
// is busy.
func (w *world) begin() bool {
	if !w.bubble && slices.ContainsFunc(w.bodies, (*body).busy) {
		return false
	}
	i := slices.IndexFunc(w.bodies, func(b *body) bool { return !b.started })
	if i < 0 {
		return false
	}
	b := w.bodies[i]
	b.started = true
	w.ran = append(w.ran, executed{b.a, b.path})
	for _, s := range slices.Backward(w.stubs) {
		if matches(s.pattern, b.path) {
			b.attempt.Replace(s.fn)
			break
		}
	}
	ctx, cancel := context.WithCancel(context.WithValue(b.a.ctx, bodyKey{}, b))
	a := b.a
	notify := func() {
		w.mu.Lock()
		a.stale = true
		w.mu.Unlock()
		w.wakeUp()
	}
	go func() {
		defer func() { // also if the body has called Goexit, as t.FailNow does
			cancel()
			w.mu.Lock()
			b.returned = true
			w.mu.Unlock()
			w.wakeUp()
		}()
		_ = b.attempt.Run(ctx, nil, notify) // the next Advance handles the result
	}()
	if w.bubble {
		w.unlocked(synctest.Wait)
	}
	return true
}

// tick sets the clock to the next wake time of a run.
func (w *world) tick(limit time.Time) bool {
	var next *Actor
	for _, a := range w.order {
		wake := a.out.Wake
		if a.ended || wake.IsZero() || wake.After(limit) || a.out.Paused && limit == forever {
			continue
		}
		if next == nil || wake.Before(next.out.Wake) {
			next = a
		}
	}
	if w.bubble {
		return w.tickBubble(next, limit)
	}
	if next == nil {
		return false
	}
	if next.out.Wake.After(w.clock) {
		w.clock = next.out.Wake
	}
	next.stale = true
	return true
}

// tickBubble waits until something happens, next wants to wake, or the limit has come.
func (w *world) tickBubble(next *Actor, limit time.Time) bool {
	if next == nil && (len(w.bodies) == 0 && limit == forever || !time.Now().Before(limit)) {
		return false
	}
	until := limit
	if next != nil {
		until = next.out.Wake
	}
	var timer <-chan time.Time
	if until != forever {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timer = t.C
	}
	came := false
	w.unlocked(func() {
		select {
		case <-w.events:
		case <-timer:
			came = true
		}
		synctest.Wait()
	})
	if came && next != nil {
		next.stale = true
	}
	return true
}

// advance lets the run of an actor go on, in a transaction.
func (w *world) advance(a *Actor) {
	w.t.Helper()
	a.stale = false
	if a.run == nil {
		a.run = wfhost.Open(wfhost.RunOptions{Programs: w.lookup, Self: a.self, Logger: w.options.logger})
		a.ctx, a.cancel = context.WithCancel(context.Background())
	}
	t := a.begin()
	out, err := a.run.Advance(t)
	switch {
	case errors.Is(err, wfhost.ErrNoRun):
		t.rollback()
		w.shut(a)
		a.stale, a.started = false, false
		return
	case err != nil:
		t.rollback()
		w.shut(a)
		w.t.Fatalf("the run cannot advance: %v", err)
	case out.Undo:
		t.rollback()
		a.stale = true
		return
	}
	if w.commit(t) {
		return
	}
	a.out, a.ended = out, out.Ended
	a.stale = a.stale || out.Again
	for _, attempt := range out.Launch {
		w.bodies = append(w.bodies, &body{a: a, attempt: attempt, path: attempt.Name()})
	}
}

// commit commits a transaction, if it has written anything, and reports whether the process died doing so.
func (w *world) commit(t *turn) (died bool) {
	if !t.wrote() {
		t.commit()
		return false
	}
	w.commits++
	if w.tracing {
		w.trace = append(w.trace, t.describe())
	}
	if w.commits != w.crashAt {
		t.commit()
		return false
	}
	if w.when == After {
		t.commit()
	} else {
		t.rollback()
	}
	w.crash()
	return true
}

// crash drops what is in memory.
func (w *world) crash() {
	w.crashes++
	for _, a := range w.order {
		w.shut(a)
		a.stale = true // the host advances all runs when it comes back
	}
	w.await(func(*Actor) bool { return true })
}

// shut drops the run of an actor out of memory. Its bodies are told to end, and are waited for by await.
func (w *world) shut(a *Actor) {
	if a.run == nil {
		return
	}
	a.cancel()
	run := a.run
	a.run, a.out = nil, wfhost.Outcome{}
	a.stale = true
	w.unlocked(run.Close) // deferred functions of the user run
}

// await waits until the bodies of actors have returned, and forgets them.
func (w *world) await(of func(*Actor) bool) {
	for {
		w.bodies = slices.DeleteFunc(w.bodies, func(b *body) bool { return of(b.a) && (!b.started || b.returned) })
		if !slices.ContainsFunc(w.bodies, func(b *body) bool { return of(b.a) }) {
			return
		}
		w.unlocked(func() { <-w.events })
	}
}

// rest closes all runs in order, as when their actors go to sleep.
func (w *world) rest() {
	w.t.Helper()
	for _, a := range w.order {
		if a.run == nil {
			continue
		}
		a.cancel()
		busy := slices.ContainsFunc(w.bodies, func(b *body) bool { return b.a == a })
		w.bodies = slices.DeleteFunc(w.bodies, func(b *body) bool { return b.a == a && !b.started })
		w.await(func(b *Actor) bool { return a == b })
		for a.stale = a.stale || busy; a.run != nil && a.stale; {
			w.advance(a) // handles the results of the bodies; new bodies begin when the actor wakes
		}
		if a.run == nil {
			continue
		}
		t := a.begin()
		if err := a.run.Rest(t); err != nil {
			w.t.Fatal(err)
		}
		t.commit()
		out := a.out
		w.shut(a)
		w.bodies = slices.DeleteFunc(w.bodies, func(b *body) bool { return b.a == a })
		a.out, a.stale = out, len(out.Launch) > 0
	}
}

// deliver hands over the oldest letter.
func (w *world) deliver() {
	w.t.Helper()
	l := w.mail[0]
	to := w.actor(l.m.To)
	refusal := w.refused[nameOf(l.m.To)]
	if refusal != nil {
		to = l.from
	}
	t := to.begin()
	var err error
	if refusal != nil {
		err = wfhost.Undeliverable(t, &l.m, refusal)
	} else {
		err = wfhost.Deliver(t, w.lookup, l.m.Body)
	}
	if err != nil {
		w.t.Fatalf("%s to %v: %v", l.m.Verb, l.m.To, err)
	}
	// The transaction that takes it in is the one that takes it off.
	if w.crashAt != w.commits+1 || w.when == After || !t.wrote() {
		w.mail = w.mail[1:]
	}
	to.started = true // also if the process dies after the commit; Advance finds out if there is no run
	if w.commit(t) {
		return
	}
	if l.m.Verb == "terminate" || l.m.Verb == "start" && to.ended { // what is in memory is about what was
		w.shut(to)
		w.await(func(a *Actor) bool { return a == to })
	}
	to.changed()
}

// waits reports whether an operation waits or is executed whose path matches.
//
// REQUIRES: mu is not held.
func (w *world) waits(pattern string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bodies {
		if b.started && matches(pattern, b.path) {
			return true
		}
	}
	for _, a := range w.order {
		if a.stale || a.ended || !a.started {
			continue
		}
		s, err := wfhost.ReadStatus(a.rows)
		if err != nil {
			continue
		}
		for _, wait := range s.Waiting {
			if matches(pattern, wait.Path) {
				return true
			}
		}
	}
	return false
}
