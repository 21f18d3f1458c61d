package replay

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// refused checks that an error is a *ControlError that says something.
func refused(t *testing.T, what string, err error, says string) {
	t.Helper()
	var c *ControlError
	errorIf(t, !errors.As(err, &c) || !strings.Contains(err.Error(), says), "%s: %v, want an error that says %q", what, err, says)
}

func TestStart(t *testing.T) {
	turn := &testTurn{rows: newRows(), now: at(0)}
	input := []byte{1, 2}
	first, err := start(turn, "order", "v1", CodecCBOR, input, StartOptions{})
	fatalIf(t, err != nil || !first.Started || len(first.ID) != 32 || first.ID == strings.Repeat("0", 32), "%+v, %v", first, err)
	before := turn.All()
	again, err := start(turn, "order", "v2", CodecCBOR, input, StartOptions{})
	errorIf(t, err != nil || again.Started || again.ID != first.ID || !maps.Equal(turn.All(), before), "the same again: %+v, %v", again, err)
	if _, err := start(turn, "order", "v1", CodecCBOR, input, StartOptions{ID: [16]byte{3}}); !errors.Is(err, ErrExists) {
		t.Errorf("another id: %v", err)
	}
	for what, o := range map[string]StartOptions{"other input": {}, "replace a run that lives": {Replace: true}} {
		if _, err := start(turn, "order", "v1", CodecCBOR, []byte{9}, o); !errors.Is(err, ErrExists) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := start(turn, "other", "v1", CodecCBOR, input, StartOptions{}); !errors.Is(err, ErrExists) {
		t.Errorf("other workflow: %v", err)
	}
	must(t, putState(turn, StateCompleted))
	if again, err = start(turn, "order", "v1", CodecCBOR, input, StartOptions{}); err != nil || again.Started || again.ID != first.ID {
		t.Errorf("the same after it has ended: %+v, %v", again, err)
	}
	st := openStore(t, turn.rows)
	putEntry(t, st, turn, loc(0), step(make([]byte, journal.InlineLimit+1)))
	parent := &parentRef{To: Destination{Type: "p"}, Run: [16]byte{9}, Location: loc(1)}
	next, err := start(turn, "order", "v1", CodecCBOR, input, StartOptions{ID: [16]byte{7}, Replace: true, parent: parent})
	fatalIf(t, err != nil || !next.Started || next.ID != "07"+strings.Repeat("00", 15), "%+v, %v", next, err)
	errorIf(t, count(turn.rows, 2)+count(turn.rows, 8)+count(turn.rows, 1) != 0, "rows of the run before are left")
	f, err := loadFields(turn)
	if err != nil || f.state != StatePending || f.run.Parent.To.Type != "p" || !f.run.Started.Equal(at(0)) {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := start(turn, "order", "v1", CodecCBOR, make([]byte, DefaultMaxPayload+1), StartOptions{}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestCancelHoldResume(t *testing.T) {
	for _, do := range []func(Turn) error{
		func(t Turn) error { return Cancel(t, "") }, func(t Turn) error { return Hold(t, "") }, Resume, func(t Turn) error { return Terminate(t, "") },
		func(t Turn) error { return Rewind(t, "14") }, func(t Turn) error { return RetryEntry(t, "14") },
	} {
		if err := do(&testTurn{rows: newRows()}); err != ErrNoRun {
			t.Errorf("no run: %v", err)
		}
	}
	r := newTestRun(t)
	must(t, Cancel(r.testTurn, "first"))
	must(t, Cancel(r.testTurn, "second"))
	if st, _ := ReadStatus(r); st.Cancel.Reason != "first" || !st.Cancel.Time.Equal(at(1000)) {
		t.Errorf("%+v", st.Cancel)
	}
	refused(t, "resume what runs", Resume(r.testTurn), "not paused")
	putPause(r, &Pause{Reason: PausedDiverged, Text: "report"})
	must(t, Hold(r.testTurn, "look at it"))
	must(t, Hold(r.testTurn, "again"))
	f, _ := loadFields(r)
	errorIf(t, f.pause.Reason != PausedOperator || f.pause.Text != "look at it" || !f.pause.Since.Equal(at(1000)), "%+v", f.pause)
	f.run.Boots, f.run.SeqAtBoot = 10, 4
	putRecord(r, &f.run)
	must(t, Resume(r.testTurn))
	if f, _ = loadFields(r); f.pause != nil || f.run.Boots != 0 {
		t.Errorf("%+v", f)
	}
	putState(r, StateFailed)
	for _, err := range []error{Cancel(r.testTurn, ""), Hold(r.testTurn, ""), Resume(r.testTurn), Terminate(r.testTurn, "")} {
		refused(t, "what is over", err, "failed")
	}
}

func TestTerminate(t *testing.T) {
	r := sample(t)
	over := Entry{Kind: KindSpawn, Status: Completed, Seq: 8, Ordinal: 9, Child: Destination{Type: "done"}, OnClose: closeTerminates}
	r.put("kid over", over)
	r.put("kid cancelled", Entry{Kind: KindSpawn, Ordinal: 10, Child: Destination{Type: "b"}, OnClose: closeCancels})
	r.put("kid left alone", Entry{Kind: KindSpawn, Ordinal: 11, Child: Destination{Type: "c"}})
	r.Put(obligationKey(nil, 1), []byte("undo"))
	r.Put(inboxKey(nil, 1), []byte("in"))
	f, _ := loadFields(r)
	f.run.Parent = &parentRef{To: Destination{Type: "parent"}}
	putRecord(r, &f.run)
	putPause(r, &Pause{Reason: PausedCrashing})
	must(t, Terminate(r.testTurn, "enough"))
	var told []string
	for _, m := range r.sent {
		told = append(told, m.Verb+" "+m.To.Type)
	}
	slices.Sort(told)
	errorIf(t, !slices.Equal(told, []string{"cancel b", "result parent", "terminate ship"}), "%v", told)
	st, err := ReadStatus(r)
	if err != nil || st.State != StateTerminated || st.Failure.Message != "enough" || !st.Ended.Equal(at(1000)) || st.Undo != 1 || st.Pause != nil || len(st.Waiting) != 0 || !st.Wake.IsZero() {
		t.Errorf("%+v, %v", st, err)
	}
	errorIf(t, count(r.rows, 6) != 0, "the inbox is left")
}

func TestRetryOfAStepThatWaits(t *testing.T) {
	r := sample(t)
	putPause(r, &Pause{Reason: PausedExhausted})
	must(t, RetryEntry(r.testTurn, r.id("flaky")))
	for e, err := range History(r, Filter{Name: "flaky"}) {
		errorIf(t, err != nil || e.Attempts != 0 || !e.Due.Equal(at(1000)) || e.LastFailure == nil, "%+v, %v", e, err)
	}
	if st, _ := ReadStatus(r); st.Pause != nil || st.State != StateWaiting {
		t.Errorf("%+v", st)
	}
	for path, says := range map[string]string{"charge": "has not failed", "nap": "not a step", "nowhere": "no entry"} {
		refused(t, path, RetryEntry(r.testTurn, r.id(path)), says)
	}
	refused(t, "an id that is none", RetryEntry(r.testTurn, "x"), "is none")
}

func TestRetryOfAStepThatFailed(t *testing.T) {
	r := sample(t)
	putState(r, StateFailed)
	putFailure(r, &Failure{Message: "step failed"})
	f, _ := loadFields(r)
	f.run.Ended = at(999)
	putRecord(r, &f.run)
	putObligation(r, &obligation{Number: 1, Entry: r.place("charge")})
	putObligation(r, &obligation{Number: 4, Entry: r.place("ship")})
	must(t, RetryEntry(r.testTurn, r.id("ship")))
	if got := paths(t, History(r, Filter{})); !slices.Equal(got, []string{"charge"}) {
		t.Errorf("%v are left", got)
	}
	st, err := ReadStatus(r)
	if err != nil || st.State != StateRunning || st.Failure != nil || st.Epoch != 1 || !st.Ended.IsZero() || st.Undo != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	errorIf(t, count(r.rows, 4)+count(r.rows, 8) != 0, "rows of what was taken back are left")
	errorIf(t, len(r.sent) != 1 || r.sent[0].Verb != verbTerminateChild, "the child was told %v", r.sent)
}

// tree is a run with branches: a join of x and y in an iteration of a loop that goes on.
func tree(t *testing.T) *testRun {
	r := newTestRun(t)
	r.put("first", done(0, 1))
	r.put("serve", Entry{Kind: KindLoop, Ordinal: 1, Seq: 2, Created: at(15), Ended: at(20), Iteration: 2, State: []byte{2}})
	r.put("serve~1/old", done(0, 2))
	r.put("serve~2/get", Entry{Kind: KindReceive, Status: Completed, Ordinal: 0, Seq: 3, Created: at(25), Ended: at(30), Messages: []Delivery{{Queue: "q", ID: 1}}})
	r.put("serve~2/both", Entry{Kind: KindJoin, Status: Completed, Ordinal: 1, Seq: 8, Created: at(31), Ended: at(80), Output: cborNull, Branches: []uint32{7, 8}})
	r.put("serve~2/both/x", Entry{Kind: KindScope, Status: Completed, Seq: 6, Created: at(31), Ended: at(60), Output: cborNull})
	r.put("serve~2/both/x/a", done(0, 4))
	r.put("serve~2/both/x/b", done(1, 6))
	r.put("serve~2/both/y", Entry{Kind: KindScope, Status: Completed, Ordinal: 1, Seq: 7, Created: at(31), Ended: at(70), Output: cborNull})
	r.put("serve~2/both/y/a", done(0, 5))
	r.put("serve~2/both/y/more", Entry{Kind: KindReceive, Status: Completed, Ordinal: 1, Seq: 7, Created: at(55), Ended: at(70), Messages: []Delivery{{Queue: "q", ID: 2}}})
	r.put("serve~2/last", done(2, 9))
	r.put("serve~2/nap", Entry{Kind: KindSleep, Ordinal: 3, Created: at(95), Deadline: at(5000)})
	return r
}

func TestRewind(t *testing.T) {
	for to, want := range map[string][]string{
		"first":            nil,
		"serve":            {"first"},
		"serve~2/get":      {"first", "serve", "serve~1/old"},
		"serve~2/both":     {"first", "serve", "serve~1/old", "serve~2/get"},
		"serve~2/last":     {"first", "serve", "serve~1/old", "serve~2/get", "serve~2/both", "serve~2/both/x", "serve~2/both/x/a", "serve~2/both/x/b", "serve~2/both/y", "serve~2/both/y/a", "serve~2/both/y/more"},
		"serve~2/nap":      {"first", "serve", "serve~1/old", "serve~2/get", "serve~2/both", "serve~2/both/x", "serve~2/both/x/a", "serve~2/both/x/b", "serve~2/both/y", "serve~2/both/y/a", "serve~2/both/y/more", "serve~2/last"},
		"serve~2/both/x/b": {"first", "serve", "serve~1/old", "serve~2/get", "serve~2/both", "serve~2/both/x", "serve~2/both/x/a", "serve~2/both/y", "serve~2/both/y/a"},
		"serve~2/both/y/a": {"first", "serve", "serve~1/old", "serve~2/get", "serve~2/both", "serve~2/both/x", "serve~2/both/x/a", "serve~2/both/y"},
	} {
		r := tree(t)
		if err := Rewind(r.testTurn, r.id(to)); err != nil {
			t.Errorf("%s: %v", to, err)
			continue
		}
		slices.SortFunc(want, func(a, b string) int { return bytes.Compare(r.place(a), r.place(b)) })
		got := paths(t, History(r, Filter{}))
		errorIf(t, !slices.Equal(got, want), "%s: %v are left, want %v", to, got, want)
		im, err := loadImage(r)
		must(t, err)
		for i := range im.records {
			e, err := im.records[i].decode()
			must(t, err)
			if path := im.names.Path(im.records[i].loc); !e.Status.Over() && (e.Output != nil || e.Seq > 2 || e.Kind != KindLoop && !e.Ended.IsZero()) {
				t.Errorf("%s: %s is %+v", to, path, e)
			}
		}
		switch to {
		case "serve~2/both/x/b":
			errorIf(t, len(r.returned) != 1 || r.returned[0].ID != 2, "%s: returned %v", to, r.returned)
			if e, _ := im.find(r.place("serve~2/both")).decode(); e.Status != Pending || len(e.Branches) != 2 {
				t.Errorf("%s: the join is %+v", to, e)
			}
		case "serve~2/get", "serve":
			if len(r.returned) != 2 || r.returned[0].ID != 1 || r.returned[1].ID != 2 {
				t.Errorf("%s: returned %v", to, r.returned)
			}
		}
	}
}

// endedChild makes a run one of a parent's that has ended.
func endedChild(r *testRun, state State) {
	f, _ := loadFields(r)
	f.run.Parent, f.run.Kept = &parentRef{}, true
	putRecord(r, &f.run)
	putState(r, state)
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
			r.put("serve~1", Entry{Kind: KindScope, Status: Completed, Seq: 1, Iteration: 1, State: []byte{1}, Created: at(16), Ended: at(18)})
		}},
		"what an iteration gave up": {"serve~1/old", "given up", func(r *testRun) {
			r.put("serve~1", Entry{Kind: KindScope, Status: Completed, Seq: 1, Iteration: 1, State: []byte{1}, Created: at(16), Ended: at(20)})
			r.put("serve~1/old", Entry{Kind: KindSleep, Status: Canceled, Created: at(17), Ended: at(20), Deadline: at(99)})
		}},
		"a run that a release before this one completed": {"first", "earlier release", func(r *testRun) { putState(r, StateCompleted) }},
		"a terminated run":       {"first", "an operator gave it up", func(r *testRun) { putState(r, StateTerminated) }},
		"a child that failed":    {"first", "its parent was told", func(r *testRun) { endedChild(r, StateFailed) }},
		"a child that completed": {"first", "its parent was told", func(r *testRun) { endedChild(r, StateCompleted) }},
		"nothing":                {"nowhere", "no entry", nil},
		"what was dropped of a join": {"serve~2/both/x/b", "serve~2/both was dropped when it ended", func(r *testRun) {
			for _, path := range []string{"x", "y"} {
				r.DeleteRange(journal.HistoryKey(nil, r.place("serve~2/both/"+path)), journal.HistoryEnd(nil, r.place("serve~2/both/"+path)))
			}
		}},
		"what was deleted of a loop": {"serve~0/old", "iterations of loop serve that have ended is deleted (see Keep)", nil},
		"past an undo of what stays": {"serve~2/last", "undone", func(r *testRun) { r.meta("first", done(0, 1), Metadata{Undone: at(99)}) }},
		"into a race": {"serve~2/both/x/b", "race", func(r *testRun) {
			r.put("serve~2/both", Entry{Kind: KindRace, Status: Completed, Ordinal: 1, Seq: 8, Created: at(31), Output: cborNull, Winner: "x"})
		}},
		"into a saga": {"serve~2/both/x/b", "saga", func(r *testRun) {
			r.put("serve~2/both", Entry{Kind: KindSaga, Status: Completed, Ordinal: 1, Seq: 8, Created: at(31), Output: cborNull})
		}},
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
	// What was undone within a saga that had ended before does not matter.
	r := tree(t)
	r.put("first", Entry{Kind: KindSaga, Status: Failed, Seq: 1, Failure: &Failure{}})
	r.meta("first/inner", done(0, 1), Metadata{Undone: at(9)})
	if err := Rewind(r.testTurn, r.id("serve~2/last")); err != nil {
		t.Error(err)
	}
	// Nor does what was undone of what goes: it is done again.
	r = tree(t)
	r.meta("serve~2/last", done(2, 9), Metadata{Undone: at(99)})
	r.put("serve~2/nap", Entry{Kind: KindSaga, Status: Failed, Ordinal: 3, Seq: 10, Failure: &Failure{}})
	if err := Rewind(r.testTurn, r.id("serve~2/both")); err != nil {
		t.Error(err)
	}
	form1 := newForm1Run(t)
	refused(t, "form 1", Rewind(&testTurn{rows: form1.rows}, "14"), "form 1")
}

func TestRewindTakesACancelBack(t *testing.T) {
	for _, v := range []struct {
		state State
		seq   uint64
		want  bool
	}{
		{StateRunning, 0, true}, {StateRunning, 4, true}, {StateRunning, 9, false},
		{StateFailed, 0, false}, // it came when the run had ended for other reasons
		{StateCancelled, 4, true},
	} {
		seq, want := v.seq, v.want
		r := tree(t)
		putState(r, v.state)
		putControl(r, &control{Kind: controlCancel, Seq: seq})
		must(t, Rewind(r.testTurn, r.id("serve~2/last")))
		if _, ok, _ := r.Get(journal.FieldKey(nil, keyspace.FieldControl)); ok != want {
			t.Errorf("%s: a cancel that was noticed as %d is there: %v", v.state, seq, ok)
		}
	}
}

func TestErrorsInsideControlComeOut(t *testing.T) {
	for n := range 40 {
		r := sample(t)
		turn := &trippingTurn{r.testTurn, &tripwire{r.rows, n}}
		err := RetryEntry(turn, r.id("ship"))
		if err == nil {
			errorIf(t, n < 5, "only %d writes", n)
			return
		}
		errorIf(t, !errors.Is(err, errTripped), "after %d writes: %v", n, err)
	}
	t.Error("never got through")
}

// trippingTurn is a transaction that fails at its n-th write.
type trippingTurn struct {
	*testTurn
	wire *tripwire
}

func (t *trippingTurn) Put(key, value []byte) error         { return t.wire.Put(key, value) }
func (t *trippingTurn) Delete(key []byte) error             { return t.wire.Delete(key) }
func (t *trippingTurn) DeleteRange(start, end []byte) error { return t.wire.DeleteRange(start, end) }
