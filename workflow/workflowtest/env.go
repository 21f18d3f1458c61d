package workflowtest

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// An Env is a host in memory for the run of one workflow, and for the runs that it spawns in other
// actors. It ends with the test. Its methods may be called from several goroutines and from bodies
// of steps. Functions that run within a transaction, such as the arguments of Update and Await,
// must not call them. A fault of the Env itself fails the test.
type Env[In, Out any] struct {
	// Actor is the actor of the workflow.
	*Actor
	d *workflow.Function[In, Out]
}

// An Option is an option of New and CrashEverywhere.
type Option func(*options)

type options struct {
	programs []*wfhost.Program
	states   map[string]func() any // by type of actor; "" for all others
	logger   func() *slog.Logger
	start    time.Time
	tolerate func(want, got *Ending) bool
	crashes  int
	limit    int
}

// WithLimit bounds the number of events in one call of Wait, Advance and the like. More events fail
// the test, because the run does not come to rest. The default is 1,000,000.
func WithLimit(n int) Option { return func(o *options) { o.limit = n } }

// WithPrograms adds workflows that Spawn with OnActor can start in other actors.
func WithPrograms(programs ...*wfhost.Program) Option {
	return func(o *options) { o.programs = append(o.programs, programs...) }
}

// WithState gives each actor a state, a *S that fresh makes. Tx.Host returns it to Update and
// OnCommit, and Await reads it. If types are named, it is for actors of these types only. A
// transaction that is undone, or that a crash prevents, does not change the state; for that, the
// state and all that it refers to are copied.
func WithState[S any](fresh func() *S, types ...string) Option {
	return func(o *options) {
		if o.states == nil {
			o.states = map[string]func() any{}
		}
		if len(types) == 0 {
			types = []string{""}
		}
		for _, t := range types {
			o.states[t] = func() any { return fresh() }
		}
	}
}

// WithLogger sets the logger of workflows. The default discards messages.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.logger = func() *slog.Logger { return l } }
}

// WithClock sets the time at which the Env begins. The default is 9 o'clock UTC on the first of
// June 2026. In a bubble of testing/synctest it has no effect.
func WithClock(start time.Time) Option { return func(o *options) { o.start = start } }

// New returns an Env for a workflow, with nothing started in it.
func New[In, Out any](t testing.TB, d *workflow.Function[In, Out], opts ...Option) *Env[In, Out] {
	t.Helper()
	o := options{start: time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC), limit: 1_000_000}
	for _, opt := range opts {
		opt(&o)
	}
	w := &world{Host: memory.New(t), t: t, options: o, main: d.Program().Name()}
	w.Now, w.Limit, w.Patient, w.Begin, w.Options.Logger = o.start, o.limit, true, w.begin, o.logger
	w.Fresh = func(self workflow.Destination) any {
		fresh := o.states[self.Type]
		if fresh == nil {
			fresh = o.states[""]
		}
		if fresh == nil {
			return nil
		}
		return fresh()
	}
	w.use(append([]*wfhost.Program{d.Program()}, o.programs...))
	return &Env[In, Out]{w.actor(workflow.Destination{Type: "test", Key: []string{"main"}}), d}
}

// A world is the state of an Env: a host in memory, and the requests of the test.
type world struct {
	*memory.Host
	t       testing.TB
	options options
	main    string // name of the Env's program

	// Guarded by Mu.
	stubs    []stub
	ran      []executed // bodies that were started
	requests []*Request
	trace    []string // the commits in words, for CrashEverywhere
}

// An executed is a body that was started.
type executed struct {
	a    *memory.Actor
	path string
}

// When says on which side of a commit the process dies.
type When uint8

const (
	// Before: the transaction is lost.
	Before When = iota
	// After: the transaction is durable, and later events have not happened.
	After
)

// String returns "before" or "after".
func (w When) String() string {
	if w == After {
		return "after"
	}
	return "before"
}

// use replaces the programs. Histories of form 1 do not name their workflow.
func (w *world) use(programs []*wfhost.Program) {
	w.t.Helper()
	w.Use(programs...)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Programs[""] = w.Programs[w.main]
}

func (w *world) actor(d workflow.Destination) *Actor { return &Actor{w, w.Host.Actor(d)} }

// begin records a body that begins, and replaces it by its stub.
func (w *world) begin(a *memory.Actor, attempt *wfhost.Attempt) {
	w.ran = append(w.ran, executed{a, attempt.Name()})
	for _, s := range slices.Backward(w.stubs) {
		if matches(s.pattern, attempt.Name()) {
			attempt.Replace(s.fn)
			break
		}
	}
}

// Start starts the run with an input, and returns the Env. Starting it again with the same input
// does nothing.
func (e *Env[In, Out]) Start(in In) *Env[In, Out] {
	e.w.t.Helper()
	if err := e.a.Start(e.d.Program(), in, wfhost.StartOptions{ID: runID(e.a.Self)}); err != nil {
		e.w.t.Fatal(err)
	}
	return e
}

// runID returns the id of the run of an actor. It is the same in each test, and so are values
// derived from it.
func runID(d workflow.Destination) (id [16]byte) {
	h := uint64(14695981039346656037)
	for i, s := range append([]string{d.Type}, d.Key...) {
		for _, c := range []byte(s) {
			h = (h ^ uint64(c)) * 1099511628211
		}
		h = (h ^ uint64(i)) * 1099511628211
	}
	for i := range id {
		id[i] = byte(h >> (8 * (i % 8)))
	}
	id[15] |= 1
	return id
}

// An UnfinishedError says that a run is not over, and that nothing is left to do.
type UnfinishedError struct{ Status wfhost.RunStatus }

func (e *UnfinishedError) Error() string {
	s := "workflowtest: the run is " + string(e.Status.State)
	if p := e.Status.Pause; p != nil {
		return fmt.Sprintf("%s (%s): %s", s, p.Reason, p.Text)
	}
	for i, wait := range e.Status.Waiting {
		if i == 0 {
			s += ", and waits for "
		} else {
			s += ", "
		}
		s += fmt.Sprintf("%s %q", wait.Kind, wait.Path)
		if len(wait.Queues) > 0 {
			s += fmt.Sprintf(" (queue %q)", wait.Queues)
		}
	}
	return s
}

// Result is Wait, but returns the result of the function: its output, or the error with which the
// run failed. If the run was cancelled, the error matches workflow.ErrCanceled, even if the
// function returned none. If the run is not over, the error is an *UnfinishedError.
func (e *Env[In, Out]) Result() (Out, error) {
	e.w.t.Helper()
	var out Out
	s := e.Wait()
	if !s.State.Over() {
		return out, &UnfinishedError{s}
	}
	err := e.d.Program().DecodeFailure(s.Failure)
	switch {
	case s.State == wfhost.StateCompleted:
		if err := e.d.Program().DecodeOutput(s.Output, &out); err != nil {
			e.w.t.Fatal(err)
		}
		return out, nil
	case s.State == wfhost.StateFailed && err != nil:
		return out, err
	}
	ended := &workflow.CanceledError{Cause: err}
	if err == nil {
		ended.Cause = errors.New("the run was " + string(s.State))
	}
	return out, ended
}

// At returns another actor, in which children run. It makes the actor if it is new.
func (e *Env[In, Out]) At(d workflow.Destination) *Actor {
	return e.w.actor(d)
}

// Refuse makes messages to an actor undeliverable, with the error err; nil ends that.
func (e *Env[In, Out]) Refuse(d workflow.Destination, err error) {
	e.w.Mu.Lock()
	defer e.w.Mu.Unlock()
	e.w.Refused[memory.Name(d)] = err
}

// Stub replaces the bodies of steps from now on. The pattern matches a path as in the history,
// names joined by slashes, iterations of loops as ~7, or the end of one, so a name alone matches
// every step of that name. * stands for any text without a slash, ? for any one character except a
// slash. The path of an undo handler is "undo of " and the path of the step. fn returns the result
// of the body. The last stub that matches counts. It runs as often as the body would.
func (e *Env[In, Out]) Stub(pattern string, fn func(sc *workflow.StepCtx) (any, error)) *Env[In, Out] {
	e.w.Mu.Lock()
	defer e.w.Mu.Unlock()
	e.w.stubs = append(e.w.stubs, stub{pattern, fn})
	return e
}

// Calls returns the number of executions of bodies of steps whose path matches the pattern (see
// Stub), including stubs, in all actors.
func (e *Env[In, Out]) Calls(pattern string) (n int) {
	e.w.Mu.Lock()
	defer e.w.Mu.Unlock()
	for _, r := range e.w.ran {
		if matches(pattern, r.path) {
			n++
		}
	}
	return n
}

// Now returns the time on the Env's clock.
func (e *Env[In, Out]) Now() time.Time {
	e.w.Mu.Lock()
	defer e.w.Mu.Unlock()
	return e.w.Time()
}

// Commits returns the number of transactions committed since New, in all actors, without those of
// Start, Send and the like. CrashAtCommit uses this number.
func (e *Env[In, Out]) Commits() int {
	e.w.Mu.Lock()
	defer e.w.Mu.Unlock()
	return e.w.Host.Commits
}

// CrashAtCommit crashes the process at the n-th commit since New, counted from 1, and restarts it
// at once. The contexts of running bodies end, and the Env waits for the bodies; their results are
// lost.
func (e *Env[In, Out]) CrashAtCommit(n int, when When) *Env[In, Out] {
	e.w.Mu.Lock()
	defer e.w.Mu.Unlock()
	e.w.CrashAt, e.w.CrashAfter = n, when == After
	return e
}

// Crash crashes the process now and restarts it. In the body of a step, Crash returns first. The
// process then dies before the run gets a result or progress of the body.
func (e *Env[In, Out]) Crash() {
	e.w.Crash()
}

// Crashes returns the number of crashes.
func (e *Env[In, Out]) Crashes() int {
	e.w.Mu.Lock()
	defer e.w.Mu.Unlock()
	return e.w.Host.Crashes
}

// Deploy replaces all programs, as a new version of the code does. It drops all memory, and each
// run continues with the new program of its name.
func (e *Env[In, Out]) Deploy(programs ...*wfhost.Program) {
	e.w.t.Helper()
	e.w.Rest()
	e.w.Close()
	e.w.use(programs)
}

// Sleep puts all actors to sleep in order. The contexts of running bodies end, and bodies count as
// not run unless they succeed. The next event wakes the actors.
func (e *Env[In, Out]) Sleep() {
	e.w.t.Helper()
	e.w.Rest()
}

// Wait runs the workflow, and moves the clock to each wake time, until the run is over or nothing
// is left to do: it waits for a message, for example, or is paused. Wait returns the run's status.
func (e *Env[In, Out]) Wait() wfhost.RunStatus {
	e.w.t.Helper()
	e.w.Drive(memory.Forever, e.a.Over)
	return e.Status()
}

// Settle runs everything that is due without moving the clock.
func (e *Env[In, Out]) Settle() {
	e.w.t.Helper()
	e.w.Drive(e.Now(), nil)
}

// Advance moves the clock by d, and runs everything that is due meanwhile. Paused runs try again at
// their time.
func (e *Env[In, Out]) Advance(d time.Duration) {
	e.w.t.Helper()
	e.w.Drive(e.Now().Add(d), nil)
}

// Until is Wait until a condition holds, and reports whether it does. It checks the condition
// between any two events.
func (e *Env[In, Out]) Until(cond func() bool) bool {
	e.w.t.Helper()
	return e.w.Drive(memory.Forever, cond)
}

// Reach is Until an operation whose path matches the pattern (see Stub) waits, or is a step whose
// body runs, in any actor. If that does not happen, it fails the test.
func (e *Env[In, Out]) Reach(pattern string) {
	e.w.t.Helper()
	if !e.w.Drive(memory.Forever,
		func() bool { return e.w.Waits(func(path string) bool { return matches(pattern, path) }) }) {
		e.w.t.Fatalf("nothing reaches %q: %v", pattern, &UnfinishedError{e.Status()})
	}
}
