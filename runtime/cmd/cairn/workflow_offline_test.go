package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/runtime"
)

func TestRunsOfAStoppedNodeAreSteered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rt, err := runtime.Open(t.Context(), runtime.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler), Actors: scriptActors(1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deliver.Of(errands.Ref(rt, "a")).Start(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) result {
		return runCommand(t, "", nil, append(append([]string{"workflow"}, args...), "--data", dir)...)
	}
	for _, args := range [][]string{{"list"}, {"pause", "errand/a"}, {"terminate", "errand/a"}} {
		if r := run(args...); r.status != 1 || !strings.Contains(r.stderr, "in use by another process") {
			t.Errorf("%v while the node runs: %+v", args, r)
		}
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	same(t, run("list"), 0, "", "no such runs\n")
	same(t, run("pause", "errand/a", "--reason", "too fast"), 0, "errand/a: paused\n", "")
	if r := run("list", "--paused-for", "operator"); r.status != 0 || !strings.Contains(r.stdout, "errand/a") || !strings.Contains(r.stdout, "too fast") {
		t.Errorf("%+v", r)
	}
	same(t, run("list", "--counts"), 0, "TYPE    STATE   REASON    RUNS\nerrand  paused  operator  1\n", "")
	same(t, run("terminate", "errand/a", "--json"), 0, `{"done":"terminated"}`+"\n", "")
	if r := run("terminate", "errand/a"); r.status != 1 || !strings.Contains(r.stderr, "the run is terminated") {
		t.Errorf("%+v", r)
	}
	same(t, run("list", "--counts"), 0, "", "no run is paused or has failed\n")
	if r := run("pause", "--state", "paused"); r.status != 2 || !strings.Contains(r.stderr, "--data needs an actor") {
		t.Errorf("%+v", r)
	}
	if r := run("resume", "errand/a"); r.status != 2 {
		t.Errorf("resume needs the code of the run: %+v", r)
	}
}
