package replay

import (
	"testing"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// Form1Rows returns the rows of a run that another engine wrote: a step, one that returned nothing, a message, a join, and a
// loop that goes on.
func Form1Rows(t *testing.T) map[string]string {
	r := &form1Run{rows: newRows(), t: t}
	for _, s := range []string{"charge", "void", "w:count", "w:deadline", "w:0", "both", "x", "y", "serve", "tick"} {
		r.name(s)
	}
	r.Put(journal.FieldKey(nil, 1), []byte("sleeping"))
	r.Put(journal.FieldKey(nil, 5), []byte{0xf6})
	r.entry(loc(0), "00 | 01 02 18 2a | 00", form1Metadata)
	r.entry(loc(1), "00 | 00 | 00", form1Metadata)
	r.entry(loc(2), "03 | 07 77 3a 63 6f 75 6e 74 | 01 01", "")
	r.entry(loc(3), "02 | e803000000000000 | 02", "")
	r.entry(loc(4), "03 | 01 71 | 2d"+form1Message, "")
	r.entry(loc(5), "05 | 02 | 01 78 02 01 01 01 00 | 01 79 02 01 01 02 00", "")
	r.entry(loc(8), "01 | 01 02 | 02000000 | 00", "")
	r.entry(loc(8, [2]int{8, 2}, 9), "00 | 01 01 03 | 00", form1Metadata)
	all := map[string]string{}
	for k, v := range r.m {
		all[k] = string(v)
	}
	return all
}
