package replay

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
	"github.com/cairn-run/cairn/workflow/internal/rowmap"
)

type rows = rowmap.Map

var newRows = rowmap.New

// count returns how many rows a family has.
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
