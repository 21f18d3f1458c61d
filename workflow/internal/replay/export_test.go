package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/workflow/internal/journal"
	"github.com/cairn-run/cairn/workflow/internal/rowmap"
)

// This file exports parts of the implementation to tests. Tests on a host are in package
// replay_test, because the host imports this package.

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// The same for package replay_test.
var Must, FatalIf, ErrorIf = must, fatalIf, errorIf

// RecordedState returns the recorded state. ReadStatus derives others from it.
func RecordedState(t testing.TB, r Reader) State {
	f, err := loadFields(r)
	must(t, err)
	return f.state
}

// InboxLen returns the number of results of children that the run has not received.
func InboxLen(t testing.TB, r Reader) int {
	inbox, err := loadInbox(r)
	must(t, err)
	return len(inbox)
}

// Cancellations returns the number of cancellations inside of that of a context.
func Cancellations(ctx Context) int { return len(ctx.scope().cancel.inner) }

// CheckRows checks that all metadata and large values belong to entries, and that references are
// counted.
func CheckRows(t testing.TB, r Reader) {
	t.Helper()
	im, err := loadImage(r)
	must(t, err)
	want, refs, got := map[string]bool{}, map[keyspace.WorkflowHash]uint64{}, 0
	for i := range im.records {
		e, err := im.records[i].header()
		must(t, err)
		if e.ID != 0 {
			want[string(journal.MetadataKey(nil, e.ID))] = true
		}
		for _, ref := range e.Large {
			refs[ref.Hash]++
			for part := range 2 + (ref.Size-1)/journal.BlobChunk {
				want[string(keyspace.WorkflowBlob.Append(nil, &ref.Hash, uint32(part)))] = true
			}
		}
	}
	for hash, n := range refs {
		head, _, err := journal.BlobHead(r, &hash)
		fatalIf(t, err != nil || uint64(head) != n, "%d references, want %d (%v)", head, n, err)
	}
	must(t, r.Scan([]byte{7, 0x15, 4}, []byte{7, 0x15, 9}, func(key, _ []byte) error {
		if key[2] == 4 || key[2] == 8 {
			fatalIf(t, !want[string(key)], "nothing refers to %s", keyspace.Format(key))
			got++
		}
		return nil
	}))
	fatalIf(t, got != len(want), "%d rows beside the history, want %d", got, len(want))
}

// digest replaces a value that takes long to print.
func digest(value []byte) []byte {
	if len(value) <= 1000 {
		return value
	}
	sum := sha256.Sum256(value)
	return sum[:]
}

// Recorded prints the rows, without the parts that depend on time and on crashes.
func Recorded(t testing.TB, r Reader) string {
	im, err := loadImage(r)
	must(t, err)
	im.reader = r
	var b strings.Builder
	for i := range im.records {
		rec := &im.records[i]
		e, err := rec.decode()
		must(t, err)
		fmt.Fprintf(&b, "%s: %s %s #%d", im.names.Path(rec.loc), e.Kind, e.Status, e.Ordinal)
		if e.Output != nil {
			fmt.Fprintf(&b, " -> %x", digest(e.Output))
		}
		if e.Failure != nil {
			b.WriteString(" !") // the text may include attempts
		}
		if e.State != nil && e.Kind != KindSpawn {
			fmt.Fprintf(&b, " state %d %x", e.Iteration, digest(e.State))
		}
		if e.Winner != "" {
			fmt.Fprintf(&b, " winner %s", e.Winner)
		}
		for _, m := range e.Messages {
			fmt.Fprintf(&b, " got %s/%d", m.Queue, m.ID)
		}
		b.WriteByte('\n')
	}
	var owes []string // sorted, because concurrent steps end in any order
	for _, row := range im.obligations {
		o, err := decodeObligation(row)
		must(t, err)
		owes = append(owes, "owes "+im.names.Path(o.Entry)+"\n")
	}
	slices.Sort(owes)
	return b.String() + strings.Join(owes, "")
}

type rows = rowmap.Map

var newRows = rowmap.New

// count returns the number of rows of a family.
func count(r *rows, family byte) (n int) {
	for k := range r.All() {
		if strings.HasPrefix(k, string([]byte{7, 0x15, family})) {
			n++
		}
	}
	return n
}

// A counted journal counts the rows that scans have visited.
type counted struct {
	*rows
	n int
}

func (c *counted) Scan(start, end []byte, visit func(key, value []byte) error) error {
	return c.rows.Scan(start, end, func(key, value []byte) error {
		c.n++
		return visit(key, value)
	})
}

// unhex reads hexadecimal digits; blanks and bars in between are for people.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "", "\n", "", "\t", "").Replace(s))
	must(t, err)
	return b
}

// at returns a time of a fixed day.
func at(ms int64) time.Time { return time.UnixMilli(1_771_891_200_000 + ms).UTC() }

// loc makes a location of names (int) and of name and iteration pairs.
func loc(elements ...any) journal.Location {
	var l journal.Location
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
