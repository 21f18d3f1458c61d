package workflowtest_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/replay"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// booking is a workflow as it was first released, and as it was changed since, rightly and wrongly.
func booking(fn func(ctx workflow.Context) error) *workflow.Function[none, none] {
	return workflow.NewFunction("booking", func(ctx workflow.Context, _ none) (none, error) { return none{}, fn(ctx) })
}

func do(ctx workflow.Context, names ...string) error {
	for _, name := range names {
		if _, err := step(ctx, name, name); err != nil {
			return err
		}
	}
	return nil
}

func bookingV1(ctx workflow.Context) error {
	if err := do(ctx, "reserve", "charge"); err != nil {
		return err
	}
	if err := workflow.Sleep(ctx, "cool down", time.Hour); err != nil {
		return err
	}
	return do(ctx, "mail", "archive")
}

func TestChangedFunctionsReplay(t *testing.T) {
	sleeping := workflowtest.New(t, booking(bookingV1)).Start(none{})
	sleeping.Settle()
	over := workflowtest.New(t, booking(bookingV1)).Start(none{})
	over.Wait()
	recordings := map[string]*wfhost.Recording{"sleeping": sleeping.Export(), "over": over.Export()}
	for _, tt := range []struct {
		name string
		fn   func(ctx workflow.Context) error
		want map[string]string // by recording: what is in the report; "" if it replays
	}{
		{"the same", bookingV1, map[string]string{"sleeping": "", "over": ""}},
		{"a step more, patched", func(ctx workflow.Context) error {
			if err := do(ctx, "reserve"); err != nil {
				return err
			}
			if workflow.Patched(ctx, "fraud check") {
				if err := do(ctx, "check"); err != nil {
					return err
				}
			}
			if err := do(ctx, "charge"); err != nil {
				return err
			}
			if err := workflow.Sleep(ctx, "cool down", time.Hour); err != nil {
				return err
			}
			return do(ctx, "mail", "archive")
		}, map[string]string{"sleeping": "", "over": ""}},
		{"a step more", func(ctx workflow.Context) error {
			return do(ctx, "reserve", "check", "charge")
		}, map[string]string{
			"sleeping": "the code asks for: step \"check\" (*env_test.go:*)\n  the history has:   step \"charge\" (completed) at position 1, begun 2026-06-01 09:00:00.000 UTC",
			"over":     `if workflow.Patched(ctx, "…")`,
		}},
		{"a step renamed", func(ctx workflow.Context) error {
			workflow.Renamed(ctx, "charge", "take payment")
			if err := do(ctx, "reserve", "take payment"); err != nil {
				return err
			}
			if err := workflow.Sleep(ctx, "cool down", time.Hour); err != nil {
				return err
			}
			return do(ctx, "mail", "archive")
		}, map[string]string{"sleeping": "", "over": ""}},
		{"a step renamed without a word", func(ctx workflow.Context) error {
			return do(ctx, "reserve", "charged")
		}, map[string]string{"sleeping": `the history also has "charge", which it is perhaps`, "over": `the history also has "charge"`}},
		{"a step removed", func(ctx workflow.Context) error {
			if err := do(ctx, "reserve"); err != nil {
				return err
			}
			workflow.Removed(ctx, "charge", workflow.KindStep)
			if err := workflow.Sleep(ctx, "cool down", time.Hour); err != nil {
				return err
			}
			return do(ctx, "mail", "archive")
		}, map[string]string{"sleeping": "", "over": ""}},
		{"a step removed without a word", func(ctx workflow.Context) error {
			if err := do(ctx, "reserve"); err != nil {
				return err
			}
			return workflow.Sleep(ctx, "cool down", time.Hour)
		}, map[string]string{"sleeping": "the code asks for: sleep \"cool down\"", "over": "the history has:   step \"charge\""}},
		{"the end removed without a word", func(ctx workflow.Context) error {
			if err := do(ctx, "reserve", "charge"); err != nil {
				return err
			}
			if err := workflow.Sleep(ctx, "cool down", time.Hour); err != nil {
				return err
			}
			return do(ctx, "mail")
		}, map[string]string{"sleeping": "", "over": `the history has:   step "archive"`}},
		{"a step more at the end", func(ctx workflow.Context) error {
			if err := bookingV1(ctx); err != nil {
				return err
			}
			return do(ctx, "survey")
		}, map[string]string{"sleeping": "", "over": "the function goes on to something that the history does not have"}},
		{"another error", func(ctx workflow.Context) error {
			if err := bookingV1(ctx); err != nil {
				return err
			}
			return errBusy
		}, map[string]string{"sleeping": "", "over": "the function now fails: busy"}},
		{"another order", func(ctx workflow.Context) error {
			return do(ctx, "charge", "reserve")
		}, map[string]string{"sleeping": `"charge" is recorded further on`, "over": `the order was changed`}},
	} {
		for which, want := range tt.want {
			t.Run(tt.name+", "+which, func(t *testing.T) {
				text := failing(t, func(t testing.TB) { workflowtest.Replay(t, booking(tt.fn), recordings[which]) })
				switch before, after, _ := strings.Cut(want, "*env_test.go:*"); {
				case want == "" && text != "":
					t.Errorf("it does not replay: %s", text)
				case want != "" && text == "":
					t.Error("it replays")
				case after != "":
					wantText(t, text, before, "env_test.go:", after[strings.Index(after, ")"):])
				default:
					wantText(t, text, before)
				}
			})
		}
	}
}

// TestPatchedRunGoesOn takes a run of the old version through a deploy.
func TestPatchedRunGoesOn(t *testing.T) {
	env := workflowtest.New(t, booking(bookingV1)).Start(none{})
	env.Settle()
	rec := env.Export()

	v2 := func(ctx workflow.Context) error {
		if err := do(ctx, "reserve"); err != nil {
			return err
		}
		return do(ctx, "check", "charge")
	}
	env.Deploy(booking(v2).Program())
	s := env.Wait()
	if s.State != wfhost.StatePaused || s.Pause.Reason != wfhost.PausedDiverged || !strings.Contains(s.Pause.Text, `step "check"`) {
		t.Fatalf("%+v", s)
	}
	v3 := func(ctx workflow.Context) error {
		if err := do(ctx, "reserve"); err != nil {
			return err
		}
		if workflow.Patched(ctx, "fraud check") {
			if err := do(ctx, "check"); err != nil {
				return err
			}
		}
		if err := do(ctx, "charge"); err != nil {
			return err
		}
		if err := workflow.Sleep(ctx, "cool down", time.Hour); err != nil {
			return err
		}
		return do(ctx, "mail", "archive")
	}
	env.Deploy(booking(v3).Program())
	env.Advance(10 * time.Minute) // it tries again by itself
	if _, err := env.Result(); err != nil || env.Calls("check") != 0 || env.Calls("archive") != 1 {
		t.Errorf("%v, %d checks, %d archived", err, env.Calls("check"), env.Calls("archive"))
	}

	// A recording goes on in the same way, elsewhere.
	other := workflowtest.New(t, booking(v3))
	must(t, other.Restore(rec))
	if _, err := other.Result(); err != nil || other.Calls("*") != 2 {
		t.Errorf("%v, %d calls", err, other.Calls("*"))
	}
}

func TestReplayOfAnotherOutput(t *testing.T) {
	define := func(factor int) *workflow.Function[int, int] {
		return workflow.NewFunction("w", func(ctx workflow.Context, in int) (int, error) {
			v, err := step(ctx, "s", in)
			return v * factor, err
		})
	}
	env := workflowtest.New(t, define(2)).Start(21)
	env.Wait()
	workflowtest.Replay(t, define(2), env.Export())
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Replay(t, define(3), env.Export()) }), "the run returned 42, and the function now returns 63")
	other := workflow.NewFunction("other", func(ctx workflow.Context, in int) (int, error) { return in, nil })
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Replay(t, other, env.Export()) }), `no workflow "w"`)
}

func TestFilesOfRecordings(t *testing.T) {
	dir := t.TempDir()
	env := workflowtest.New(t, booking(bookingV1)).Start(none{})
	env.Settle()
	file := filepath.Join(dir, "v1", "sleeping.rec")
	t.Setenv(workflowtest.RecordVariable, "")
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Record(t, file, env.Export()) }), "CAIRN_RECORD=1")
	t.Setenv(workflowtest.RecordVariable, "1")
	workflowtest.Record(t, file, env.Export())
	first, err := os.ReadFile(file)
	must(t, err)
	env.Wait()
	workflowtest.Record(t, file, env.Export())
	if second, err := os.ReadFile(file); err != nil || string(second) != string(first) {
		t.Errorf("a released recording was replaced: %v", err)
	}
	workflowtest.ReplayDir(t, booking(bookingV1), filepath.Join(dir, "*", "*.rec"))
	text := failing(t, func(t testing.TB) {
		workflowtest.ReplayDir(t, booking(func(workflow.Context) error { return nil }), filepath.Join(dir, "*", "*.rec"))
	})
	wantText(t, text, file, `step "reserve"`)
	wantText(t, failing(t, func(t testing.TB) { workflowtest.ReplayDir(t, booking(bookingV1), filepath.Join(dir, "*.none")) }), "no recording")
	must(t, os.WriteFile(file, first[:len(first)-9], 0o666))
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Load(t, file) }), file)
}

func TestDiff(t *testing.T) {
	a := workflowtest.New(t, booking(bookingV1)).Start(none{})
	a.Wait()
	b := workflowtest.New(t, booking(func(ctx workflow.Context) error {
		if err := do(ctx, "reserve", "check"); err != nil {
			return err
		}
		_, err := step(ctx, "charge", 7)
		return err
	}), workflowtest.WithClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))).Start(none{})
	b.Wait()
	want := strings.Join([]string{
		`+ step "check" at position 1: completed: "check"`,
		`- step "charge" at position 1: completed: "charge"`,
		`+ step "charge" at position 2: completed: 7`,
		`- sleep "cool down" at position 2: completed`,
		`- step "mail" at position 3: completed: "mail"`,
		`- step "archive" at position 4: completed: "archive"`, "",
	}, "\n")
	if diff := workflowtest.Diff(a.Export(), b.Export()); diff != want {
		t.Errorf("%s\nwant:\n%s", diff, want)
	}
	if diff := workflowtest.Diff(a.Export(), a.Export()); diff != "" {
		t.Errorf("a recording differs from itself:\n%s", diff)
	}
}

// form1 assembles a run as the first documented encoding of histories stores it, which is only read.
func form1(t *testing.T) *wfhost.Recording {
	t.Helper()
	rec := &wfhost.Recording{Manifest: replay.Manifest{Recording: 1, State: wfhost.StateRunning, Time: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}}
	add := func(key, value []byte) { rec.Rows = append(rec.Rows, replay.Row{Key: key, Value: value}) }
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "").Replace(s))
		must(t, err)
		return b
	}
	for i, name := range []string{"charge", "note", "nap", "w:count", "w:0", "both", "x", "y", "first", "gate", "ticks", "tick", "w:deadline"} {
		key := "071501"
		if i > 0 {
			key += "15"
			key += hex.EncodeToString([]byte{byte(i)})
		} else {
			key += "14"
		}
		add(unhex(key), []byte(name))
	}
	type entry struct{ loc, value string } // both after what is common
	const message = "b9 00 04 | 62 69 64 61 37 | 64 6e 61 6d 65 61 71 | 64 62 6f 64 79 b9 00 01 61 6e 01 | 69 63 72 65 61 74 65 64 41 74 fb 42 79 c8 cf 21 00 00 00"
	var metadata []replay.Row
	for i, e := range []entry{
		{"14", "01 00 00000000 | 00 | 01 02 18 2a | 00"},
		{"15 01", "01 00 01000000 | 00 | 00 | 00"},
		{"15 02", "01 00 02000000 | 02 | e803000000000000 | 01"},
		{"15 03", "01 00 03000000 | 03 | 07 77 3a 63 6f 75 6e 74 | 01 01"},
		{"15 04", "01 00 04000000 | 03 | 01 71 | 2d" + message},
		{"15 05", "01 00 05000000 | 05 | 02 | 01 78 02 01 01 01 00 | 01 79 02 01 01 02 00"},
		{"15 08", "01 00 08000000 | 06 | 01 04 66 61 73 74 | 02 | 04 66 61 73 74 02 01 01 01 00 | 04 73 6c 6f 77 04 00 00"},
		{"15 09", "01 00 09000000 | 08 | 01000000 | 03000000"},
		{"15 0a", "01 00 0a000000 | 01 | 06 b9 00 01 61 6e 02 | 02000000 | 00"},
		{"15 0a 05 15 0a 15 02 00 15 0b", "03 00 0a000000 01 0a000000 02000000 00 0b000000 | 00 | 01 01 05 | 00"},
		{"15 0c", "01 00 0c000000 | 02 | e803000000000000 | 02"},
	} {
		id := fmt.Sprintf("67b46c5f-821a-42fa-bd33-9b9968bdb4%02d", i)
		add(unhex("071502"+e.loc), append(append([]byte{1, 0, 36}, id...), unhex(e.value)...))
		if e.loc == "15 0a" {
			continue // the loop goes on
		}
		metadata = append(metadata, replay.Row{
			Key:   append(append(unhex("07150402"), id...), 0),
			Value: unhex("01 00 | 02 | 00 | 01 00 00 00 | 01 00 00 00 00 00 00 00 | 01 00 00 00 00 00 00 00 | 01 02 00 00 00 00 00 00 00 | 00 | 00"),
		})
	}
	add(unhex("0715031501"), []byte("sleeping"))
	add(unhex("0715031505"), unhex("63 746561")) // "tea"
	rec.Rows = append(rec.Rows, metadata...)
	return rec
}

// TestHistoryOfForm1Replays also goes on from there.
func TestHistoryOfForm1Replays(t *testing.T) {
	type state struct {
		N int `cbor:"n"`
	}
	define := func(charge string) *workflow.Function[string, string] {
		return workflow.NewFunction("form1", func(ctx workflow.Context, in string) (string, error) {
			amount, err := step(ctx, charge, 0)
			if err != nil {
				return "", err
			}
			if err := workflow.Do(ctx, "note", func(*workflow.StepCtx) error { return nil }); err != nil {
				return "", err
			}
			if err := workflow.Sleep(ctx, "nap", time.Hour); err != nil {
				return "", err
			}
			m, err := workflow.Receive(ctx, "w", workflow.Inbox[state]{Name: "q"}, workflow.Within(time.Hour))
			if err != nil {
				return "", err
			}
			var x, y int
			branch := func(ctx workflow.Context) (int, error) { return step(ctx, "job", 0) }
			if err := workflow.Join(ctx, "both", workflow.B("x", &x, branch), workflow.B("y", &y, branch)); err != nil {
				return "", err
			}
			won, v, err := workflow.Race(ctx, "first", workflow.C("fast", branch), workflow.C("slow", branch))
			if err != nil {
				return "", err
			}
			gate := workflow.Version(ctx, "gate", 3)
			sum, err := workflow.Loop(ctx, "ticks", state{}, func(it *workflow.Iter[state, int]) error {
				if it.State.N == 4 {
					return it.Break(it.State.N)
				}
				n, err := step(it, "tick", 1)
				it.State.N += n - min(n, 4)
				if n < 5 {
					it.State.N++
				}
				return err
			})
			return fmt.Sprint(in, amount, m.Body.N, x, y, won, v, gate, sum), err
		})
	}
	rec := form1(t)
	workflowtest.Replay(t, define("charge"), rec)
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Replay(t, define("bill"), rec) }), `step "charge"`)
	env := workflowtest.New(t, define("charge"))
	must(t, env.Restore(rec))
	if out, err := env.Result(); err != nil || out != "tea42 1 1 2fast1 1 4" {
		t.Errorf("%q, %v", out, err)
	}
	if n := env.Calls("*"); n != 1 {
		t.Errorf("%d calls", n)
	}
}
