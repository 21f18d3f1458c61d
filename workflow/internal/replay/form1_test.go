package replay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// newForm1Run returns the rows of a run that another engine wrote.
func newForm1Run(t testing.TB) *rows {
	file, err := os.ReadFile("testdata/form1.rows")
	must(t, err)
	r := newRows()
	for line := range strings.Lines(string(file)) {
		if row, _, _ := strings.Cut(line, "#"); row != "" {
			key, value, _ := strings.Cut(row, " ")
			r.Put(unhex(t, key), unhex(t, value))
		}
	}
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

// If a place has rows of form 1 and of form 2, form 2 counts. The history is complete, with each
// entry once.
func TestARunOfForm1GoesOnInForm2(t *testing.T) {
	r := newForm1Run(t)
	im, err := loadImage(r)
	must(t, err)
	st, err := newStore(im, 0)
	must(t, err)
	wait, _, _ := im.names.Index("t")
	putEntry(t, st, r, loc(int(wait)), Entry{Kind: KindReceive, Status: TimedOut, Seq: 12})
	putEntry(t, st, r, loc(0), done(0, 1))
	putEntry(t, st, r, loc(15, 0), done(0, 11))
	again, err := loadImage(r)
	must(t, err)
	rec := again.find(loc(int(wait)))
	errorIf(t, rec == nil || rec.form != journal.Form2, "%+v", rec)
	children := again.children(nil)
	errorIf(t, children[len(children)-1] != rec, "what was added does not come last")
	want := []string{"charge", "void", "both", "both/x", "both/x/job", "both/y", "serve", "serve~2/tick", "flaky",
		"gone", "gone/charge", "w", "t", "e"}
	got := paths(t, History(r, Filter{}))
	errorIf(t, !slices.Equal(got, want), "%v, want %v", got, want)
	// Its metadata is removed with an entry.
	before := count(r, 4)
	flaky, _, _ := im.names.Index("flaky")
	must(t, st.drop(r, loc(int(flaky)), true))
	errorIf(t, count(r, 4) != before-1, "%d rows of metadata, want %d", count(r, 4), before-1)
}

func TestARunOfForm1ThatIsDamaged(t *testing.T) {
	history := func(elements ...any) []byte { return journal.HistoryKey(nil, loc(elements...)) }
	get := func(r *rows, key []byte) []byte { v, _, _ := r.Get(key); return v }
	for what, damage := range map[string]func(r *rows){
		"another location": func(r *rows) { r.Put(history(15, 1), get(r, history(0))) },
		"metadata":         func(r *rows) { r.Put(keyspace.WorkflowEntry.Append(nil, "x"), []byte{1, 0, 9}) },
		"entry":            func(r *rows) { r.Put(history(0), []byte{1, 0, 9}) },
		"state":            func(r *rows) { r.Put(journal.FieldKey(nil, keyspace.FieldState), []byte("dancing")) },
		"error":            func(r *rows) { r.Put(journal.FieldKey(nil, keyspace.FieldError), []byte("?")) },
		"branch name": func(r *rows) {
			join, _, _ := bytes.Cut(get(r, history(5)), unhex(t, "02 01 78"))
			r.Put(history(5), append(join, unhex(t, "01 | ac02 "+strings.Repeat("61", 300)+" 02 01 01 01 00")...))
		},
	} {
		r := newForm1Run(t)
		damage(r)
		_, err := loadImage(r)
		errorIf(t, !errors.As(err, new(*CorruptError)), "%s: %v", what, err)
	}
}
