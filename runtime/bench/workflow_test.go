package main

import (
	"testing"
	"time"
)

// TestTwinsOfWorkflowsHaveTheCommitsOfARun holds the twins to what a run writes: the rows of each
// of its steps, which come from the log of a node beside commits of the store's own.
func TestTwinsOfWorkflowsHaveTheCommitsOfARun(t *testing.T) {
	b := &bench{dir: t.TempDir(), time: 10 * time.Millisecond}
	for what, least := range map[string]int{"step": perIteration, "five": 5} {
		commits := b.millCommits(what)
		if len(commits) < least {
			t.Fatalf("%s: %d commits, want %d at least", what, len(commits), least)
		}
		for i, c := range commits {
			if id := c.actor(); id.IsZero() || id != commits[0].actor() {
				t.Errorf("%s: commit %d is of the actor %s", what, i, id)
			}
		}
	}
}

// TestWorkflowTwins runs the twins of the measurements for a moment.
func TestWorkflowTwins(t *testing.T) {
	b := &bench{dir: t.TempDir(), time: 5 * time.Millisecond}
	for name, v := range map[string]float64{"step": b.rawStep(), "steps": b.rawSteps(2), "updates": b.rawUpdates(4),
		"fives": b.rawFives(2)} {
		if v <= 0 {
			t.Errorf("%s: %v", name, v)
		}
	}
}
