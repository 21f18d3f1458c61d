package keyspace

import (
	"bytes"
	"testing"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// words returns all byte strings of up to n bytes that bounds and escaping treat specially.
func words(n int) [][]byte {
	out := [][]byte{{}}
	for from := 0; n > 0; n-- {
		to := len(out)
		for _, w := range out[from:to] {
			for _, c := range []byte{0x00, 0x01, 0xFE, 0xFF} {
				out = append(out, append(bytes.Clone(w), c))
			}
		}
		from = to
	}
	return out
}

// in reports whether key lies in [start, end); a nil end has no bound.
func in(key, start, end []byte) bool {
	return bytes.Compare(start, key) <= 0 && (end == nil || bytes.Compare(key, end) < 0)
}

func TestSuccessorBoundsExactlyTheKeysWithThePrefix(t *testing.T) {
	all := words(4)
	for _, prefix := range words(3) {
		before := bytes.Clone(prefix)
		end := Successor(prefix)
		fatalIf(t, !bytes.Equal(prefix, before), "%x became %x", before, prefix)
		for _, key := range all {
			got, want := in(key, prefix, end), bytes.HasPrefix(key, prefix)
			fatalIf(t, got != want, "%x in [%x, %x): %v, has the prefix: %v", key, prefix, end, got, want)
		}
	}
}

func TestRangeHoldsTheKeysOfALayoutAndNoOthers(t *testing.T) {
	for _, l := range layouts {
		start, end := l.Range()
		from, to := l.Kind.Range()
		for _, v := range keyVectors {
			key := unhex(t, v.hex)
			got, want := in(key, start, end), l.Has(key)
			errorIf(t, got != want, "%s in the range of %s: %v", v.prints, l.prints, got)
			if got, want := in(key, from, to), key[0] == byte(l.Kind); got != want {
				t.Errorf("%s in the range of %v: %v", v.prints, l.Kind, got)
			}
		}
		if !in([]byte{byte(l.Kind), 0xFF, 0xFF}, from, to) || !in(append(l.lead(nil), 0xFF, 0xFF), start, end) {
			t.Errorf("the range of %s ends too early", l.prints)
		}
	}
	if start, end := Kind(0xFF).Range(); !bytes.Equal(start, []byte{0xFF}) || end != nil {
		t.Errorf("range of the last kind: [%x, %x)", start, end)
	}
}

// The range of tuples that begin with some elements excludes a last string that continues with a 00
// byte. So do the ranges of keys and rows made of tuples.
func TestRangesHoldExactlyWhatBeginsAlike(t *testing.T) {
	pack := func(elements ...any) []byte {
		packed, err := tuple.Tuple(elements).Pack()
		must(t, err)
		return packed
	}
	row := func(namespace, typ string, key ...string) []byte {
		return AppendDirectoryRow(nil, namespace, typ, key)
	}
	for name, c := range map[string]struct {
		start, end      []byte // without an end it is that of the tuple
		inside, outside [][]byte
	}{
		"tuple": {
			start: pack("a"),
			inside: [][]byte{
				pack("a"), pack("a", nil), pack("a", "b"), pack("a", 0), pack("a", tuple.Tuple{}),
				pack("a", tuple.Versionstamp{Transaction: [10]byte{255}}),
			},
			outside: [][]byte{
				pack(), pack("A"), pack("a\x00"), pack("a\x00", 1), pack("a\x00b"), pack("ab"), pack("b"), pack([]byte("a")), pack(1),
			},
		},
		"parts of a large value": {
			start:   WorkflowBlob.Append(nil, &WorkflowHash{}, 1),
			end:     TupleEnd(WorkflowBlob.Append(nil, &WorkflowHash{}, 0)),
			inside:  [][]byte{WorkflowBlob.Append(nil, &WorkflowHash{}, 1), WorkflowBlob.Append(nil, &WorkflowHash{}, 1<<32-1)},
			outside: [][]byte{WorkflowBlob.Append(nil, &WorkflowHash{}, 0), WorkflowBlob.Append(nil, &WorkflowHash{31: 1}, 1)},
		},
		"runs of a schedule": {
			start:   ScheduleRun.Prefix(nil, "nightly", ""),
			inside:  [][]byte{ScheduleRun.Append(nil, "nightly", "", 1), ScheduleRun.Append(nil, "nightly", "", 1<<63)},
			outside: [][]byte{ScheduleRun.Append(nil, "nightly", "\x00", 1), ScheduleRun.Append(nil, "night", "ly", 1)},
		},
		"sqlite pages": {
			start:   SQLiteChunk.Prefix(nil, SQLiteMain),
			end:     Successor(SQLiteChunk.Prefix(nil, SQLiteMain)),
			inside:  [][]byte{SQLiteChunk.Append(nil, SQLiteMain, 0), SQLiteChunk.Append(nil, SQLiteMain, 1<<32-1)},
			outside: [][]byte{SQLiteMetadata.Append(nil, SQLiteMain), SQLiteChunk.Append(nil, SQLiteJournal, 0)},
		},
		"keys expired before 2000": {
			start:   Expiry.lead(nil),
			end:     Expiry.Prefix(nil, 2000),
			inside:  [][]byte{Expiry.Append(nil, -1, []byte{1}), Expiry.Append(nil, 1999, []byte{0xFF})},
			outside: [][]byte{Expiry.Append(nil, 2000, []byte{0}), Expiry.Append(nil, 1<<40, []byte{1})},
		},
		"actors of a key": {
			start:   AppendDirectoryPrefix(nil, "n", "t", []string{"a"}),
			inside:  [][]byte{row("n", "t", "a"), row("n", "t", "a", ""), row("n", "t", "a", "\xFF")},
			outside: [][]byte{row("n", "t"), row("n", "t", "a\x00"), row("n", "t", "a\x00b", "c"), row("n", "u", "a"), row("m", "t", "a")},
		},
		"actors of a type": {
			start:   AppendDirectoryPrefix(nil, "n", "t", nil),
			inside:  [][]byte{row("n", "t"), row("n", "t", ""), row("n", "t", "\xFF\xFF")},
			outside: [][]byte{row("n", "t\x00"), row("n", "ta"), row("n", "s", "x")},
		},
		"actors of a namespace": {
			start:   AppendDirectoryPrefix(nil, "n", "", nil),
			inside:  [][]byte{row("n", ""), row("n", "t"), row("n", "\xFF", "a")},
			outside: [][]byte{row("n\x00", "t"), row("na", "t"), row("m", "t")},
		},
	} {
		if c.end == nil {
			c.end = TupleEnd(c.start)
		}
		for i, key := range append(c.inside, c.outside...) {
			got := in(key, c.start, c.end)
			errorIf(t, got != (i < len(c.inside)), "%s: %x is in [%x, %x): %v", name, key, c.start, c.end, got)
		}
	}
}
