package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func withRuns() *fakeNode {
	n := newFakeNode()
	for i, key := range [][]string{{"acme"}, {"acme", "eu"}, {"zoo"}} {
		n.runs = append(n.runs, host.ListedRun{
			Type: "cell", Key: key, Run: fmt.Sprintf("0%d", i), Workflow: "pay", State: "paused", Reason: "diverged",
			Text: "asks for\nsomething else", Since: epoch, Next: epoch,
		})
	}
	return n
}

func TestRunsThatArePausedAreListed(t *testing.T) {
	n := withRuns()
	url := n.serve(t, "")
	same(t, at(t, url, "workflow", "list", "--type", "cell", "--state", "paused", "--paused-for", "diverged", "--older", "1h", "--limit", "0"), 0,
		"ACTOR         WORKFLOW  STATE   REASON    SINCE                 NEXT                  TEXT\n"+
			"cell/acme     pay       paused  diverged  2026-11-21T12:00:00Z  2026-11-21T12:00:00Z  asks for\\nsomething else\n"+
			"cell/acme/eu  pay       paused  diverged  2026-11-21T12:00:00Z  2026-11-21T12:00:00Z  asks for\\nsomething else\n"+
			"cell/zoo      pay       paused  diverged  2026-11-21T12:00:00Z  2026-11-21T12:00:00Z  asks for\\nsomething else\n", "")
	if q := n.runQueries[0]; q.Type != "cell" || q.State != "paused" || q.Reason != "diverged" || q.Before.IsZero() || len(n.runQueries) != 2 {
		t.Errorf("%+v", n.runQueries)
	}
	same(t, at(t, url, "workflow", "list", "--counts"), 0, "TYPE  STATE   REASON    RUNS\ncell  paused  diverged  3\n", "")
	if r := at(t, url, "workflow", "list", "--limit", "1", "--json"); strings.Count(r.stdout, "\n") != 1 || !strings.Contains(r.stdout, `"run":"00"`) {
		t.Errorf("%+v", r)
	}
}

// Lists name the actors that the node left out, on stderr, in every form.
func TestListsNameTheActorsThatAreLeftOut(t *testing.T) {
	n := withRuns()
	for i := range 12 {
		n.uncertain = append(n.uncertain, host.Address{Type: "cell", Key: []string{fmt.Sprintf("lost %02d", i)}})
	}
	url := n.serve(t, "")
	for _, args := range [][]string{
		{"actors"}, {"actors", "--limit", "2"}, {"actors", "--json"}, {"workflow", "list"}, {"workflow", "list", "--json"},
		{"workflow", "list", "--counts"}, {"pause", "--type", "cell", "--dry-run"}, {"workflow", "resume", "--state", "paused", "--dry-run"},
	} {
		r := at(t, url, args...)
		if r.status != 0 || !strings.Contains(r.stderr, "(restart the node): cell/lost%2000, cell/lost%2001, ") || strings.Count(r.stderr, "and 2 more\n") != 1 {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

func TestVerbsOnManyRunsReportEach(t *testing.T) {
	n := withRuns()
	n.respond(map[string]any{host.WorkflowResume: func(r host.Request) (any, error) {
		if len(r.Key) == 2 {
			return nil, host.Errorf(host.FailedPrecondition, "the run is not paused")
		}
		return nil, nil
	}})
	url := n.serve(t, "")
	if r := at(t, url, "workflow", "resume", "--state", "paused"); r.status != 2 || !strings.Contains(r.stderr, "--yes") {
		t.Errorf("%+v", r)
	}
	if r := at(t, url, "workflow", "resume", "--state", "paused", "--dry-run"); r.status != 0 || !strings.Contains(r.stdout, "cell/zoo") || len(n.asked(host.WorkflowResume)) != 0 {
		t.Errorf("%+v", r)
	}
	r := at(t, url, "workflow", "resume", "--state", "paused", "--yes", "--json")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	slices.Sort(lines)
	if want := []string{
		`{"resumed":false,"type":"cell","key":["acme","eu"],"error":{"code":"failed_precondition","message":"the run is not paused"}}`,
		`{"resumed":true,"type":"cell","key":["acme"]}`, `{"resumed":true,"type":"cell","key":["zoo"]}`,
	}; r.status != 1 || !slices.Equal(lines, want) {
		t.Errorf("%+v", r)
	}
	asked := n.asked(host.WorkflowResume)
	slices.Sort(asked)
	if want := []string{`cell/acme {"run":"00"}`, `cell/acme/eu {"run":"01"}`, `cell/zoo {"run":"02"}`}; !slices.Equal(asked, want) {
		t.Errorf("%q", asked)
	}
	if r := at(t, url, "workflow", "terminate", "--type", "cell", "--limit", "1", "--yes", "--reason", "old"); r.status != 0 || !strings.Contains(r.stdout, "terminated 1 of 1 actor") ||
		!strings.Contains(r.stderr, "there may be more") || len(n.asked(host.WorkflowTerminate)) != 1 {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"cancel"}, {"cancel", "cell/a", "--state", "paused"}, {"pause", "--state", "running"}, {"list", "--paused-for", "divergd"}, {"pause", "--type", "cell", "--limit", "-1", "--yes"}} {
		if r := at(t, url, append([]string{"workflow"}, args...)...); r.status != 2 {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
