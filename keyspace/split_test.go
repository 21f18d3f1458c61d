package keyspace

import (
	"bytes"
	"slices"
	"testing"
)

// splitCases are rows, parts of rows, and bytes that only look like rows.
func splitCases() [][]byte {
	other := testID
	other[15]++
	var out [][]byte
	for _, key := range words(2) {
		for _, id := range []ActorID{testID, other} {
			out = append(out,
				AppendDataRow(nil, id, key, 0),
				AppendDataRow(nil, id, key, 256),
				AppendMetadataRow(nil, id, key),
				appendKeyPrefix(nil, id, key),
				AppendScanPrefix(nil, id, key))
		}
	}
	whole := AppendDataRow(nil, testID, []byte{0x61, 0x00, 0x62}, 1)
	for n := range whole {
		out = append(out, whole[:n])
	}
	wrapped := appendKeyPrefix(nil, testID, []byte{0x61})
	for _, tail := range [][]byte{{0x00}, {0x01}, {0xFF}, {0xFF, 0x00, 0x00}, {0x00, 0x00}} {
		out = append(out, append(bytes.Clone(wrapped), tail...))                  // after the end of a wrapper
		out = append(out, append(bytes.Clone(wrapped[:len(wrapped)-1]), tail...)) // instead of its last byte
		out = append(out, append(bytes.Clone(wrapped[:len(wrapped)-2]), tail...))
	}
	for _, row := range rowVectors {
		out = append(out, appendRow(nil, row.row))
	}
	out = append(out, nil, []byte{0}, []byte("\x05\x01a\x00\x00\x15\x2C"), bytes.Repeat([]byte{0xFF}, 30), AppendWakeTime(nil, 0))
	// The same bytes under another space are no wrapper.
	return append(out, append(append(appendSpace(nil, spaceTombstones), 0x30), whole[6:]...))
}

// checkSplit verifies Pebble's conditions for a split with two byte strings.
func checkSplit(t *testing.T, a, b []byte) {
	t.Helper()
	pa, pb := a[:SplitRow(a)], b[:SplitRow(b)]
	if SplitRow(pa) != len(pa) {
		t.Fatalf("the prefix %x of %x splits at %d", pa, a, SplitRow(pa))
	}
	if len(pa) < len(a) && bytes.Compare(pa, a) >= 0 {
		t.Fatalf("the prefix %x does not sort before %x", pa, a)
	}
	if bytes.Compare(a, b) <= 0 && bytes.Compare(pa, pb) > 0 {
		t.Fatalf("%x <= %x, but prefixes %x > %x", a, b, pa, pb)
	}
	if bytes.Compare(pa, pb) < 0 && bytes.Compare(a, b) >= 0 {
		t.Fatalf("prefixes %x < %x, but %x >= %x", pa, pb, a, b)
	}
	if bytes.Equal(pa, pb) && bytes.Compare(a, b) != bytes.Compare(a[len(pa):], b[len(pb):]) {
		t.Fatalf("%x and %x share a prefix, but do not order by what follows", a, b)
	}
}

// checkSuccessor verifies that no prefix is between a prefix and its successor.
func checkSuccessor(t *testing.T, a, b []byte) {
	t.Helper()
	prefix, other := a[:SplitRow(a)], b[:SplitRow(b)]
	next := AppendSplitSuccessor(nil, prefix)
	if SplitRow(next) != len(next) || bytes.Compare(prefix, next) >= 0 {
		t.Fatalf("the successor of %x is %x", prefix, next)
	}
	if bytes.Compare(prefix, other) < 0 && bytes.Compare(other, next) < 0 {
		t.Fatalf("%x lies between %x and its successor %x", other, prefix, next)
	}
}

func TestSplitKeepsWhatPebbleRequires(t *testing.T) {
	cases := splitCases()
	for _, c := range slices.Clone(cases) {
		cases = append(cases, AppendSplitSuccessor(nil, c[:SplitRow(c)]))
	}
	for _, a := range cases {
		for _, b := range cases {
			checkSplit(t, a, b)
			checkSuccessor(t, a, b)
		}
	}
}

// checkRows verifies that rows of any key parse back, and that they order like the keys: those of a
// key together, the data before the metadata.
func checkRows(t *testing.T, a, b []byte) {
	t.Helper()
	row, metadata, rowB := AppendDataRow(nil, testID, a, 1677), AppendMetadataRow(nil, testID, a), AppendDataRow(nil, testID, b, 7)
	if bytes.Compare(row, metadata) >= 0 {
		t.Fatalf("of %x the metadata comes before the data", a)
	}
	prefix := appendKeyPrefix(nil, testID, a)
	start, end := AppendScanPrefix(nil, testID, b), Successor(AppendScanPrefix(nil, testID, b))
	for _, r := range [][]byte{row, metadata} {
		if got, err := ParseRow(r); err != nil || !bytes.Equal(got.Key, a) || got.ID != testID {
			t.Fatalf("%x came back as %+v (%v)", a, got, err)
		}
		if order := bytes.Compare(a, b); order != 0 && bytes.Compare(r, rowB) != order {
			t.Fatalf("%x and %x change order", a, b)
		}
		if in(r, start, end) != bytes.HasPrefix(a, b) || (bytes.Compare(r, start) >= 0) != (bytes.Compare(a, b) >= 0) {
			t.Fatalf("%x in a scan of %x: %v", a, b, !bytes.HasPrefix(a, b))
		}
		if split := SplitRow(r); split != len(prefix) || !bytes.HasPrefix(r, prefix) {
			t.Fatalf("%x splits at %d, want %d", r, split, len(prefix))
		}
	}
	if SplitRow(start) != len(start) {
		t.Fatalf("the bound %x splits at %d", start, SplitRow(start))
	}
	checkSplit(t, row, rowB)
}

func TestRowsOrderAsTheirKeys(t *testing.T) {
	all := words(3)
	for _, a := range all {
		for _, b := range all {
			checkRows(t, a, b)
		}
	}
}
