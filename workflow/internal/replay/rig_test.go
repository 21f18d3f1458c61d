package replay_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
	"github.com/cairn-run/cairn/workflow/internal/replay"
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

// until drives a host until so returns true. so may read data that bodies change.
func until(t testing.TB, h *memory.Actor, so func() bool) {
	t.Helper()
	h.Drive(memory.Forever, func() bool { return !h.Busy() && so() })
}

// pause drives a host until its run is paused or has ended.
func pause(t testing.TB, h *memory.Actor) {
	t.Helper()
	until(t, h, func() bool { return h.Last.Paused || h.Last.Ended })
}

// untilAsleep drives a host until its run waits for the clock, is paused or has ended. A wake at
// this instant does not count.
func untilAsleep(t testing.TB, h *memory.Actor) {
	t.Helper()
	until(t, h, func() bool { return h.Last.Wake.After(h.Now) || h.Last.Ended || h.Last.Paused })
}

var must, fatalIf, errorIf = replay.Must, replay.FatalIf, replay.ErrorIf

// status returns the recorded status of the run.
func status(t testing.TB, h *memory.Actor) wfhost.RunStatus {
	t.Helper()
	s, err := wfhost.ReadStatus(h.Rows)
	must(t, err)
	return s
}

// wantShown checks how the run of an actor has ended.
func wantShown(t testing.TB, h *memory.Actor, want string) {
	t.Helper()
	errorIf(t, shown(t, h) != want, "%s, want %s", shown(t, h), want)
}

// wantPause checks that the run is paused, and that the text has all of the parts.
func wantPause(t testing.TB, h *memory.Actor, reason wfhost.PauseReason, parts ...string) {
	t.Helper()
	s := status(t, h)
	fatalIf(t, s.Pause == nil || s.Pause.Reason != reason, "%s, want a pause: %s", outcome(t, h), reason)
	for _, part := range parts {
		errorIf(t, !strings.Contains(s.Pause.Text, part), "the pause does not say %q:\n%s", part, s.Pause.Text)
	}
}

// outcome returns how the run of an actor has ended.
func outcome(t testing.TB, h *memory.Actor) string {
	t.Helper()
	s, state := status(t, h), replay.RecordedState(t, h.Rows)
	switch {
	case s.Pause != nil:
		return fmt.Sprintf("%s paused %s: %s", state, s.Pause.Reason, s.Pause.Text)
	case s.Failure != nil:
		return fmt.Sprintf("%s: %s", state, s.Failure.Message)
	case s.Output != nil:
		var v any
		must(t, cbor.Unmarshal(s.Output, &v))
		return fmt.Sprintf("%s %v", state, v)
	}
	return string(state)
}

// attempts matches the number of executions in texts, which crashes increase.
var attempts = regexp.MustCompile(` after \d+ attempts`)

// snapshot prints the ends of the runs of all actors, their rows, states, replies and queues,
// without the parts that depend on crashes.
func snapshot(t testing.TB, h *memory.Host) string {
	t.Helper()
	var b strings.Builder
	for _, a := range h.Actors {
		replay.CheckRows(t, a.Rows)
		fmt.Fprintf(&b, "\n%s: %s\n%s%v", a.Self.Key[0], shown(t, a), replay.Recorded(t, a.Rows), a.State)
		for _, r := range a.Replies {
			fmt.Fprintf(&b, " reply %s/%d", r.Queue, r.ID)
		}
		for _, queue := range slices.Sorted(maps.Keys(a.Queues.Lists())) {
			for _, m := range a.Queues.Lists()[queue] {
				fmt.Fprintf(&b, " %s/%d", queue, m.ID)
			}
		}
	}
	return b.String()
}

// shown returns the outcome, without the parts that depend on crashes.
func shown(t testing.TB, h *memory.Actor) string {
	if _, err := wfhost.ReadStatus(h.Rows); errors.Is(err, wfhost.ErrNoRun) {
		return "no run"
	}
	return attempts.ReplaceAllString(outcome(t, h), "")
}

// send puts a message into a queue.
func send(t testing.TB, h *memory.Actor, queue string, v any) {
	t.Helper()
	b, err := cbor.Marshal(v)
	must(t, err)
	h.Send(queue, b, true)
}
