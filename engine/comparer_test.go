package engine

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// hardRows returns rows of all kinds, with the bytes that are hard to order, and
// pieces of them.
func hardRows() [][]byte {
	var rows [][]byte
	for _, key := range []string{"", "\x00", "\x00\x00", "\x00\xFF", "\x01", "\x01\x00", "\x04a", "\x04a\x00", "\x04a\x00b", "\xFF", "\xFF\xFF"} {
		for n := range 2 {
			id := testID(n)
			k := []byte(key)
			row := keyspace.AppendMetadataRow(nil, id, k)
			rows = append(rows, row, keyspace.AppendScanPrefix(nil, id, k), row[:keyspace.SplitRow(row)])
			for _, chunk := range []int{0, 1, 255, 256} {
				rows = append(rows, keyspace.AppendDataRow(nil, id, k, chunk))
			}
		}
	}
	for n := range 2 {
		id := testID(n)
		rows = append(rows, keyspace.AppendHeadRow(nil, id), keyspace.AppendIdentityRow(nil, id), keyspace.AppendActorPrefix(nil, id),
			keyspace.AppendTombstoneRow(nil, id), keyspace.AppendWakeRow(nil, 7, id, 1, "a", "b"))
	}
	rows = append(rows, keyspace.AppendOutboxRow(nil, 300), keyspace.AppendMetaRow(nil, "format"),
		keyspace.AppendDirectoryRow(nil, "ns", "t", []string{"k"}), []byte{0}, []byte{0xFF})
	for _, row := range slices.Clone(rows) {
		for n := range row {
			if n > 0 && n%5 == 0 {
				rows = append(rows, row[:n])
			}
		}
	}
	slices.SortFunc(rows, bytes.Compare)
	return slices.CompactFunc(rows, bytes.Equal)
}

// TestComparerOrdersWholeRowsForPebble is Pebble's own check with rows as
// prefixes and no suffixes. With suffixes it also asks that a prefix without its
// first bytes still splits, which holds for no row and is needed for nothing
// here; see newComparer.
func TestComparerOrdersWholeRowsForPebble(t *testing.T) {
	var whole [][]byte
	for _, row := range hardRows() {
		if keyspace.SplitRow(row) == len(row) {
			whole = append(whole, row)
		}
	}
	if err := pebble.CheckComparer(newComparer().EnsureDefaults(), whole[:60], nil); err != nil {
		t.Fatal(err)
	}
}

// TestComparerKeepsTheRulesOfSplit checks what Pebble documents of Split, for all
// pairs of rows.
func TestComparerKeepsTheRulesOfSplit(t *testing.T) {
	c := newComparer().EnsureDefaults()
	rows := hardRows()
	for _, a := range rows {
		ap, as := a[:c.Split(a)], a[c.Split(a):]
		if c.Split(ap) != len(ap) {
			t.Fatalf("the prefix of %x does not split to itself", a)
		}
		if len(as) > 0 && c.Compare(ap, a) >= 0 {
			t.Fatalf("the prefix of %x does not come before it", a)
		}
		for _, b := range rows {
			bp, bs := b[:c.Split(b)], b[c.Split(b):]
			order := c.Compare(a, b)
			if order != bytes.Compare(a, b) || c.Equal(a, b) != (order == 0) {
				t.Fatalf("order of %x and %x", a, b)
			}
			if prefixes := c.Compare(ap, bp); prefixes*order < 0 || (prefixes == 0 && c.ComparePointSuffixes(as, bs) != order) {
				t.Fatalf("%x and %x order as %d, their prefixes as %d", a, b, order, prefixes)
			}
			if order < 0 {
				if sep := c.Separator(nil, a, b); c.Compare(a, sep) > 0 || c.Compare(sep, b) >= 0 {
					t.Fatalf("separator of %x and %x is %x", a, b, sep)
				}
			}
		}
		if next := c.ImmediateSuccessor(nil, ap); c.Split(next) != len(next) || c.Compare(ap, next) >= 0 {
			t.Fatalf("successor of %x is %x", ap, next)
		}
	}
}

// TestBloomFilterCoversChunksAndMetadata shows that a key that is absent is
// answered by the filter of its prefix.
func TestBloomFilterCoversChunksAndMetadata(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	for i := range 100 {
		put(t, sp.Writes(), kv(string(rune('a'+i))), "x")
	}
	commit(t, sp)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	before := s.db.Metrics().Filter
	for i := range 200 {
		wantAbsent(t, sp.Writes(), kv("absent"+string(rune(i))))
	}
	after := s.db.Metrics().Filter
	if hits := after.Hits - before.Hits; hits < 180 {
		t.Fatalf("the filter answered %d of 200", hits)
	}
}
