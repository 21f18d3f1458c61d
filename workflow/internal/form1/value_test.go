package form1

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// loc makes a location of names (int) and of name and iteration pairs.
func loc(elements ...any) (l journal.Location) {
	for _, e := range elements {
		switch e := e.(type) {
		case int:
			l = journal.ChildName(nil, l, uint32(e))
		case [2]int:
			l = journal.ChildIteration(nil, l, uint32(e[0]), uint32(e[1]))
		}
	}
	return l
}

// The id of all entries of these vectors, and the prefix of an entry: the form and that id.
const entryID = "67b46c5f-821a-42fa-bd33-9b9968bdb450"

var head = "01 00 24" + hex.EncodeToString([]byte(entryID))

// completed is metadata of a completed step: one attempt, begun at 1, ended at 2.
const completed = "01 00 | 02 | 00 | 01 00 00 00 | 01 00 00 00 00 00 00 00 | 01 00 00 00 00 00 00 00 | 01 02 00 00 00 00 00 00 00 | 00 | 00"

// entries are entries without their head.
var entries = []struct {
	what  string
	hex   string
	loc   journal.Location
	entry journal.Entry
}{
	{"step charge", "01 00 00000000 | 00 | 01 02 18 2a | 00", loc(0),
		journal.Entry{Kind: journal.KindStep, Status: journal.Completed, Output: []byte{0x18, 0x2a}}},
	{"step that failed", "01 00 00000000 | 00 | 00 | 01 02 6e 6f", loc(0),
		journal.Entry{Kind: journal.KindStep, Status: journal.Pending, Failure: &journal.Failure{Message: "no"}}},
	{"sleep, completed", "01 00 01000000 | 02 | e803000000000000 | 01", loc(1),
		journal.Entry{Kind: journal.KindSleep, Status: journal.Completed, Deadline: time.UnixMilli(1000).UTC()}},
	{"loop, over", "01 00 00000000 | 01 | 06 b9 00 01 61 6e 01 | 01000000 | 01 05 64 64 6f 6e 65", loc(0),
		journal.Entry{Kind: journal.KindLoop, Status: journal.Completed, State: []byte{0xb9, 0, 1, 0x61, 0x6e, 1},
			Iteration: 1, Output: []byte("\x64done")}},
	{"step in a loop", "03 00 00000000 01 00000000 00000000 00 01000000 | 00 | 01 01 00 | 00", loc(0, [2]int{0, 0}, 1),
		journal.Entry{Kind: journal.KindStep, Status: journal.Completed, Output: []byte{0}}},
	{"join with a failure", "01 00 00000000 | 05 | 02 | 01 78 02 01 01 01 00 | 01 79 03 00 01 02 6e 6f", loc(0),
		journal.Entry{Kind: journal.KindJoin, Status: journal.Failed, Count: 2, Failure: &journal.Failure{Message: `branch "y": no`}}},
	{"join that goes on", "01 00 00000000 | 05 | 02 | 01 78 03 00 01 02 6e 6f | 01 79 01 00 00", loc(0),
		journal.Entry{Kind: journal.KindJoin, Count: 2}},
	{"race", "01 00 00000000 | 06 | 01 04 66 61 73 74 | 02 | 04 66 61 73 74 02 01 01 01 00 | 04 73 6c 6f 77 04 00 00", loc(0),
		journal.Entry{Kind: journal.KindRace, Status: journal.Completed, Winner: "fast", Count: 2, Output: []byte{1}}},
	{"race that goes on", "01 00 00000000 | 06 | 00 | 01 | 04 66 61 73 74 00 00 00", loc(0), journal.Entry{Kind: journal.KindRace}},
	{"removed", "01 00 00000000 | 07 | 04 73 74 65 70 | 01 03 6f 6c 64", loc(0),
		journal.Entry{Kind: journal.KindRemoved, Status: journal.Completed, Resolved: uint32(journal.KindStep), Program: "old"}},
	{"checkpoint", "01 00 00000000 | 04 | 02 63 70", loc(0),
		journal.Entry{Kind: journal.KindCheckpoint, Status: journal.Completed, Program: "cp"}},
	{"version", "01 00 00000000 | 08 | 01000000 | 03000000", loc(0),
		journal.Entry{Kind: journal.KindVersion, Status: journal.Completed, Resolved: 1, Latest: 3}},
	{"count of messages", "01 00 0c000000 | 03 | 07 77 3a 63 6f 75 6e 74 | 01 01", loc(12),
		journal.Entry{Kind: journal.KindMessage, Status: journal.Completed, Queues: []string{"w:count"}, Output: []byte{1}}},
	{"message", "01 00 0e000000 | 03 | 01 71 | 2d" + message, loc(14),
		journal.Entry{Kind: journal.KindMessage, Status: journal.Completed, Queues: []string{"q"}, Output: nil,
			Messages: []journal.Delivery{{Queue: "q", ID: 7, Body: []byte{0xb9, 0, 1, 0x61, 0x6e, 1},
				Sent: time.UnixMilli(1771891200000).UTC()}}}},
}

// message is the data of a message as cbor-x writes it: maps with lengths of 16 bits, large numbers
// as doubles.
const message = "b9 00 04 | 62 69 64 61 37 | 64 6e 61 6d 65 61 71 | 64 62 6f 64 79 b9 00 01 61 6e 01 | 69 63 72 65 61 74 65 64 41 74 fb 42 79 c8 cf 21 00 00 00"

func TestEntries(t *testing.T) {
	for _, v := range entries {
		value := unhex(t, head+v.hex)
		e, err := parse(value)
		if v.what == "message" {
			v.entry.Output = unhex(t, message)
		}
		if err != nil || e.id != entryID || !bytes.Equal(e.loc, v.loc) || !reflect.DeepEqual(e.Entry, v.entry) {
			t.Errorf("%s: %v, id %q, location %x, %+v, want %+v", v.what, err, e.id, e.loc, e.Entry, v.entry)
		}
		for n := 2; n < len(value); n++ {
			if _, err := parse(value[:n]); err == nil {
				t.Errorf("%s: %d bytes of %d are accepted", v.what, n, len(value))
			}
		}
		if _, err := parse(append(bytes.Clone(value), 0)); err == nil {
			t.Errorf("%s: a byte after the end is accepted", v.what)
		}
	}
}

func TestBytesThatAreNoEntry(t *testing.T) {
	for what, bytes := range map[string]string{
		"segment 2":       "01 02 00000000 | 04 | 02 63 70",
		"kind 9":          "01 00 00000000 | 09",
		"sleep state 3":   "01 00 00000000 | 02 | e803000000000000 | 03",
		"branch status 5": "01 00 00000000 | 05 | 01 | 01 78 05 00 00",
		"presence 2":      "01 00 00000000 | 00 | 02 00 | 00",
		"time of 64 bits": "01 00 00000000 | 02 | ffffffffffffffff | 00",
	} {
		_, err := DecodeEntry(unhex(t, head+bytes))
		var bad *journal.SyntaxError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestMetadata(t *testing.T) {
	m, err := DecodeMetadata(unhex(t, completed))
	if err != nil || m.status != metaCompleted || m.Attempts != 1 || m.LastAttempt.UnixMilli() != 1 ||
		m.created.UnixMilli() != 1 || m.completed.UnixMilli() != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = DecodeMetadata(unhex(t,
		"01 00 04 | 01 02 6e6f | 03000000 | 0100000000000000 | 0200000000000000 | 00 | 01 0700000000000000 | 01 01 78"))
	if err != nil || m.status != metaExhausted || m.Failure.Message != "no" || m.Undone.UnixMilli() != 7 || m.UndoFailure.Message != "x" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bytes := range []string{"02 00 00", "01 00 05"} { // of form 2, and an invalid status
		if _, err := DecodeMetadata(unhex(t, bytes)); err == nil {
			t.Errorf("%s is accepted", bytes)
		}
	}
}

// At a place with a stored record none is derived, regardless of the number of records, and numbers
// have no gaps.
func TestStoredRecordsGoBeforeDerivedOnes(t *testing.T) {
	names := []string{"both", "x", "w", "w:count", "w:0"}
	for n := range 40 {
		names = append(names, fmt.Sprint("step-", n))
	}
	const step, join = "00 | 01 02 18 2a | 00", "05 | 02 | 01 78 02 01 01 01 00 | 01 78 02 01 01 01 00"
	for n := range 40 {
		var rows []Record
		row := func(l journal.Location, at, entry string) {
			rows = append(rows, Record{Loc: l, Value: unhex(t, head+at+" | "+entry)})
		}
		row(loc(0), "01 00 00000000", join)
		row(loc(0, 1), "02 00 00000000 00 01000000", step)
		row(loc(2), "01 00 02000000", step)
		row(loc(3), "01 00 03000000", "03 | 07 77 3a 63 6f 75 6e 74 | 01 01")
		row(loc(4), "01 00 04000000", "03 | 01 71 | 2d"+message)
		for i := range n {
			row(loc(5+i), fmt.Sprintf("01 00 %02x000000", 5+i), step)
		}
		records, err := Adopt(rows, nil, journal.NewNames(names))
		if err != nil || len(records) != 3+n {
			t.Fatalf("%d records, %v", len(records), err)
		}
		got := ""
		for _, r := range records[:3] {
			got += fmt.Sprintf("%s %d, ", r.Entry.Kind, r.Entry.Seq)
		}
		if got != "join 2, step 1, step 3, " {
			t.Errorf("with %d steps: %s", n, got)
		}
	}
}

// Decoding never panics, and decoded records are adopted or refused.
func FuzzAdopt(f *testing.F) {
	for _, v := range entries {
		f.Add(unhex(f, head+v.hex), unhex(f, completed))
	}
	f.Fuzz(func(t *testing.T, value, metadata []byte) {
		about := make(map[string]*Metadata)
		if m, err := DecodeMetadata(metadata); err == nil {
			about[entryID] = &m
		}
		e, err := parse(value)
		records, bad := Adopt([]Record{{Loc: e.loc, Value: value}}, about, journal.NewNames([]string{"a", "w:count", "w:0"}))
		if err != nil && bad == nil {
			t.Errorf("%v, but adopted as %+v", err, records)
		}
		for i, rec := range records {
			if i > 0 && bytes.Compare(records[i-1].Loc, rec.Loc) >= 0 {
				t.Errorf("record %d is out of order", i)
			}
			if rec.Entry.Status.Over() != (rec.Entry.Seq > 0) {
				t.Errorf("%v has number %d", rec.Entry.Status, rec.Entry.Seq)
			}
		}
	})
}
