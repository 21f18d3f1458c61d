package workflowtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// An Ending is the part of an Env's final state that must not depend on the moment of a crash.
type Ending struct {
	// Actors are the Env's actors, in the order in which they were made.
	Actors []ActorEnding
}

// An ActorEnding is the final state of one actor.
type ActorEnding struct {
	Actor workflow.Destination
	// Run is the run's state and its result or error, without the number of attempts.
	Run string
	// Published is the run's published value, State the actor's state.
	Published string
	State     any
	// Queues has the bodies of the remaining messages, Replies the answers to requests, in the
	// order of the requests.
	Queues  map[string][]string
	Replies []string
	// Owed counts the steps that would be undone if the run failed; Undone lists the undo handlers
	// that ran, each once.
	Owed   int
	Undone []string
}

// WithTolerance makes CrashEverywhere accept an ending that differs from the one without a crash.
// Steps that must run at most once need this, for example, because a crash fails them.
func WithTolerance(same func(want, got *Ending) bool) Option {
	return func(o *options) { o.tolerate = same }
}

// WithCrashes bounds the commits at which CrashEverywhere crashes the process; they are spread
// evenly over the script. The default, 0, is all commits.
func WithCrashes(n int) Option { return func(o *options) { o.crashes = n } }

// CrashEverywhere runs a script in an Env of its own, and counts its commits. For each commit it
// runs the script again with a crash before it, and with a crash after it. Each time the ending
// must be the same: that of the run, its published value, the actor's state, replies, undone steps,
// and the messages left in queues. If not, the test fails with the commit and the difference.
//
// The script starts the run, sends messages and so on, and must do the same each time. Its
// assertions are checked with every crash.
func CrashEverywhere[In, Out any](t testing.TB, d *workflow.Function[In, Out],
	script func(env *Env[In, Out]), opts ...Option) {
	t.Helper()
	first := New(t, d, opts...)
	first.w.Trace = func(t *memory.Turn) { first.w.trace = append(first.w.trace, commitOf(t)) }
	script(first)
	first.Settle()
	want, commits, o := first.ending(), first.Commits(), first.w.options
	if t.Failed() {
		return // a script that fails without a crash need not be tried with one
	}
	step := 1
	if o.crashes > 0 {
		step = max(1, (commits+o.crashes-1)/o.crashes)
	}
	for n := 1; n <= commits; n += step {
		for _, when := range []When{Before, After} {
			where := fmt.Sprintf("the process died %s commit %d of %d (%s)", when, n, commits, first.w.trace[n-1])
			got, crashed := once(t, d, script, opts, n, when, where)
			if !crashed {
				t.Errorf("the script does not do the same each time: that %s did not happen", where)
				return
			}
			if t.Failed() {
				t.Errorf("that is when %s", where)
				return
			}
			if diff := want.diff(got); diff != "" && (o.tolerate == nil || !o.tolerate(want, got)) {
				t.Errorf("when %s, it ends differently:\n%s", where, diff)
				return
			}
		}
	}
}

// once runs the script with one crash.
func once[In, Out any](t testing.TB, d *workflow.Function[In, Out], script func(env *Env[In, Out]),
	opts []Option, n int, when When, where string) (e *Ending, crashed bool) {
	t.Helper()
	env := New(t, d, opts...).CrashAtCommit(n, when)
	returned := false
	defer func() {
		if !returned {
			t.Logf("that is when %s", where)
		}
	}()
	script(env)
	env.Settle()
	returned = true
	e = env.ending()
	env.w.Close()
	return e, env.Crashes() > 0
}

// ending returns the final state of the Env.
func (e *Env[In, Out]) ending() *Ending {
	e.w.t.Helper()
	e.w.Mu.Lock()
	defer e.w.Mu.Unlock()
	var all Ending
	for _, a := range e.w.Actors {
		all.Actors = append(all.Actors, e.w.endingOf(a))
	}
	return &all
}

func (w *world) endingOf(a *memory.Actor) ActorEnding {
	e := ActorEnding{Actor: a.Self, State: a.State, Queues: map[string][]string{}}
	s, err := wfhost.ReadStatus(a.Rows)
	switch {
	case err != nil:
		e.Run = err.Error()
	case s.Pause != nil:
		e.Run = fmt.Sprintf("%s (%s): %s", s.State, s.Pause.Reason, s.Pause.Text)
	case s.Failure != nil:
		e.Run = fmt.Sprintf("%s: %s", s.State, withoutAttempts(s.Failure.Message))
	case s.State.Over():
		e.Run = fmt.Sprintf("%s: %s", s.State, show(s.Output))
	default:
		e.Run = string(s.State)
	}
	e.Published, e.Owed = show(s.Published), s.Undo
	for name, list := range a.Queues.Lists() {
		for _, m := range list {
			e.Queues[name] = append(e.Queues[name], show(m.Body))
		}
	}
	for _, q := range w.requests {
		if q.a.a != a {
			continue
		}
		switch r := q.reply(); {
		case r == nil:
			e.Replies = append(e.Replies, "none")
		case r.Failure != nil:
			e.Replies = append(e.Replies, "error: "+withoutAttempts(r.Failure.Message))
		default:
			e.Replies = append(e.Replies, show(r.Body))
		}
	}
	for _, r := range w.ran {
		if r.a != a || !strings.Contains(r.path, undoOf) {
			continue
		}
		if i := strings.Index(r.path, undoOf); !slices.Contains(e.Undone, r.path[i+len(undoOf):]) {
			e.Undone = append(e.Undone, r.path[i+len(undoOf):])
		}
	}
	return e
}

// commitOf returns the changes of a transaction, for people.
func commitOf(t *memory.Turn) string {
	var parts []string
	if d, err := replay.Changed(t.Rows, t.Written()); err == nil {
		for _, e := range d.Entries {
			parts = append(parts, fmt.Sprintf("%s %q %s", e.Kind, e.Path, e.Status))
		}
		if len(d.Removed) > 0 {
			parts = append(parts, fmt.Sprintf("%d entries deleted", len(d.Removed)))
		}
	}
	for _, m := range t.Sent {
		parts = append(parts, m.Verb+" to "+memory.Name(m.To))
	}
	if s, err := wfhost.ReadStatus(t.Rows); err == nil &&
		(s.State.Over() || s.State == wfhost.StateRollingBack || len(parts) == 0) {
		parts = append(parts, "the run is "+string(s.State))
	}
	return memory.Name(t.Actor.Self) + ": " + strings.Join(parts, ", ")
}

// withoutAttempts removes the numbers of attempts from the text of an error, because a crash adds
// attempts.
func withoutAttempts(text string) string {
	for {
		before, rest, ok := strings.Cut(text, " after ")
		if !ok {
			return text
		}
		digits := strings.TrimLeft(rest, "0123456789")
		after, isCount := strings.CutPrefix(digits, " attempts")
		if !isCount || digits == rest {
			return before + " after " + withoutAttempts(rest)
		}
		text = before + after
	}
}

// show prints an encoded value; in hexadecimal if it is not in CBOR.
func show(data []byte) string {
	if data == nil {
		return "none"
	}
	var v any
	if err := values().DecodeOutput(data, &v); err != nil {
		return fmt.Sprintf("0x%x", data)
	}
	if v == nil {
		return "nothing"
	}
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%v", v)
}

// diff returns the differences between two endings; "" if there are none.
func (e *Ending) diff(got *Ending) string {
	var b strings.Builder
	line := func(actor workflow.Destination, what string, want, got any) {
		if !reflect.DeepEqual(want, got) {
			fmt.Fprintf(&b, "  %s: %s\n    without a crash: %s\n    with it:         %s\n",
				memory.Name(actor), what, dump(want), dump(got))
		}
	}
	if len(e.Actors) != len(got.Actors) {
		fmt.Fprintf(&b, "  %d actors without a crash, %d with it\n", len(e.Actors), len(got.Actors))
	}
	for i := range min(len(e.Actors), len(got.Actors)) {
		w, g := &e.Actors[i], &got.Actors[i]
		line(w.Actor, "actor", w.Actor, g.Actor)
		line(w.Actor, "run", w.Run, g.Run)
		line(w.Actor, "published", w.Published, g.Published)
		line(w.Actor, "state", w.State, g.State)
		line(w.Actor, "queues", w.Queues, g.Queues)
		line(w.Actor, "replies", w.Replies, g.Replies)
		line(w.Actor, "owed", w.Owed, g.Owed)
		line(w.Actor, "undone", w.Undone, g.Undone)
	}
	return b.String()
}

// dump prints a value, through a pointer.
func dump(v any) string {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
		v = p.Elem().Interface()
	}
	return fmt.Sprintf("%+v", v)
}
