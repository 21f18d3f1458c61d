package replay

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// Package keyspace has the bytes of the other keys.
func TestHistoryKeysAreTheDocumentedBytes(t *testing.T) {
	var before []byte
	for _, v := range []struct {
		loc journal.Location
		hex string
	}{ // in the order of their keys
		{nil, "07 15 02"},
		{loc(0), "07 15 02 14"},
		{loc(0, [2]int{0, 0}, 1), "07 15 02 14 05 14 14 00 15 01"},
		{loc(0, [2]int{0, 2}, 1, [2]int{1, 7}, 2), "07 15 02 14 05 14 15 02 00 15 01 05 15 01 15 07 00 15 02"},
		{loc(0, [2]int{0, 255}, 1), "07 15 02 14 05 14 15 ff 00 15 01"},
		{loc(0, [2]int{0, 256}), "07 15 02 14 05 14 16 01 00 00"},
		{loc(0, [2]int{0, 65536}, 4, 5, 6), "07 15 02 14 05 14 17 01 00 00 00 15 04 15 05 15 06"},
		{loc(4, 5, 8, [2]int{8, 0}, 6), "07 15 02 15 04 15 05 15 08 05 15 08 14 00 15 06"},
		{loc(300), "07 15 02 16 01 2c"},
	} {
		key := journal.HistoryKey(nil, v.loc)
		errorIf(t, !bytes.Equal(key, unhex(t, v.hex)), "%x, want %s", key, v.hex)
		errorIf(t, bytes.Compare(before, key) >= 0, "%s is out of order", v.hex)
		before = key
		segments, err := v.loc.Segments()
		errorIf(t, err != nil || len(segments) != v.loc.Depth(), "%s: %v (%v), depth %d", v.hex, segments, err, v.loc.Depth())
		if len(segments) == 0 {
			continue
		}
		up := journal.ParentOf(v.loc)
		errorIf(t, up.Depth() != len(segments)-1 || !up.Encloses(v.loc) || v.loc.Encloses(up), "%s: the parent is %x", v.hex, up)
		if bytes.Compare(key, journal.HistoryKey(nil, up)) < 0 || bytes.Compare(key, journal.HistoryEnd(nil, up)) >= 0 {
			t.Errorf("%s is outside of the range of its parent", v.hex)
		}
		sibling := journal.ChildName(nil, up, 1<<32-1)
		errorIf(t, v.loc.Encloses(sibling) || sibling.Encloses(v.loc), "%s and a sibling enclose each other", v.hex)
	}
}

func TestKeysAndPlainStepsAllocateNothing(t *testing.T) {
	buf := make([]byte, 0, 256)
	l := loc(0, [2]int{0, 2}, 1)
	e, back := step([]byte{0x18, 0x2a}), Entry{}
	n := testing.AllocsPerRun(100, func() {
		buf = journal.HistoryKey(buf[:0], l)
		buf = journal.ChildName(buf[:0], l, 70000)
		buf = journal.ChildIteration(buf[:0], l, 1, 70000)
		buf = journal.MetadataKey(buf[:0], 300)
		buf = obligationKey(buf[:0], 300)
		buf = journal.FieldKey(buf[:0], keyspace.FieldRun)
		_ = journal.ParentOf(l)
		_ = l.Depth()
		buf, _ = journal.AppendEntry(buf[:0], &e)
		must(t, journal.DecodeEntry(&back, buf))
	})
	errorIf(t, n != 0, "%v allocations", n)
}

func FuzzLocation(f *testing.F) {
	f.Add([]byte(loc(0, [2]int{0, 2}, 1, [2]int{1, 7}, 2)))
	f.Add([]byte{0x05, 0x14})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := journal.Location(b)
		segments, err := l.Segments()
		fatalIf(t, err == nil && len(segments) != l.Depth(), "%x: %v, depth %d", b, segments, l.Depth())
		fatalIf(t, !journal.ParentOf(l).Encloses(l), "%x is not inside of its parent", b)
		journal.NewNames(nil).Path(l)
	})
}

func TestNames(t *testing.T) {
	stored := newRows()
	n := journal.NewNames(nil)
	strange := []string{"a", "p/q/r", "x~7", "nul\x00inside", strings.Repeat("é", 128), "w:0"}
	for i, s := range strange {
		index, isNew, err := n.Index(s)
		fatalIf(t, err != nil || !isNew || index != uint32(i), "%q: %d, %v, %v", s, index, isNew, err)
	}
	must(t, n.Write(stored))
	n, err := journal.LoadNames(stored)
	must(t, err)
	for i, s := range strange {
		index, isNew, err := n.Index(s)
		errorIf(t, index != uint32(i) || isNew || err != nil || n.Name(uint32(i)) != s, "%q loads as %d, %v, %v", s, index, isNew, err)
	}
	_, ok := n.Lookup("unknown")
	errorIf(t, ok || n.Len() != len(strange), "looking up registers")
	for want, l := range map[string]journal.Location{"": nil, "a~3/p/q/r/?9": loc(0, [2]int{0, 3}, 1, 9), "?99": {0x99}} {
		errorIf(t, n.Path(l) != want, "%x prints %q, want %q", []byte(l), n.Path(l), want)
	}
	// Names of a transaction that was undone are written by the next one.
	n.Begin()
	n.Index("undone")
	must(t, n.Write(newRows()))
	n.Undone()
	n.Begin()
	n.Index("next")
	must(t, n.Write(stored))
	n.Begin()
	n.Undone()
	loaded, err := journal.LoadNames(stored)
	errorIf(t, err != nil || loaded.Len() != 8 || loaded.Name(6) != "undone" || n.Written() != 8, "%v, %v", loaded, err)
}

func TestTooManyNames(t *testing.T) {
	n := journal.NewNames(nil)
	for i := range MaxNames {
		fatalIf(t, n.Crowded() != (i > journal.CrowdedNames), "crowded with %d names: %v", i, n.Crowded())
		_, isNew, err := n.Index("item " + strconv.Itoa(i))
		fatalIf(t, err != nil || !isNew, "%d: %v", i, err)
	}
	_, _, err := n.Index("one more")
	var bad *NameError
	if !errors.As(err, &bad) || bad.Name != "one more" || !strings.Contains(err.Error(), "ForEach") ||
		!strings.Contains(err.Error(), "Loop") {
		t.Error(err)
	}
	i, isNew, err := n.Index("item 7")
	errorIf(t, i != 7 || isNew || err != nil, "a name that is there: %d, %v, %v", i, isNew, err)
}

func BenchmarkNameIndex(b *testing.B) {
	n := journal.NewNames(nil)
	for i := range 1000 {
		n.Index("item " + strconv.Itoa(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		_, isNew, _ := n.Index("item 777")
		fatalIf(b, isNew, "new")
	}
}
