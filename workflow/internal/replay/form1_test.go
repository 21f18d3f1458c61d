package replay

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
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

// form1Message is the data of a message as cbor-x writes it: maps with lengths of 16 bits, large numbers as doubles.
const form1Message = "b9 00 04 | 62 69 64 61 37 | 64 6e 61 6d 65 61 71 | 64 62 6f 64 79 b9 00 01 61 6e 01 | 69 63 72 65 61 74 65 64 41 74 fb 42 79 c8 cf 21 00 00 00"

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
	must(r.t, err)
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
	failure, err := cbor.Marshal(map[string]any{"name": "StepError", "message": "no", "stack": "at x", "metadata": map[string]any{"step": "x"}})
	must(t, err)
	r.Put(journal.FieldKey(nil, keyspace.FieldError), failure)
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
	must(t, err)
	errorIf(t, im.state != StateRunning || im.form != journal.Form1, "state %q, form %d", im.state, im.form)
	errorIf(t, im.failure.Type != "StepError" || im.failure.Message != "no", "failure %+v", im.failure)
	var b strings.Builder
	for i := range im.records {
		rec := &im.records[i]
		errorIf(t, i > 0 && bytes.Compare(im.records[i-1].loc, rec.loc) >= 0, "record %d is out of order", i)
		e, err := rec.decode()
		must(t, err)
		fmt.Fprintf(&b, "%s: %s %s #%d", im.names.Path(rec.loc), e.Kind, e.Status, e.Seq)
		if e.Output != nil {
			fmt.Fprintf(&b, " -> %x", e.Output)
		}
		if e.Branches != nil {
			fmt.Fprintf(&b, " branches %v", e.Branches)
		}
		for _, m := range e.Messages {
			fmt.Fprintf(&b, " got %s/%d", m.Queue, m.ID)
		}
		for _, at := range []time.Time{e.Created, e.Ended, e.Deadline} {
			fmt.Fprintf(&b, " %d", max(at.UnixMilli(), -1))
		}
		if m := im.metadata(e.ID); m != nil && m.Failure != nil {
			fmt.Fprintf(&b, " after %d attempts, due %d: %s", m.Attempts, m.Due.UnixMilli(), m.Failure.Message)
		}
		if e.Failure != nil {
			b.WriteString(" !" + e.Failure.Message)
		}
		b.WriteByte('\n')
	}
	golden(t, "form1.txt", []byte(b.String()))
	// The names of derived entries follow the recorded names.
	name, ok := im.names.Lookup("w")
	errorIf(t, !ok || name != 16 || im.names.Written() != 16, "w has index %d, %d are written", name, im.names.Written())
	errorIf(t, len(im.children(nil)) != 9, "the root has %d children", len(im.children(nil)))
	st, err := ReadStatus(r)
	if err != nil || st.State != StateWaiting || len(st.Waiting) != 2 || st.Waiting[1].Path != "t" || st.ID != "" {
		t.Errorf("%+v, %v", st, err)
	}
	got := paths(t, History(r, Filter{Statuses: []EntryStatus{Exhausted, TimedOut}}))
	errorIf(t, !slices.Equal(got, []string{"gone", "e"}), "%v", got)
}

// If a place has rows of form 1 and of form 2, form 2 counts. The history is shown whole, each entry once.
func TestARunOfForm1GoesOnInForm2(t *testing.T) {
	r := newForm1Run(t)
	im, err := loadImage(r)
	must(t, err)
	st, err := newStore(im, 0)
	must(t, err)
	wait, _, _ := im.names.Index("t")
	putEntry(t, st, r.rows, loc(int(wait)), Entry{Kind: KindReceive, Status: TimedOut, Seq: 12})
	putEntry(t, st, r.rows, loc(0), done(0, 1))
	putEntry(t, st, r.rows, loc(15, 0), done(0, 11))
	again, err := loadImage(r)
	must(t, err)
	rec := again.find(loc(int(wait)))
	errorIf(t, rec == nil || rec.form != journal.Form2, "%+v", rec)
	children := again.children(nil)
	errorIf(t, children[len(children)-1] != rec, "what was added does not come last")
	want := []string{"charge", "void", "both", "both/x", "both/x/job", "both/y", "serve", "serve~2/tick", "flaky", "gone", "gone/charge", "w", "t", "e"}
	got := paths(t, History(r, Filter{}))
	errorIf(t, !slices.Equal(got, want), "%v, want %v", got, want)
	// Its metadata goes with an entry.
	before := count(r.rows, 4)
	flaky, _, _ := im.names.Index("flaky")
	must(t, st.drop(r, loc(int(flaky)), true))
	errorIf(t, count(r.rows, 4) != before-1, "%d rows of metadata, want %d", count(r.rows, 4), before-1)
}

func TestARunOfForm1ThatIsDamaged(t *testing.T) {
	for what, damage := range map[string]func(r *form1Run){
		"another location": func(r *form1Run) {
			v, _, _ := r.Get(journal.HistoryKey(nil, loc(0)))
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
		_, err := loadImage(r)
		errorIf(t, !errors.As(err, &bad), "%s: %v", what, err)
	}
}
