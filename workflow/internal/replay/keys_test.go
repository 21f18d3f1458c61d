package replay

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

func TestHistoryKeysAreTheDocumentedBytes(t *testing.T) {
	for _, v := range []struct {
		what string
		loc  journal.Location
		hex  string
	}{
		{"all history", nil, "07 15 02"},
		{"root step 0", loc(0), "07 15 02 14"},
		{"root step 5", loc(5), "07 15 02 15 05"},
		{"root step 300", loc(300), "07 15 02 16 01 2c"},
		{"iteration 0", loc(0, [2]int{0, 0}, 1), "07 15 02 14 05 14 14 00 15 01"},
		{"iteration 1", loc(0, [2]int{0, 1}, 1), "07 15 02 14 05 14 15 01 00 15 01"},
		{"iteration 255", loc(0, [2]int{0, 255}, 1), "07 15 02 14 05 14 15 ff 00 15 01"},
		{"iteration 256", loc(0, [2]int{0, 256}, 1), "07 15 02 14 05 14 16 01 00 00 15 01"},
		{"iteration 65535", loc(0, [2]int{0, 65535}, 1), "07 15 02 14 05 14 16 ff ff 00 15 01"},
		{"iteration 65536", loc(0, [2]int{0, 65536}, 1), "07 15 02 14 05 14 17 01 00 00 00 15 01"},
		{"subtree of iteration 1", loc(0, [2]int{0, 1}), "07 15 02 14 05 14 15 01 00"},
		{"nested loop", loc(0, [2]int{0, 2}, 1), "07 15 02 14 05 14 15 02 00 15 01"},
		{"step in the nested loop", loc(0, [2]int{0, 2}, 1, [2]int{1, 7}, 2), "07 15 02 14 05 14 15 02 00 15 01 05 15 01 15 07 00 15 02"},
		{"join", loc(4), "07 15 02 15 04"},
		{"branch x", loc(4, 5, 6), "07 15 02 15 04 15 05 15 06"},
		{"branch y", loc(4, 7, 6), "07 15 02 15 04 15 07 15 06"},
		{"join in a loop", loc(0, [2]int{0, 3}, 4, 5, 6), "07 15 02 14 05 14 15 03 00 15 04 15 05 15 06"},
		{"loop in a join", loc(4, 5, 8, [2]int{8, 0}, 6), "07 15 02 15 04 15 05 15 08 05 15 08 14 00 15 06"},
		{"race branch", loc(9, 10, 11), "07 15 02 15 09 15 0a 15 0b"},
		{"wait:count", loc(12), "07 15 02 15 0c"},
		{"element 9 of a map", loc(0, [2]int{0, 9}), "07 15 02 14 05 14 15 09 00"},
	} {
		if got := journal.HistoryKey(nil, v.loc); !bytes.Equal(got, unhex(t, v.hex)) {
			t.Errorf("%s: %x, want %s", v.what, got, v.hex)
		}
		segments, err := v.loc.Segments()
		if err != nil || len(segments) != v.loc.Depth() {
			t.Errorf("%s: %v (%v), depth %d", v.what, segments, err, v.loc.Depth())
		}
		var again journal.Location
		for _, s := range segments {
			if s.Loop {
				again = journal.ChildIteration(nil, again, s.Name, s.Iteration)
			} else {
				again = journal.ChildName(nil, again, s.Name)
			}
		}
		errorIf(t, !bytes.Equal(again, v.loc), "%s: %v has the bytes %x", v.what, segments, again)
		if len(segments) > 0 {
			up, key := journal.ParentOf(v.loc), journal.HistoryKey(nil, v.loc)
			errorIf(t, up.Depth() != len(segments)-1 || !up.Encloses(v.loc) || v.loc.Encloses(up), "%s: the parent is %x", v.what, up)
			if bytes.Compare(key, journal.HistoryKey(nil, up)) < 0 || bytes.Compare(key, journal.HistoryEnd(nil, up)) >= 0 {
				t.Errorf("%s is outside of the range of its parent", v.what)
			}
			sibling := journal.ChildName(nil, up, 1<<32-1)
			errorIf(t, v.loc.Encloses(sibling) || sibling.Encloses(v.loc), "%s and a sibling enclose each other", v.what)
		}
	}
	for _, v := range []struct {
		key []byte
		hex string
	}{
		{journal.NameKey(nil, 0), "07 15 01 14"}, {journal.NameKey(nil, 1), "07 15 01 15 01"}, {journal.NameKey(nil, 255), "07 15 01 15 ff"}, {journal.NameKey(nil, 256), "07 15 01 16 01 00"},
		{journal.FieldKey(nil, keyspace.FieldState), "07 15 03 15 01"}, {journal.FieldKey(nil, keyspace.FieldOutput), "07 15 03 15 02"}, {journal.FieldKey(nil, keyspace.FieldError), "07 15 03 15 03"},
		{journal.FieldKey(nil, keyspace.FieldVersion), "07 15 03 15 04"}, {journal.FieldKey(nil, keyspace.FieldInput), "07 15 03 15 05"}, {journal.FieldKey(nil, keyspace.FieldPause), "07 15 03 15 09"},
		{journal.MetadataKey(nil, 300), "07 15 04 16 01 2c"}, {obligationKey(nil, 1), "07 15 05 15 01"}, {inboxKey(nil, 1), "07 15 06 15 01"},
		// The ranges that a loop of 180 iterations, a nested one, and a branch are removed by.
		{journal.HistoryKey(nil, journal.ChildIteration(nil, loc(0), 0, 180)), "07 15 02 14 05 14 15 b4 00"},
		{journal.HistoryKey(nil, journal.ChildIteration(nil, loc(0, [2]int{0, 2}, 1), 1, 7)), "07 15 02 14 05 14 15 02 00 15 01 05 15 01 15 07 00"},
	} {
		errorIf(t, !bytes.Equal(v.key, unhex(t, v.hex)), "%x, want %s", v.key, v.hex)
	}
}

func TestHistoryKeysOrder(t *testing.T) {
	order := []journal.Location{
		loc(0), loc(0, [2]int{0, 0}, 1), loc(0, [2]int{0, 255}, 1), loc(0, [2]int{0, 256}, 1), loc(0, [2]int{0, 65535}, 1), loc(0, [2]int{0, 65536}, 1),
		loc(0, 5), loc(1), loc(255), loc(256), loc(65536),
	}
	if !slices.IsSortedFunc(order, func(a, b journal.Location) int {
		return bytes.Compare(journal.HistoryKey(nil, a), journal.HistoryKey(nil, b))
	}) {
		t.Error("keys do not order as locations do")
	}
}

func TestKeysAllocateNothing(t *testing.T) {
	buf := make([]byte, 0, 256)
	l := loc(0, [2]int{0, 2}, 1)
	if n := testing.AllocsPerRun(100, func() {
		buf = journal.HistoryKey(buf[:0], l)
		buf = journal.ChildName(buf[:0], l, 70000)
		buf = journal.ChildIteration(buf[:0], l, 1, 70000)
		buf = journal.MetadataKey(buf[:0], 300)
		buf = obligationKey(buf[:0], 300)
		buf = journal.FieldKey(buf[:0], keyspace.FieldRun)
		_ = journal.ParentOf(l)
		_ = l.Depth()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzLocation(f *testing.F) {
	f.Add([]byte(loc(0, [2]int{0, 2}, 1, [2]int{1, 7}, 2)))
	f.Add([]byte{0x05, 0x14})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := journal.Location(b)
		segments, err := l.Segments()
		if err == nil && len(segments) != l.Depth() {
			t.Fatalf("%x: %v, depth %d", b, segments, l.Depth())
		}
		fatalIf(t, !journal.ParentOf(l).Encloses(l), "%x is not inside of its parent", b)
		journal.NewNames(nil).Path(l)
	})
}
