package replay

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// The id of all entries of these vectors, and what an entry begins with: the form and that id.
const form1ID = "67b46c5f-821a-42fa-bd33-9b9968bdb450"

var form1Head = "01 00 24" + hex.EncodeToString([]byte(form1ID))

// form1Metadata is metadata of a step that is completed: one attempt, begun at 1, ended at 2.
const form1Metadata = "01 00 | 02 | 00 | 01 00 00 00 | 01 00 00 00 00 00 00 00 | 01 00 00 00 00 00 00 00 | 01 02 00 00 00 00 00 00 00 | 00 | 00"

// form1Entries are entries after their head.
var form1Entries = []struct {
	what  string
	hex   string
	loc   journal.Location
	entry Entry
}{
	{"step charge", "01 00 00000000 | 00 | 01 02 18 2a | 00", loc(0), Entry{Kind: KindStep, Status: Completed, Output: []byte{0x18, 0x2a}}},
	{"step that failed", "01 00 00000000 | 00 | 00 | 01 02 6e 6f", loc(0), Entry{Kind: KindStep, Status: Pending, Failure: &Failure{Message: "no"}}},
	{"step that returned nothing", "01 00 00000000 | 00 | 00 | 00", loc(0), Entry{Kind: KindStep}},
	{"sleep, pending", "01 00 01000000 | 02 | e803000000000000 | 00", loc(1), Entry{Kind: KindSleep, Deadline: time.UnixMilli(1000).UTC()}},
	{"sleep, completed", "01 00 01000000 | 02 | e803000000000000 | 01", loc(1), Entry{Kind: KindSleep, Status: Completed, Deadline: time.UnixMilli(1000).UTC()}},
	{"sleep, interrupted", "01 00 01000000 | 02 | e803000000000000 | 02", loc(1), Entry{Kind: KindSleep, Status: Canceled, Deadline: time.UnixMilli(1000).UTC()}},
	{"loop, over", "01 00 00000000 | 01 | 06 b9 00 01 61 6e 01 | 01000000 | 01 05 64 64 6f 6e 65", loc(0),
		Entry{Kind: KindLoop, Status: Completed, State: []byte{0xb9, 0, 1, 0x61, 0x6e, 1}, Iteration: 1, Output: []byte("\x64done")}},
	{"loop that goes on", "01 00 00000000 | 01 | 00 | 14000000 | 00", loc(0), Entry{Kind: KindLoop, State: []byte{}, Iteration: 20}},
	{"step in a loop", "03 00 00000000 01 00000000 00000000 00 01000000 | 00 | 01 01 00 | 00", loc(0, [2]int{0, 0}, 1), Entry{Kind: KindStep, Status: Completed, Output: []byte{0}}},
	{"join", "01 00 00000000 | 05 | 02 | 01 78 02 01 01 01 00 | 01 79 02 01 01 02 00", loc(0), Entry{Kind: KindJoin, Status: Completed, Output: cborNull, Count: 2}},
	{"join with a failure", "01 00 00000000 | 05 | 02 | 01 78 02 01 01 01 00 | 01 79 03 00 01 02 6e 6f", loc(0),
		Entry{Kind: KindJoin, Status: Failed, Count: 2, Failure: &Failure{Message: `branch "y": no`}}},
	{"join that goes on", "01 00 00000000 | 05 | 02 | 01 78 03 00 01 02 6e 6f | 01 79 01 00 00", loc(0), Entry{Kind: KindJoin, Count: 2}},
	{"race", "01 00 00000000 | 06 | 01 04 66 61 73 74 | 02 | 04 66 61 73 74 02 01 01 01 00 | 04 73 6c 6f 77 04 00 00", loc(0),
		Entry{Kind: KindRace, Status: Completed, Winner: "fast", Count: 2, Output: []byte{1}}},
	{"race that goes on", "01 00 00000000 | 06 | 00 | 01 | 04 66 61 73 74 00 00 00", loc(0), Entry{Kind: KindRace}},
	{"removed", "01 00 00000000 | 07 | 04 73 74 65 70 | 01 03 6f 6c 64", loc(0), Entry{Kind: KindRemoved, Status: Completed, Resolved: uint32(KindStep), Program: "old"}},
	{"removed join without a name", "01 00 00000000 | 07 | 04 6a 6f 69 6e | 00", loc(0), Entry{Kind: KindRemoved, Status: Completed, Resolved: uint32(KindJoin)}},
	{"checkpoint", "01 00 00000000 | 04 | 02 63 70", loc(0), Entry{Kind: KindCheckpoint, Status: Completed, Program: "cp"}},
	{"version", "01 00 00000000 | 08 | 01000000 | 03000000", loc(0), Entry{Kind: KindVersion, Status: Completed, Resolved: 1, Latest: 3}},
	{"count of messages", "01 00 0c000000 | 03 | 07 77 3a 63 6f 75 6e 74 | 01 01", loc(12), Entry{Kind: KindMessage, Status: Completed, Queues: []string{"w:count"}, Output: []byte{1}}},
	{"message", "01 00 0e000000 | 03 | 01 71 | 2d" + form1Message, loc(14), Entry{Kind: KindMessage, Status: Completed, Queues: []string{"q"}, Output: nil,
		Messages: []Delivery{{Queue: "q", ID: 7, Body: []byte{0xb9, 0, 1, 0x61, 0x6e, 1}, Sent: time.UnixMilli(1771891200000).UTC()}}}},
}

// form1Message is the data of a message as cbor-x writes it: maps with lengths of 16 bits, large numbers as doubles.
const form1Message = "b9 00 04 | 62 69 64 61 37 | 64 6e 61 6d 65 61 71 | 64 62 6f 64 79 b9 00 01 61 6e 01 | 69 63 72 65 61 74 65 64 41 74 fb 42 79 c8 cf 21 00 00 00"

func TestEntriesOfForm1(t *testing.T) {
	for _, v := range form1Entries {
		value := unhex(t, form1Head+v.hex)
		e, err := parseEntry1(value)
		if err != nil || e.id != form1ID || !bytes.Equal(e.loc, v.loc) {
			t.Errorf("%s: %v, id %q, location %x", v.what, err, e.id, e.loc)
			continue
		}
		if v.what == "message" {
			v.entry.Output = unhex(t, form1Message)
		}
		if v.what == "race that goes on" {
			v.entry.Count = e.Count
		}
		if !reflect.DeepEqual(e.Entry, v.entry) {
			t.Errorf("%s: %+v, want %+v", v.what, e.Entry, v.entry)
		}
		for n := 2; n < len(value); n++ {
			if _, err := parseEntry1(value[:n]); err == nil {
				t.Errorf("%s: %d bytes of %d are accepted", v.what, n, len(value))
			}
		}
		if _, err := parseEntry1(append(bytes.Clone(value), 0)); err == nil {
			t.Errorf("%s: a byte after the end is accepted", v.what)
		}
	}
}

func TestEntriesOfForm1ThatAreNone(t *testing.T) {
	for what, bytes := range map[string]string{
		"segment 2":       "01 02 00000000 | 04 | 02 63 70",
		"kind 9":          "01 00 00000000 | 09",
		"sleep state 3":   "01 00 00000000 | 02 | e803000000000000 | 03",
		"branch status 5": "01 00 00000000 | 05 | 01 | 01 78 05 00 00",
		"presence 2":      "01 00 00000000 | 00 | 02 00 | 00",
		"time of 64 bits": "01 00 00000000 | 02 | ffffffffffffffff | 00",
	} {
		_, err := decodeEntry([]byte("\x07\x15\x02\x14"), unhex(t, form1Head+bytes))
		var bad *SyntaxError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestMetadataOfForm1(t *testing.T) {
	m, err := decodeMetadata1(unhex(t, form1Metadata))
	if err != nil || m.status != meta1Completed || m.Attempts != 1 || m.LastAttempt.UnixMilli() != 1 || m.created.UnixMilli() != 1 || m.completed.UnixMilli() != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = decodeMetadata1(unhex(t, "01 00 04 | 01 02 6e6f | 03000000 | 0100000000000000 | 0200000000000000 | 00 | 01 0700000000000000 | 01 01 78"))
	if err != nil || m.status != meta1Exhausted || m.Failure.Message != "no" || m.Undone.UnixMilli() != 7 || m.UndoFailure.Message != "x" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := decodeMetadata1(unhex(t, "02 00 00")); err == nil {
		t.Error("metadata of form 2 under an id of form 1 is accepted")
	}
	if _, err := decodeMetadata1(unhex(t, "01 00 05")); err == nil {
		t.Error("status 5 is accepted")
	}
}

func TestRunErrorOfForm1(t *testing.T) {
	value, err := cbor.Marshal(map[string]any{"name": "StepExhaustedError", "message": "no", "stack": "at x", "metadata": map[string]any{"step": "charge"}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := decodeRunFailure(value)
	if err != nil || f.Type != "StepExhaustedError" || f.Message != "no" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := decodeRunFailure([]byte{0xff}); err == nil {
		t.Error("garbage is accepted")
	}
}

// form1Run returns the rows of a run that another engine wrote.
type form1Run struct {
	*rows
	t     *testing.T
	names []string
	n     int
}

func (r *form1Run) name(s string) {
	r.Put(journal.NameKey(nil, uint32(len(r.names))), []byte(s))
	r.names = append(r.names, s)
}

// entry writes an entry with an id of its own, whose bytes after the location are given, and metadata if there is some.
func (r *form1Run) entry(l journal.Location, kind, metadata string) {
	r.t.Helper()
	id := string(rune('a'+r.n)) + form1ID[1:]
	r.n++
	value := append([]byte{1, 0, 0x24}, id...)
	segments, err := l.Segments()
	if err != nil {
		r.t.Fatal(err)
	}
	value = append(value, byte(len(segments)))
	for _, s := range segments {
		if s.Loop {
			value = append(value, 1, byte(s.Name), 0, 0, 0, byte(s.Iteration), 0, 0, 0)
		} else {
			value = append(value, 0, byte(s.Name), 0, 0, 0)
		}
	}
	r.Put(journal.HistoryKey(nil, l), append(value, unhex(r.t, kind)...))
	if metadata != "" {
		r.Put(keyspace.WorkflowEntry.Append(nil, id), unhex(r.t, metadata))
	}
}

func newForm1Run(t *testing.T) *form1Run {
	r := &form1Run{rows: newRows(), t: t}
	for _, s := range []string{"charge", "void", "w:count", "w:deadline", "w:0", "both", "x", "y", "job", "serve", "tick", "t:deadline", "e:count", "e:deadline", "flaky", "gone"} {
		r.name(s)
	}
	r.Put(journal.FieldKey(nil, keyspace.FieldState), []byte("sleeping"))
	r.Put(journal.FieldKey(nil, keyspace.FieldInput), []byte{0xf7})
	r.entry(loc(0), "00 | 01 02 18 2a | 00", form1Metadata)
	r.entry(loc(1), "00 | 00 | 00", form1Metadata) // D1: returned nothing
	r.entry(loc(2), "03 | 07 77 3a 63 6f 75 6e 74 | 01 01", "")
	r.entry(loc(3), "02 | e803000000000000 | 02", "")
	r.entry(loc(4), "03 | 01 71 | 2d"+form1Message, "")
	r.entry(loc(5), "05 | 02 | 01 78 02 01 01 01 00 | 01 79 03 00 01 02 6e 6f", "")
	r.entry(loc(5, 6, 8), "00 | 01 01 01 | 00", form1Metadata)
	r.entry(loc(9), "01 | 01 01 | 02000000 | 00", "")
	r.entry(loc(9, [2]int{9, 2}, 10), "00 | 01 01 03 | 00", form1Metadata)
	r.entry(loc(11), "02 | e803000000000000 | 00", "")
	r.entry(loc(12), "03 | 07 65 3a 63 6f 75 6e 74 | 01 00", "")
	r.entry(loc(13), "02 | e803000000000000 | 01", "")
	r.entry(loc(14), "00 | 00 | 01 02 6e 6f", "01 00 | 03 | 01 02 6e6f | 02000000 | 0900000000000000 | 0100000000000000 | 00 | 00 | 00")
	r.entry(loc(15), "00 | 00 | 01 02 6e 6f", "01 00 | 04 | 01 02 6e6f | 03000000 | 0900000000000000 | 0100000000000000 | 00 | 00 | 00")
	return r
}

func TestARunOfForm1Loads(t *testing.T) {
	r := newForm1Run(t)
	im, err := loadImage(r)
	if err != nil {
		t.Fatal(err)
	}
	if im.state != StateRunning || im.form != journal.Form1 {
		t.Errorf("state %q, form %d", im.state, im.form)
	}
	type got struct {
		kind   Kind
		status EntryStatus
	}
	want := map[string]got{
		"charge": {KindStep, Completed}, "void": {KindStep, Completed}, "w": {KindReceive, Completed}, "both": {KindJoin, Failed}, "both/x": {KindScope, Completed},
		"both/y": {KindScope, Failed}, "both/x/job": {KindStep, Completed}, "serve": {KindLoop, Pending}, "serve~2/tick": {KindStep, Completed},
		"t": {KindReceive, Pending}, "e": {KindReceive, TimedOut}, "flaky": {KindStep, Pending}, "gone": {KindStep, Exhausted},
	}
	seqs := map[string]uint64{}
	for i := range im.records {
		rec := &im.records[i]
		if i > 0 && bytes.Compare(im.records[i-1].loc, rec.loc) >= 0 {
			t.Errorf("record %d is out of order", i)
		}
		path := im.names.Path(rec.loc)
		e, err := rec.decode()
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := want[path]; !ok || w != (got{e.Kind, e.Status}) {
			t.Errorf("%s is %v %v", path, e.Kind, e.Status)
		}
		if e.Status.Over() != (e.Seq > 0) {
			t.Errorf("%s, %v, has seq %d", path, e.Status, e.Seq)
		}
		if e.Status == Completed && e.Kind == KindStep && e.Output == nil {
			t.Errorf("%s has no output", path)
		}
		seqs[path] = e.Seq
		delete(want, path)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if seqs["charge"] >= seqs["void"] || seqs["both/x/job"] >= seqs["both/x"] || seqs["both/x"] >= seqs["both"] {
		t.Errorf("resolutions in the order %v", seqs)
	}
	find := func(path string) *record {
		for i := range im.records {
			if im.names.Path(im.records[i].loc) == path {
				return &im.records[i]
			}
		}
		t.Fatalf("no %s", path)
		return nil
	}
	if e := find("both").decoded; !slices.Equal(e.Branches, []uint32{6, 7}) {
		t.Errorf("branches %v", e.Branches)
	}
	if e := find("w").decoded; len(e.Messages) != 1 || e.Messages[0].Queue != "q" || e.Messages[0].ID != 7 {
		t.Errorf("received %+v", e.Messages)
	}
	if e := find("t").decoded; e.Deadline.UnixMilli() != 1000 {
		t.Errorf("waits until %v", e.Deadline)
	}
	if rec := find("flaky"); im.metadata(rec.decoded.ID).Attempts != 2 || im.metadata(rec.decoded.ID).Failure.Message != "no" || im.metadata(rec.decoded.ID).Due.UnixMilli() != 409 || rec.decoded.Failure != nil {
		t.Errorf("flaky: %+v", im.metadata(rec.decoded.ID))
	}
	if e := find("gone").decoded; e.Failure.Message != "no" || e.Created.UnixMilli() != 1 || e.Ended.UnixMilli() != 9 {
		t.Errorf("gone: %+v", e)
	}
	// The names of derived entries follow the recorded names.
	if i, ok := im.names.Lookup("w"); !ok || i != 16 || im.names.Written != 16 {
		t.Errorf("w has index %d, %d are written", i, im.names.Written)
	}
	if children := im.children(nil); len(children) != 9 {
		t.Errorf("the root has %d children", len(children))
	}
}

// If a place has rows of form 1 and of form 2, form 2 counts. New entries get later numbers.
func TestARunOfForm1GoesOnInForm2(t *testing.T) {
	r := newForm1Run(t)
	im, err := loadImage(r)
	if err != nil {
		t.Fatal(err)
	}
	st, err := newStore(im, 0)
	if err != nil {
		t.Fatal(err)
	}
	wait, _, _ := im.names.Index("t")
	receive := Entry{Kind: KindReceive, Status: TimedOut, Seq: 11}
	if _, err := st.put(r, journal.ChildName(nil, nil, wait), &receive); err != nil {
		t.Fatal(err)
	}
	again, err := loadImage(r)
	if err != nil {
		t.Fatal(err)
	}
	rec := again.find(journal.ChildName(nil, nil, wait))
	if rec == nil || rec.form != journal.Form2 {
		t.Errorf("%+v", rec)
	}
	if children := again.children(nil); children[len(children)-1] != rec {
		t.Error("what was added does not come last")
	}
	// Its metadata goes with an entry.
	before := r.count(4)
	flaky, _, _ := im.names.Index("flaky")
	if err := st.drop(r, journal.ChildName(nil, nil, flaky), true); err != nil {
		t.Fatal(err)
	}
	if r.count(4) != before-1 {
		t.Errorf("%d rows of metadata, want %d", r.count(4), before-1)
	}
}

func TestARunOfForm1ThatIsDamaged(t *testing.T) {
	for what, damage := range map[string]func(r *form1Run){
		"another location": func(r *form1Run) {
			v := r.m[string(journal.HistoryKey(nil, loc(0)))]
			r.Put(journal.HistoryKey(nil, loc(15, 1)), v)
		},
		"metadata": func(r *form1Run) { r.Put(keyspace.WorkflowEntry.Append(nil, "x"), []byte{1, 0, 9}) },
		"entry":    func(r *form1Run) { r.Put(journal.HistoryKey(nil, loc(0)), []byte{1, 0, 9}) },
		"state":    func(r *form1Run) { r.Put(journal.FieldKey(nil, keyspace.FieldState), []byte("dancing")) },
		"error":    func(r *form1Run) { r.Put(journal.FieldKey(nil, keyspace.FieldError), []byte("?")) },
		"branch name": func(r *form1Run) {
			name := strings.Repeat("61", 300)
			r.entry(loc(14, 5), "05 | 01 | ac02 "+name+" 02 01 01 01 00", "")
		},
	} {
		r := newForm1Run(t)
		damage(r)
		var bad *CorruptError
		if _, err := loadImage(r); !errors.As(err, &bad) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
