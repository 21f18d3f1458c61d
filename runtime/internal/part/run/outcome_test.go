package run

import (
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

func TestOutcomeInMemoryIsThatOfTheLastRunOnceItIsDurable(t *testing.T) {
	const begin, running, end, rewind, remove = 'b', 'r', 'e', 'w', 'd'
	for _, test := range []struct {
		// turns are what turns of the actor write, in order; durable says how many of them are
		// durable then.
		turns   string
		durable int
		want    string
	}{
		{"b", 0, ""},
		{"b", 1, "running 1"},
		{"br", 1, "running 1"},
		{"br", 2, "running 1"},
		{"bre", 2, ""},            // its end is not durable yet
		{"bre", 3, "completed 1"}, // nothing is read
		{"breb", 3, ""},           // the second run is not durable yet, and the result of the first is gone
		{"breb", 4, "running 2"},
		{"brebre", 6, "completed 2"},
		{"brew", 4, ""}, // it goes on
		{"brewe", 5, "completed 1"},
		{"bred", 3, ""},
		{"bred", 4, ""},
		{"brbre", 5, "completed 2"},
	} {
		var k known
		var after []kernel.Consequence
		id := ""
		var ends []int // of each turn's consequences
		for _, event := range test.turns {
			h := new(kernel.Turn)
			switch event {
			case begin:
				id = map[string]string{"": "1", "1": "2"}[id]
				k.began(h, id, k.wrote(wfhost.StatePending))
			case running, rewind:
				k.wrote(wfhost.StateRunning)
			case end:
				k.completed(h, &wfhost.RunStatus{ID: id, State: wfhost.StateCompleted}, k.wrote(wfhost.StateCompleted))
			case remove:
				k.forget()
			}
			after = append(after, h.After...)
			ends = append(ends, len(after))
		}
		if test.durable > 0 {
			for _, c := range after[:ends[test.durable-1]] {
				c.Durable()
			}
		}
		got := ""
		if k.of != nil {
			got = string(k.of.state) + " " + k.of.run
		}
		if got != test.want {
			t.Errorf("%s, of which %d are durable: %q, want %q", test.turns, test.durable, got, test.want)
		}
	}
}

func TestLargeOutputsAreNotKeptInMemory(t *testing.T) {
	var k known
	h := new(kernel.Turn)
	k.completed(h, &wfhost.RunStatus{ID: "1", State: wfhost.StateCompleted, Output: make([]byte, maxOutcome+1)}, 0)
	for _, c := range h.After {
		c.Durable()
	}
	if k.of != nil {
		t.Error("an output beyond the limit is in memory")
	}
}

func TestTurnThatLostItsActorDoesNotHideLaterWrites(t *testing.T) {
	var k known
	begins := k.wrote(wfhost.StatePending)
	h := new(kernel.Turn) // the actor is taken away, and on the next core the earlier run ends
	k.completed(h, &wfhost.RunStatus{ID: "1", State: wfhost.StateCompleted}, k.wrote(wfhost.StateCompleted))
	for _, c := range h.After {
		c.Durable()
	}
	k.began(new(kernel.Turn), "2", begins) // the lost turn goes on; it never commits
	if k.of == nil || k.of.run != "1" {
		t.Errorf("after the end of the run: %+v", k.of)
	}
	if k.wrote(wfhost.StateRunning); k.of != nil {
		t.Errorf("the run was rewound, and its result is still %+v", k.of)
	}
}

func TestUndoneTurnThatClearedARunLeavesItsFieldsUnknown(t *testing.T) {
	var f fields
	f.begin()
	f.known = true
	f.wrote(keyspace.FieldState, 9, 5) // committed
	start, end := keyspace.KindWorkflow.Range()
	f.cleared(start, end, 6)
	f.begin() // a scan in the same turn finds nothing
	f.known = true
	if f.forget(5); f.known {
		t.Error("the fields are known to be absent; the store has them")
	}
}
