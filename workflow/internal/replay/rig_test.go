package replay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memhost"
)

type none = struct{}

// started returns a host with a run that was started and has not advanced.
func started(t testing.TB, p *wfhost.Program, in any) *memhost.Host {
	t.Helper()
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	h := memhost.New(p)
	t.Cleanup(h.Close)
	if err := h.Start(p, in); err != nil {
		t.Fatal(err)
	}
	return h
}

// startedLive is started, for bubbles of synctest.
func startedLive(t testing.TB, p *wfhost.Program, in any) *memhost.Host {
	t.Helper()
	h := memhost.New(p)
	h.Live = true
	t.Cleanup(h.Close)
	if err := h.Start(p, in); err != nil {
		t.Fatal(err)
	}
	return h
}

// drive lets a host go on until nothing is left to do.
func drive(t testing.TB, h *memhost.Host) {
	t.Helper()
	if err := h.Drive(nil); err != nil {
		t.Fatal(err)
	}
}

// status returns what is recorded of the run as a whole.
func status(t testing.TB, h *memhost.Host) wfhost.RunStatus {
	t.Helper()
	s, err := wfhost.ReadStatus(h.Reader())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantOutput checks that a run has completed with an output.
func wantOutput[T comparable](t testing.TB, h *memhost.Host, want T) {
	t.Helper()
	s := status(t, h)
	if s.State != wfhost.StateCompleted {
		t.Fatalf("state %s, want completed: %s", s.State, why(s))
	}
	var got T
	if err := cbor.Unmarshal(s.Output, &got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("output %v, want %v", got, want)
	}
}

// wantState checks the state that is shown.
func wantState(t testing.TB, h *memhost.Host, want wfhost.State) wfhost.RunStatus {
	t.Helper()
	s := status(t, h)
	if s.State != want {
		t.Fatalf("state %s, want %s: %s", s.State, want, why(s))
	}
	return s
}

// wantPause checks that the run is paused, and that the text has all of the parts.
func wantPause(t testing.TB, h *memhost.Host, reason wfhost.PauseReason, parts ...string) {
	t.Helper()
	s := status(t, h)
	if s.Pause == nil || s.Pause.Reason != reason {
		t.Fatalf("paused %v, want %s: %s", s.Pause, reason, why(s))
	}
	for _, part := range parts {
		if !strings.Contains(s.Pause.Text, part) {
			t.Errorf("the pause does not say %q:\n%s", part, s.Pause.Text)
		}
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
func outcome(t testing.TB, h *memhost.Host) string {
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
		if err := cbor.Unmarshal(s.Output, &v); err != nil {
			t.Fatal(err)
		}
		out += fmt.Sprintf(" %v", v)
	}
	return out
}

func body(t testing.TB, v any) []byte {
	t.Helper()
	b, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// everywhere runs a scenario once without a crash, and then once for each commit with a crash before and one after it. play
// drives the host to the end, and returns what must be the same each time.
func everywhere(t *testing.T, p *wfhost.Program, in any, play func(h *memhost.Host) string) {
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
			if h.Crashes != 1 {
				t.Errorf("crash at commit %d: %d crashes", n, h.Crashes)
			}
			h.Close()
		}
	}
	if clean.Commits == 0 {
		t.Error("nothing was committed")
	}
}
