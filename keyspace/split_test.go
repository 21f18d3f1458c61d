package keyspace

import (
	"bytes"
	"slices"
	"testing"
)

// splitCases are rows, parts of rows, and bytes that merely look like rows.
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

func TestSplitRowIsTheEndOfTheWrapper(t *testing.T) {
	for _, key := range words(3) {
		want := len(appendKeyPrefix(nil, testID, key))
		for _, row := range [][]byte{
			AppendDataRow(nil, testID, key, 0), AppendDataRow(nil, testID, key, 1677), AppendMetadataRow(nil, testID, key), appendKeyPrefix(nil, testID, key),
		} {
			if got := SplitRow(row); got != want {
				t.Fatalf("%x splits at %d, want %d", row, got, want)
			}
		}
		if bound := AppendScanPrefix(nil, testID, key); SplitRow(bound) != len(bound) {
			t.Fatalf("the bound %x splits at %d", bound, SplitRow(bound))
		}
	}
	for _, v := range rowVectors {
		row := appendRow(nil, v.row)
		if wrapped := v.row.Type == RowData || v.row.Type == RowMetadata; !wrapped && SplitRow(row) != len(row) {
			t.Errorf("%s splits at %d of %d", v.prints, SplitRow(row), len(row))
		}
	}
}

// checkSplit verifies for two byte strings what Pebble asks of a split.
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

func TestSplitKeepsWhatPebbleRequires(t *testing.T) {
	cases := splitCases()
	for _, a := range cases {
		for _, b := range cases {
			checkSplit(t, a, b)
		}
	}
}

func TestSplitSuccessorIsTheNextPrefix(t *testing.T) {
	var prefixes [][]byte
	for _, c := range splitCases() {
		prefixes = append(prefixes, c[:SplitRow(c)])
	}
	for _, prefix := range prefixes {
		next := AppendSplitSuccessor(nil, prefix)
		if SplitRow(next) != len(next) || bytes.Compare(prefix, next) >= 0 {
			t.Fatalf("the successor of %x is %x", prefix, next)
		}
		for _, other := range prefixes {
			if bytes.Compare(prefix, other) < 0 && bytes.Compare(other, next) < 0 {
				t.Fatalf("%x lies between %x and its successor %x", other, prefix, next)
			}
		}
		prefixes = append(prefixes[:len(prefixes):len(prefixes)], next)
	}
}

func TestWrappersAreOrderedAndPrefixFree(t *testing.T) {
	keys := words(4)
	slices.SortFunc(keys, bytes.Compare)
	wrappers := make([][]byte, len(keys))
	for i, key := range keys {
		wrappers[i] = appendWrapper(nil, key)
	}
	for i := 1; i < len(wrappers); i++ {
		if bytes.Compare(wrappers[i-1], wrappers[i]) >= 0 {
			t.Fatalf("the wrappers of %x and %x are out of order", keys[i-1], keys[i])
		}
		// In sorted order, a string that is a prefix of any other is one of the next.
		if bytes.HasPrefix(wrappers[i], wrappers[i-1]) {
			t.Fatalf("the wrapper of %x is a prefix of that of %x", keys[i-1], keys[i])
		}
	}
}
