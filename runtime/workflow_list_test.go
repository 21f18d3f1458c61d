package runtime_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A logBook is a log that tests read.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// listRuns writes what a node lists as type/key state reason.
func listRuns(t *testing.T, h *actortest.Harness, q host.RunQuery) string {
	t.Helper()
	found := map[string]bool{}
	for {
		page, err := h.Runtime().Runs(context.Background(), q)
		must(t, err)
		for _, r := range page.Runs {
			fatalIf(t, r.Run == "" || r.Workflow != "handle" || r.Since.IsZero(), "%+v", r)
			found[strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key[0], r.State, r.Reason))] = true
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			break
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), ", ")
}

func pausedGauge(t *testing.T, h *actortest.Harness) string {
	t.Helper()
	families, err := h.Runtime().Gatherer().Gather()
	must(t, err)
	found := map[string]bool{}
	for _, f := range families {
		if f.GetName() != "cairn_workflow_runs_paused" {
			continue
		}
		for _, m := range f.Metric {
			if v := m.GetGauge().GetValue(); v != 0 {
				found[fmt.Sprintf("%s %v", m.Label[0].GetValue(), v)] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), ", ")
}

// Runs that are paused or have failed are found by type, state, reason and age, through restarts, and no longer than that.
func TestWorkflowRunsThatArePausedOrFailedAreListed(t *testing.T) {
	does("naps", func(ctx workflow.Context, c claim) (string, error) {
		return "napped", workflow.Sleep(ctx, "nap", 100*time.Hour)
	})
	does("fails", func(ctx workflow.Context, c claim) (string, error) { return "", fmt.Errorf("no such thing") })
	first := func(ctx workflow.Context, c claim) (string, error) {
		if err := workflow.Sleep(ctx, "first", time.Hour); err != nil {
			return "", err
		}
		return "well", workflow.Sleep(ctx, "last", time.Hour)
	}
	other := func(ctx workflow.Context, c claim) (string, error) {
		_, err := workflow.Receive(ctx, "other", papers)
		return "", err
	}
	does("changes", first)
	book := new(logBook)
	options := func(o *runtime.Options) { o.Logger = slog.New(slog.NewTextHandler(book, nil)) }
	actortest.Config{Options: options}.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := context.Background()
		for key, how := range map[string]string{"held": "naps", "failed": "fails", "changed": "changes", "well": "naps", "gone": "fails", "put away": "naps"} {
			startClaim(t, desks.Ref(h, key), claim{how, 1})
		}
		for _, key := range []string{"held", "put away"} {
			must(t, deskRun.Of(desks.Ref(h, key)).Pause(ctx, "look at it"))
		}
		if got := listRuns(t, h, host.RunQuery{}); got != "failed failed, gone failed, held paused operator, put away paused operator" {
			t.Fatal(got)
		}
		time.Sleep(10 * time.Minute)
		does("changes", other)
		h.Crash()
		time.Sleep(2 * time.Hour)
		all := "changed paused diverged, failed failed, gone failed, held paused operator, put away paused operator"
		for range 2 {
			for q, want := range map[host.RunQuery]string{
				{}:                                    all,
				{Limit: 1}:                            all,
				{State: wfhost.StatePaused, Limit: 2}: "changed paused diverged, held paused operator, put away paused operator",
				{State: wfhost.StateFailed}:           "failed failed, gone failed",
				{Reason: wfhost.PausedDiverged}:       "changed paused diverged",
				{Type: "bot"}:                         "",
				{Type: "desk", Before: time.Now().Add(-time.Hour - 59*time.Minute)}: "failed failed, gone failed, held paused operator, put away paused operator",
			} {
				if got := listRuns(t, h, q); got != want {
					t.Fatalf("%+v: %s, want %s", q, got, want)
				}
			}
			if got := pausedGauge(t, h); got != "diverged 1, operator 2" {
				t.Fatal(got)
			}
			h.Restart()
			h.Settle()
		}
		counts, err := h.Runtime().CountRuns(ctx)
		if got := fmt.Sprint(counts.Counts); err != nil || got != "[{desk paused diverged 1} {desk paused operator 2} {desk failed  2}]" {
			t.Fatal(got, err)
		}
		if n := book.count("a workflow run is paused"); n != 3 {
			t.Errorf("%d log lines of 3 pauses", n)
		}
		if st := h.Status("desk", "changed"); st.Run == nil || st.Run.State != wfhost.StatePaused || st.Run.Reason != wfhost.PausedDiverged {
			t.Fatalf("%+v", st.Run)
		}
		page, err := h.List(ctx, host.ListQuery{Type: "desk"})
		if err != nil || len(page.Actors) != 6 || page.Actors[0].Run == nil || page.Actors[0].Run.Reason != wfhost.PausedDiverged {
			t.Fatalf("%+v, %v", page, err)
		}
		// A node with other code tries at once what its code did not fit.
		does("changes", first)
		h.Restart()
		h.Settle()
		must(t, deskRun.Of(desks.Ref(h, "held")).Resume(ctx))
		must(t, deskRun.Of(desks.Ref(h, "put away")).Terminate(ctx, "enough"))
		must(t, desks.Ref(h, "gone").Destroy(ctx))
		must(t, errOf(deskRun.Of(desks.Ref(h, "failed")).Start(ctx, claim{"naps", 2}, handle.Replace())))
		if got := listRuns(t, h, host.RunQuery{}) + pausedGauge(t, h); got != "" {
			t.Fatal(got)
		}
		time.Sleep(2 * time.Hour)
		wantResult(t, desks.Ref(h, "changed"), "well")
		for _, q := range []host.RunQuery{{State: "running"}, {Limit: -1}, {Limit: 1001}, {Cursor: "x"}, {State: "failed", Reason: "operator"}, {Reason: "divergd"}} {
			if _, err := h.Runtime().Runs(ctx, q); actor.CodeOf(err) != actor.InvalidArgument || q.Reason == "divergd" && !strings.Contains(err.Error(), `"diverged" "misuse"`) {
				t.Errorf("%+v: %v", q, err)
			}
		}
	}, deskDefinition())
}

// The run of an actor whose code is gone leaves the list with its actor.
func TestDestroyedRunWithoutCodeIsNotListed(t *testing.T) {
	does("fails", func(workflow.Context, claim) (string, error) { return "", fmt.Errorf("no such thing") })
	does("naps", func(ctx workflow.Context, _ claim) (string, error) { return "", workflow.Sleep(ctx, "nap", time.Hour) })
	dir, ctx := t.TempDir(), t.Context()
	open := func(d actor.Definition) *runtime.Runtime {
		rt, err := runtime.Open(ctx, runtime.Options{Dir: dir, Actors: []actor.Definition{d}, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		return rt
	}
	rt := open(deskDefinition())
	failed, paused := desks.Ref(rt, "failed"), desks.Ref(rt, "paused")
	startClaim(t, failed, claim{"fails", 1})
	if _, err := deskRun.Of(failed).Result(ctx); err == nil {
		t.Fatal("the run has not failed")
	}
	startClaim(t, paused, claim{"naps", 1})
	must(t, deskRun.Of(paused).Pause(ctx, "look at it"))
	must(t, rt.Close())
	rt = open(botDefinition(actor.Spec[bot]{}))
	defer rt.Close()
	if counts, err := rt.CountRuns(ctx); err != nil || len(counts.Counts) != 2 {
		t.Fatalf("%v, %v", counts, err)
	}
	for _, key := range []string{"failed", "paused"} {
		must(t, desks.Ref(rt, key).Destroy(ctx))
	}
	if counts, err := rt.CountRuns(ctx); err != nil || len(counts.Counts) != 0 {
		t.Errorf("%v, %v", counts, err)
	}
}

// A node counts and gauges the runs of its own namespace, as its list shows them.
func TestRunsOfAnotherNamespaceAreNotCounted(t *testing.T) {
	does("naps", func(ctx workflow.Context, c claim) (string, error) {
		return "", workflow.Sleep(ctx, "nap", 100*time.Hour)
	})
	namespace := "default"
	actortest.Config{Options: func(o *runtime.Options) { o.Namespace = namespace }}.Run(t, func(t *testing.T, h *actortest.Harness) {
		startClaim(t, desks.Ref(h, "a"), claim{"naps", 1})
		must(t, deskRun.Of(desks.Ref(h, "a")).Pause(t.Context(), ""))
		for _, want := range []string{"", "operator 1"} {
			if namespace = "other"; want != "" {
				namespace = "default"
			}
			h.Restart()
			counts, err := h.Runtime().CountRuns(t.Context())
			if err != nil || len(counts.Counts) != min(1, len(want)) || pausedGauge(t, h) != want {
				t.Errorf("%s: %v, %v, gauge %q", namespace, counts, err, pausedGauge(t, h))
			}
		}
	}, deskDefinition())
}
