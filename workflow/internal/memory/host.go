package memory

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/rowmap"
)

// A Host runs workflows in memory: actors with one run each, and the mail between them. It does
// nothing by itself: Drive runs it. A fault of the host fails the test.
//
// The clock stands still while there is anything else to do, and then jumps to the next wake time
// of a run. The bodies of steps run on goroutines, one after another in the order in which they
// were launched. In a bubble of testing/synctest the clock is that of the bubble, and bodies run at
// the same time.
//
// Mu guards the host and its actors. Exported methods lock it, except Time, Lookup and Turn. A test
// with one goroutine may use fields between calls, in conditions of Drive, and in bodies while they
// run one after another.
type Host struct {
	Mu sync.Mutex
	// Programs are the programs by name. The name "" is for histories that do not name theirs.
	Programs map[string]*wfhost.Program
	// Options are the options of runs, except Programs and Self.
	Options wfhost.RunOptions
	// Now is the clock, unless in a bubble.
	Now time.Time
	// Fresh makes the state of a new actor; nil for none.
	Fresh func(self wfhost.Destination) any
	// Refused are the errors with which mail to actors returns, by Name.
	Refused map[string]error
	// Begin is called, with Mu, before the body of an attempt begins; it may be nil.
	Begin func(a *Actor, attempt *wfhost.Attempt)
	// Trace is called, with Mu, for each commit; it may be nil.
	Trace func(t *Turn)
	// Limit bounds the events of one Drive.
	Limit int
	// Racing: in a bubble, the driver does not wait until running bodies block.
	Racing bool
	// Patient: Drive ends when only paused runs that would try again are left. Otherwise the clock
	// jumps for them, too.
	Patient bool

	// CrashAt is the number of the commit at which the process dies, from 1: before it, or after it
	// with CrashAfter. 0 is never. With Chance it dies before or after every fifth commit or so
	// instead.
	CrashAt    int
	CrashAfter bool
	Chance     *rand.Rand

	// Actors are in the order in which they were made.
	Actors []*Actor
	// Commits counts transactions that wrote something, without those of Transact; Crashes deaths
	// of the process, Advances calls of Advance, Reads reads of rows in transactions, and Wakes
	// jumps of the clock.
	Commits, Crashes, Advances, Reads, Wakes int

	t       testing.TB
	bubble  bool
	events  chan struct{} // capacity 1: something has changed while Mu was not held
	mail    []letter
	bodies  []*body // launched and not returned, in that order
	lastID  uint64  // of a message
	driving bool
	dying   bool // a body, or a condition, has called Crash
}

// Forever is a time that is never reached.
var Forever = time.Unix(1<<40, 0)

var errStuck = errors.New("the run does not come to rest")

// New returns a host without actors, which ends with the test. Its clock begins in November 2023.
func New(t testing.TB, programs ...*wfhost.Program) *Host {
	t.Helper()
	h := &Host{
		t: t, Now: time.UnixMilli(1_700_000_000_000).UTC(), Refused: map[string]error{}, Limit: 1_000_000,
		events: make(chan struct{}, 1), bubble: inBubble(),
	}
	h.Use(programs...)
	t.Cleanup(h.Close)
	return h
}

// inBubble reports whether the caller is in a bubble of testing/synctest.
func inBubble() (in bool) {
	defer func() {
		if recover() != nil {
			in = false
		}
	}()
	synctest.Wait() // panics outside of one
	return true
}

// Use replaces the programs, as a deploy does. It takes effect the next time that a run is opened.
func (h *Host) Use(programs ...*wfhost.Program) {
	h.t.Helper()
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Programs = map[string]*wfhost.Program{}
	for _, p := range programs {
		if err := p.Err(); err != nil {
			h.t.Fatal(err)
		}
		h.Programs[p.Name()] = p
	}
}

// Lookup returns the program of a name; nil if there is none.
func (h *Host) Lookup(name string) *wfhost.Program { return h.Programs[name] }

// Time returns the time on the clock.
func (h *Host) Time() time.Time {
	if h.bubble {
		return time.Now().UTC()
	}
	return h.Now
}

// Name names an actor for people, and as a key.
func Name(d wfhost.Destination) string {
	name := d.Type
	for _, k := range d.Key {
		name += "/" + strconv.Quote(k)
	}
	return name
}

// Actor returns the actor at d, and makes it if there is none.
func (h *Host) Actor(d wfhost.Destination) *Actor {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.actor(d)
}

func (h *Host) actor(d wfhost.Destination) *Actor {
	for _, a := range h.Actors {
		if Name(a.Self) == Name(d) {
			return a
		}
	}
	d.Key = slices.Clone(d.Key)
	a := &Actor{Host: h, Self: d, Rows: rowmap.New(), Queues: NewQueues()}
	if h.Fresh != nil {
		a.State = h.Fresh(d)
	}
	h.Actors = append(h.Actors, a)
	return a
}

// Drive runs events until until returns true, which it reports, or no event is left up to the
// limit. The clock then stands at the limit, unless that is Forever. until is called between any
// two events, without Mu; it may be nil.
func (h *Host) Drive(limit time.Time, until func() bool) bool {
	h.t.Helper()
	h.Mu.Lock()
	if h.driving {
		h.Mu.Unlock()
		h.t.Fatal("the Env is driven from two places at once; a body of a step must not")
	}
	h.driving = true
	defer func() {
		h.driving = false
		h.Mu.Unlock()
	}()
	holds := func() bool {
		if until == nil {
			return false
		}
		h.Mu.Unlock()
		defer h.Mu.Lock()
		return until()
	}
	for range h.Limit {
		if holds() {
			return true
		}
		if !h.step(limit) {
			if !h.bubble && limit != Forever && h.Now.Before(limit) {
				h.Now = limit
			}
			return holds()
		}
	}
	h.t.Fatalf("%v: after %d steps it is %v", errStuck, h.Limit, h.Time())
	return false
}

// step runs one event, and reports whether there was one.
func (h *Host) step(limit time.Time) bool {
	if h.dying {
		h.dying = false
		h.crash()
		return true
	}
	for _, a := range h.Actors {
		if a.due() {
			a.advance()
			return true
		}
	}
	if h.land() || h.begin() {
		return true
	}
	if h.busy() {
		h.unlocked(func() { <-h.events })
		return true
	}
	if len(h.mail) > 0 {
		h.deliver()
		return true
	}
	return h.tick(limit)
}

// Idle reports whether nothing is left to do before the clock moves or a body returns.
func (h *Host) Idle() bool {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return !slices.ContainsFunc(h.Actors, (*Actor).due) && len(h.mail) == 0 &&
		!slices.ContainsFunc(h.bodies, func(b *body) bool { return !b.started || b.returned })
}

// unlocked calls f, which waits, without Mu.
func (h *Host) unlocked(f func()) {
	h.Mu.Unlock()
	defer h.Mu.Lock()
	f()
}

// wakeUp causes the driver to look for events again.
func (h *Host) wakeUp() {
	select {
	case h.events <- struct{}{}:
	default:
	}
}

// tick sets the clock to the next wake time of a run.
func (h *Host) tick(limit time.Time) bool {
	var next *Actor
	for _, a := range h.Actors {
		wake := a.Last.Wake
		if wake.IsZero() || wake.After(limit) || a.Last.Paused && limit == Forever && h.Patient {
			continue
		}
		if next == nil || wake.Before(next.Last.Wake) {
			next = a
		}
	}
	if h.bubble {
		return h.tickBubble(next, limit)
	}
	if next == nil {
		return false
	}
	if next.Last.Wake.After(h.Now) {
		h.Now = next.Last.Wake
	}
	h.Wakes++
	next.stale = true
	return true
}

// tickBubble waits until an event happens, the wake time of next, or the limit.
func (h *Host) tickBubble(next *Actor, limit time.Time) bool {
	if next == nil && (len(h.bodies) == 0 && limit == Forever || !time.Now().Before(limit)) {
		return false
	}
	until := limit
	if next != nil {
		until = next.Last.Wake
	}
	var timer <-chan time.Time
	if until != Forever {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timer = t.C
	}
	came := false
	h.unlocked(func() {
		select {
		case <-h.events:
		case <-timer:
			came = true
		}
		if !h.Racing {
			synctest.Wait()
		}
	})
	if came && next != nil {
		h.Wakes++
		next.stale = true
	}
	return true
}

// commit commits a transaction, and reports whether the process died in it. It does not count a
// transaction that wrote nothing.
func (h *Host) commit(t *Turn) (died bool) {
	if !t.Wrote() {
		t.commit()
		return false
	}
	h.Commits++
	if h.Trace != nil {
		h.Trace(t)
	}
	died, after := h.Commits == h.CrashAt, h.CrashAfter
	if h.Chance != nil {
		died, after = h.Chance.IntN(5) == 0, h.Chance.IntN(2) == 0
	}
	if !died || after {
		t.commit()
	} else {
		t.rollback()
	}
	if died {
		h.crash()
	}
	return died
}

// Crash ends the process now and restarts it. In a body or a condition of Drive, it returns first.
func (h *Host) Crash() {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if h.driving {
		h.dying = true // a crash waits for bodies, perhaps for the caller's
		return
	}
	h.crash()
}

func (h *Host) crash() {
	h.Crashes++
	h.drop()
}

// Close drops all memory, and waits until it is gone. The next Drive opens all runs again, as after
// a crash.
func (h *Host) Close() {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.drop()
}

func (h *Host) drop() {
	for _, a := range h.Actors {
		a.shut()
		a.stale = true // a host advances all runs when it comes back
	}
	h.await(nil)
}

// await waits until the bodies of an actor have returned, and removes them; nil is all actors.
func (h *Host) await(a *Actor) {
	of := func(b *body) bool { return a == nil || b.a == a }
	for {
		h.bodies = slices.DeleteFunc(h.bodies, func(b *body) bool { return of(b) && (!b.started || b.returned) })
		if !slices.ContainsFunc(h.bodies, of) {
			return
		}
		h.unlocked(func() { <-h.events })
	}
}

// Rest closes all runs in order, as when their actors go to sleep.
func (h *Host) Rest() {
	h.t.Helper()
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, a := range h.Actors {
		if a.Run == nil {
			continue
		}
		a.cancel()
		busy := slices.ContainsFunc(h.bodies, func(b *body) bool { return b.a == a })
		h.await(a)
		a.Run.Leave()
		for a.stale = a.stale || busy; a.Run != nil && a.stale; {
			a.advance() // handles the results of the bodies; new bodies begin when the actor wakes
		}
		if a.Run == nil {
			continue
		}
		t := a.Turn()
		if err := a.Run.Rest(t); err != nil {
			h.t.Fatal(err)
		}
		t.commit()
		last := a.Last
		a.shut()
		h.await(a)
		a.Last, a.stale = last, last.Unlaunched
	}
}

// A letter is a message between runs.
type letter struct {
	from *Actor
	m    wfhost.Outgoing
}

// deliver delivers the oldest letter.
func (h *Host) deliver() {
	h.t.Helper()
	l := h.mail[0]
	to := h.actor(l.m.To)
	refusal := h.Refused[Name(l.m.To)]
	if refusal != nil {
		to = l.from
	}
	t := to.Turn()
	var err error
	if refusal != nil {
		err = wfhost.Undeliverable(t, &l.m, refusal)
	} else {
		err = wfhost.Deliver(t, h.Lookup, l.m.Body)
	}
	if err != nil {
		h.t.Fatalf("%s to %v: %v", l.m.Verb, l.m.To, err)
	}
	// The transaction that delivers the letter also removes it from the mail.
	h.mail = h.mail[1:]
	t.letter = &l
	to.started = true // even if the process dies after the commit; Advance finds out if there is no run
	if h.commit(t) {
		return
	}
	if l.m.Verb == "terminate" || l.m.Verb == "start" && to.Last.Ended { // the run in memory is an old one
		to.shut()
		h.await(to)
	}
	to.changed()
}

// A body is an execution of the body of a step.
type body struct {
	a        *Actor
	attempt  *wfhost.Attempt
	started  bool
	returned bool
	blocked  context.Context // the context that it waits for in Block; nil if it does not
}

// busy reports whether the host must wait for the body.
func (b *body) busy() bool {
	return b.started && !b.returned && (b.blocked == nil || b.blocked.Err() != nil)
}

// busy reports whether Drive must wait for a body. In a bubble it never must.
func (h *Host) busy() bool { return !h.bubble && slices.ContainsFunc(h.bodies, (*body).busy) }

// Busy reports whether a body runs concurrently with a condition of Drive, outside of a bubble.
func (h *Host) Busy() bool {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.busy()
}

// land removes the first launched body that has returned, and reports whether there was one.
func (h *Host) land() bool {
	i := slices.IndexFunc(h.bodies, func(b *body) bool { return b.returned })
	if i < 0 {
		return false
	}
	h.bodies[i].a.stale = true
	h.bodies = slices.Delete(h.bodies, i, i+1)
	return true
}

// Body runs the next body until it has returned or blocks, even if runs have more to do. It reports
// whether there was one.
func (h *Host) Body() bool {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if !h.begin() {
		return false
	}
	for h.busy() {
		h.unlocked(func() { <-h.events })
	}
	return true
}

// begin starts the next body. In a bubble it then waits until the body blocks. Otherwise it starts
// no body while another one is busy.
func (h *Host) begin() bool {
	if h.busy() {
		return false
	}
	i := slices.IndexFunc(h.bodies, func(b *body) bool { return !b.started })
	if i < 0 {
		return false
	}
	b := h.bodies[i]
	a := b.a
	b.started = true
	if h.Begin != nil {
		h.Begin(a, b.attempt)
	}
	ctx, cancel := context.WithCancel(context.WithValue(a.ctx, bodyKey{}, b))
	notify := func() {
		h.Mu.Lock()
		a.stale = true
		h.Mu.Unlock()
		h.wakeUp()
	}
	go func() {
		defer func() { // even if the body has called Goexit, as t.FailNow does
			cancel()
			h.Mu.Lock()
			b.returned = true
			h.Mu.Unlock()
			h.wakeUp()
		}()
		_ = b.attempt.Run(ctx, nil, notify) // the next Advance handles the result
	}()
	if h.bubble && !h.Racing {
		h.unlocked(synctest.Wait)
	}
	return true
}

type bodyKey struct{}

// Block waits until the context of a step ends, and returns its error. The host goes on while a
// body waits in it.
func Block(ctx context.Context) error {
	if b, ok := ctx.Value(bodyKey{}).(*body); ok {
		h := b.a.Host
		h.Mu.Lock()
		b.blocked = ctx
		h.Mu.Unlock()
		h.wakeUp()
		defer func() {
			h.Mu.Lock()
			b.blocked = nil
			h.Mu.Unlock()
		}()
	}
	<-ctx.Done()
	return ctx.Err()
}

// Launched returns the number of bodies that were launched and have not returned.
func (h *Host) Launched() int {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return len(h.bodies)
}

// Running returns the number of bodies that have begun and not returned.
func (h *Host) Running() (n int) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, b := range h.bodies {
		if b.started && !b.returned {
			n++
		}
	}
	return n
}

// Waits reports whether a waiting operation, or a step whose body runs, has a path that matches.
func (h *Host) Waits(match func(path string) bool) bool {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, b := range h.bodies {
		if b.started && match(b.attempt.Name()) {
			return true
		}
	}
	for _, a := range h.Actors {
		if a.stale || a.Last.Ended || !a.started {
			continue
		}
		s, err := wfhost.ReadStatus(a.Rows)
		if err == nil && slices.ContainsFunc(s.Waiting, func(w wfhost.Waiting) bool { return match(w.Path) }) {
			return true
		}
	}
	return false
}
