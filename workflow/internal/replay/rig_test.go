package replay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

type none = struct{}

// A state is the state of an actor.
type state map[string]string

// put changes the state in a transaction.
func put(tx *workflow.Tx, key, value string) { (*tx.Host().(*state))[key] = value }

func stateOf(h *memory.Actor) state { return *h.State.(*state) }

func destination(name string) wfhost.Destination {
	return wfhost.Destination{Type: "test", Key: []string{name}}
}

// newActor returns an actor of a host of its own.
func newActor(t testing.TB, programs ...*wfhost.Program) *memory.Actor {
	t.Helper()
	h := memory.New(t, programs...)
	h.Fresh = func(wfhost.Destination) any { return &state{} }
	return h.Actor(destination("main"))
}

// started returns an actor with a run that was started and has not advanced.
func started(t testing.TB, p *wfhost.Program, in any) *memory.Actor {
	t.Helper()
	h := newActor(t, p)
	must(t, h.Start(p, in, wfhost.StartOptions{}))
	return h
}

// code makes the program of a function.
func code[Out any](fn workflow.Func[none, Out]) *wfhost.Program {
	return workflow.NewFunction("w", fn).Program()
}

// begun returns a host with a run of a function that has not advanced.
func begun[Out any](t testing.TB, fn workflow.Func[none, Out]) *memory.Actor {
	t.Helper()
	return started(t, code(fn), none{})
}

// drive drives a host until nothing is left to do.
func drive(t testing.TB, h *memory.Actor) { t.Helper(); h.Drive(memory.Forever, nil) }

// until drives a host until something is so. so may look at what bodies change.
func until(t testing.TB, h *memory.Actor, so func() bool) {
	t.Helper()
	h.Drive(memory.Forever, func() bool { return !h.Busy() && so() })
}

// pause drives a host until its run is paused or has ended.
func pause(t testing.TB, h *memory.Actor) {
	t.Helper()
	until(t, h, func() bool { return h.Last.Paused || h.Last.Ended })
}

// untilAsleep drives a host until its run waits for the clock, is paused or has ended. A wake at this
// instant is none.
func untilAsleep(t testing.TB, h *memory.Actor) {
	t.Helper()
	until(t, h, func() bool { return h.Last.Wake.After(h.Now) || h.Last.Ended || h.Last.Paused })
}

// control runs a control function in a transaction of its own.
func control(t testing.TB, h *memory.Actor, f func(t wfhost.Turn) error) {
	t.Helper()
	must(t, h.Transact(func(t *memory.Turn) error { return f(t) }))
}

func cancel(t testing.TB, h *memory.Actor) {
	t.Helper()
	control(t, h, func(t wfhost.Turn) error { return wfhost.Cancel(t, "enough") })
}

// entryOf returns the id of the entry at a path.
func entryOf(t *testing.T, h *memory.Actor, path string) wfhost.EntryID {
	t.Helper()
	for _, e := range listed(t, h) {
		if e.Path == path {
			return e.ID
		}
	}
	t.Fatalf("no entry %q", path)
	return ""
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// fatalIf ends the test with a message if something is wrong.
func fatalIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// errorIf is fatalIf for a test that goes on.
func errorIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// status returns what is recorded of the run as a whole.
func status(t testing.TB, h *memory.Actor) wfhost.RunStatus {
	t.Helper()
	s, err := wfhost.ReadStatus(h.Rows)
	must(t, err)
	return s
}

// wantOutput checks that a run has completed with an output.
func wantOutput[T comparable](t testing.TB, h *memory.Actor, want T) {
	t.Helper()
	s := status(t, h)
	if s.State != wfhost.StateCompleted {
		t.Fatalf("state %s, want completed: %s", s.State, why(s))
	}
	var got T
	must(t, cbor.Unmarshal(s.Output, &got))
	errorIf(t, got != want, "output %v, want %v", got, want)
}

// wantState checks the state that is shown.
func wantState(t testing.TB, h *memory.Actor, want wfhost.State) wfhost.RunStatus {
	t.Helper()
	s := status(t, h)
	if s.State != want {
		t.Fatalf("state %s, want %s: %s", s.State, want, why(s))
	}
	return s
}

// wantPause checks that the run is paused, and that the text has all of the parts.
func wantPause(t testing.TB, h *memory.Actor, reason wfhost.PauseReason, parts ...string) {
	t.Helper()
	s := status(t, h)
	if s.Pause == nil || s.Pause.Reason != reason {
		t.Fatalf("paused %v, want %s: %s", s.Pause, reason, why(s))
	}
	for _, part := range parts {
		errorIf(t, !strings.Contains(s.Pause.Text, part), "the pause does not say %q:\n%s", part, s.Pause.Text)
	}
}

func why(s wfhost.RunStatus) string {
	switch {
	case s.Pause != nil:
		return fmt.Sprintf("paused %s: %s", s.Pause.Reason, s.Pause.Text)
	case s.Failure != nil:
		return "failed: " + s.Failure.Message
	}
	return fmt.Sprintf("%+v", s)
}

// outcome says how a run has ended, in what must not depend on crashes.
func outcome(t testing.TB, h *memory.Actor) string {
	t.Helper()
	s := status(t, h)
	out := string(s.State)
	if s.Failure != nil {
		out += ": " + s.Failure.Message
	}
	if s.Pause != nil {
		out += ": " + s.Pause.Text
	}
	if s.Output != nil {
		var v any
		must(t, cbor.Unmarshal(s.Output, &v))
		out += fmt.Sprintf(" %v", v)
	}
	return out
}

// send puts a message into a queue.
func send(t testing.TB, h *memory.Actor, queue string, v any) {
	t.Helper()
	b, err := cbor.Marshal(v)
	must(t, err)
	h.Send(queue, b, true)
}

// everywhere runs a scenario once without a crash, and then once for each commit with a crash before and one after it. play
// drives the host to the end, and returns what must be the same each time.
func everywhere(t *testing.T, p *wfhost.Program, in any, play func(h *memory.Actor) string) {
	t.Helper()
	clean := started(t, p, in)
	want := play(clean)
	for n := 1; n <= clean.Commits; n++ {
		for _, after := range []bool{false, true} {
			h := started(t, p, in)
			h.CrashAt, h.CrashAfter = n, after
			if got := play(h); got != want {
				t.Errorf("crash at commit %d of %d (after it: %v): %s\nwant %s", n, clean.Commits, after, got, want)
			}
			errorIf(t, h.Crashes != 1, "crash at commit %d: %d crashes", n, h.Crashes)
			h.Close()
		}
	}
	errorIf(t, clean.Commits == 0, "nothing was committed")
}
