package replay

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// refused checks that an error is a *ControlError with a reason.
func refused(t *testing.T, what string, err error, says string) {
	t.Helper()
	var c *ControlError
	errorIf(t, !errors.As(err, &c) || !strings.Contains(err.Error(), says), "%s: %v, want an error that says %q", what, err, says)
}

func TestControlOfNoRun(t *testing.T) {
	for _, do := range []func(Turn) error{
		func(t Turn) error {
			return Cancel(t,
				"")
		}, func(t Turn) error { return Hold(t, "") }, Resume, func(t Turn) error { return Terminate(t, "") },
		func(t Turn) error { return Rewind(t, "14") }, func(t Turn) error { return RetryEntry(t, "14") },
	} {
		err := do(&testTurn{rows: newRows()})
		errorIf(t, err != ErrNoRun, "no run: %v", err)
	}
	r := sample(t)
	refused(t, "no path", RetryEntry(r.testTurn, "x"), "is none")
	refused(t, "nothing", RetryEntry(r.testTurn, r.id("nowhere")), "no entry")
}

// tree is a run with branches: a join of x and y in the current iteration of a loop.
func tree(t *testing.T) *testRun {
	r := newTestRun(t)
	r.put("first", done(0, 1))
	r.put("serve", Entry{Kind: KindLoop, Ordinal: 1, Seq: 2, Created: at(15), Ended: at(20), Iteration: 2, State: []byte{2}})
	r.put("serve~1/old", done(0, 2))
	r.put("serve~2/get",
		Entry{Kind: KindReceive, Status: Completed, Ordinal: 0, Seq: 3, Created: at(25), Ended: at(30),
			Messages: []Delivery{{Queue: "q", ID: 1}}})
	r.put("serve~2/both",
		Entry{Kind: KindJoin, Status: Completed, Ordinal: 1, Seq: 8, Created: at(31), Ended: at(80), Output: cborNull,
			Branches: []uint32{7, 8}})
	r.put("serve~2/both/x", Entry{Kind: KindScope, Status: Completed, Seq: 6, Created: at(31), Ended: at(60), Output: cborNull})
	r.put("serve~2/both/x/a", done(0, 4))
	r.put("serve~2/both/x/b", done(1, 6))
	r.put("serve~2/both/y", Entry{Kind: KindScope, Status: Completed, Ordinal: 1, Seq: 7, Created: at(31), Ended: at(70), Output: cborNull})
	r.put("serve~2/both/y/a", done(0, 5))
	r.put("serve~2/both/y/more",
		Entry{Kind: KindReceive, Status: Completed, Ordinal: 1, Seq: 7, Created: at(55), Ended: at(70),
			Messages: []Delivery{{Queue: "q", ID: 2}}})
	r.put("serve~2/last", done(2, 9))
	r.put("serve~2/nap", Entry{Kind: KindSleep, Ordinal: 3, Created: at(95), Deadline: at(5000)})
	return r
}

func TestRewindsThatAreRefused(t *testing.T) {
	for what, v := range map[string]struct {
		to, says string
		change   func(r *testRun)
	}{
		"an iteration that is past": {"serve~1/old", "moved on", nil},
		"an iteration whose row an earlier version wrote": {"serve~1/old", "moved on", func(r *testRun) {
			r.put("serve~1", Entry{Kind: KindScope, Ordinal: 1, Iteration: 1, State: []byte{1}, Created: at(20)})
		}},
		"an iteration that one without a row follows": {"serve~1/old", "moved on", func(r *testRun) {
			r.put("serve", Entry{Kind: KindLoop, Ordinal: 1, Seq: 2, Created: at(15), Ended: at(20), Iteration: 3, State: []byte{2}})
			r.put("serve~1",
				Entry{Kind: KindScope, Status: Completed, Seq: 1, Iteration: 1, State: []byte{1}, Created: at(16), Ended: at(18)})
		}},
		"what an iteration gave up": {"serve~1/old", "given up", func(r *testRun) {
			r.put("serve~1",
				Entry{Kind: KindScope, Status: Completed, Seq: 1, Iteration: 1, State: []byte{1}, Created: at(16), Ended: at(20)})
			r.put("serve~1/old", Entry{Kind: KindSleep, Status: Canceled, Created: at(17), Ended: at(20), Deadline: at(99)})
		}},
		"a run that a release before this one completed": {"first", "earlier release", func(r *testRun) { putState(r, StateCompleted) }},
		"what was deleted of a loop": {"serve~0/old",
			"iterations of loop serve that have ended is deleted (see Keep)", nil},
		"past another branch's loop": {"serve~2/both/x/a", "moved on", func(r *testRun) {
			r.put("serve~2/both/y/a", Entry{Kind: KindLoop, Seq: 5, Created: at(32), Iteration: 4})
		}},
	} {
		r := tree(t)
		if v.change != nil {
			v.change(r)
		}
		before := r.All()
		refused(t, what, Rewind(r.testTurn, r.id(v.to)), v.says)
		errorIf(t, !maps.Equal(r.All(), before) || len(r.sent)+len(r.returned) > 0, "%s: something was written", what)
	}
	// A removed entry that was undone is no obstacle: its step runs again.
	r := tree(t)
	r.meta("serve~2/last", done(2, 9), Metadata{Undone: at(99)})
	r.put("serve~2/nap", Entry{Kind: KindSaga, Status: Failed, Ordinal: 3, Seq: 10, Failure: &Failure{}})
	must(t, Rewind(r.testTurn, r.id("serve~2/both")))
	// A cancel that came after the run had ended for other reasons is reverted.
	r = tree(t)
	putState(r, StateFailed)
	putControl(r, &control{Kind: controlCancel})
	must(t, Rewind(r.testTurn, r.id("serve~2/last")))
	_, canceled, _ := r.Get(journal.FieldKey(nil, keyspace.FieldControl))
	errorIf(t, canceled, "the cancel is there")
	refused(t, "form 1", Rewind(&testTurn{rows: newForm1Run(t)}, "14"), "form 1")
}
