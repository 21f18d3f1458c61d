package keyspace

import (
	"bytes"
	"testing"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// words returns every byte string of up to n of the bytes that bounds and
// escaping treat specially.
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

// in reports whether key lies in [start, end); a nil end is no bound.
func in(key, start, end []byte) bool {
	return bytes.Compare(start, key) <= 0 && (end == nil || bytes.Compare(key, end) < 0)
}

func TestSuccessorBoundsExactlyTheKeysWithThePrefix(t *testing.T) {
	all := words(4)
	for _, prefix := range words(3) {
		end := Successor(prefix)
		for _, key := range all {
			if got, want := in(key, prefix, end), bytes.HasPrefix(key, prefix); got != want {
				t.Fatalf("%x in [%x, %x): %v, has the prefix: %v", key, prefix, end, got, want)
			}
		}
	}
	for prefix, want := range map[string]string{"": "", "\xFF": "", "\xFF\xFF": "", "a": "b", "a\xFF\xFF": "b", "a\x00": "a\x01"} {
		if got := Successor([]byte(prefix)); string(got) != want || (want == "") != (got == nil) {
			t.Errorf("Successor(%q) = %q, want %q", prefix, got, want)
		}
	}
}

func TestSuccessorLeavesThePrefixAlone(t *testing.T) {
	prefix := []byte{1, 2, 3}
	end := Successor(prefix)
	if !bytes.Equal(prefix, []byte{1, 2, 3}) || !bytes.Equal(end, []byte{1, 2, 4}) {
		t.Errorf("prefix %x, end %x", prefix, end)
	}
}

// A scan over rows returns exactly the logical keys with a prefix, also those
// whose next byte is FF, and a scan between two keys exactly those between.
func TestScanBoundsSelectTheRowsOfTheRightKeys(t *testing.T) {
	keys := words(4)
	rows := make([][]byte, len(keys))
	for i, key := range keys {
		rows[i] = AppendMetadataRow(nil, testID, key)
	}
	for _, prefix := range words(3) {
		start := AppendScanPrefix(nil, testID, prefix)
		end := Successor(start)
		for i, key := range keys {
			if got, want := in(rows[i], start, end), bytes.HasPrefix(key, prefix); got != want {
				t.Fatalf("row of %x in the scan of %x: %v, want %v", key, prefix, got, want)
			}
			for _, row := range [][]byte{rows[i], AppendDataRow(nil, testID, key, 300)} {
				if got, want := bytes.Compare(row, start) >= 0, bytes.Compare(key, prefix) >= 0; got != want {
					t.Fatalf("row of %x not below the bound of %x: %v, want %v", key, prefix, got, want)
				}
			}
		}
	}
}

func TestRangeHoldsTheKeysOfALayoutAndNoOthers(t *testing.T) {
	for _, l := range layouts {
		start, end := l.Range()
		from, to := l.Kind.Range()
		for _, v := range keyVectors {
			key := unhex(t, v.hex)
			if got, want := in(key, start, end), l.Has(key); got != want {
				t.Errorf("%s in the range of %s: %v", v.prints, l.prints, got)
			}
			if got, want := in(key, from, to), key[0] == byte(l.Kind); got != want {
				t.Errorf("%s in the range of %v: %v", v.prints, l.Kind, got)
			}
		}
		for _, c := range []struct{ key, start, end []byte }{{[]byte{byte(l.Kind), 0xFF, 0xFF}, from, to}, {append(l.lead(nil), 0xFF, 0xFF), start, end}} {
			if !in(c.key, c.start, c.end) {
				t.Errorf("the range of %s ends before %x", l.prints, c.key)
			}
		}
	}
	if start, end := Kind(0xFF).Range(); !bytes.Equal(start, []byte{0xFF}) || end != nil {
		t.Errorf("range of the last kind: [%x, %x)", start, end)
	}
}

// The range of tuples that begin with some elements excludes a last string that
// merely goes on with a 00 byte.
func TestTupleEndBoundsExactlyTheTuplesWithTheElements(t *testing.T) {
	pack := func(elements ...any) []byte {
		packed, err := tuple.Tuple(elements).Pack()
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	start := pack("a")
	end := TupleEnd(start)
	for _, inside := range [][]byte{pack("a"), pack("a", nil), pack("a", "b"), pack("a", 0), pack("a", tuple.Tuple{}), pack("a", tuple.Versionstamp{Transaction: [10]byte{255}})} {
		if !in(inside, start, end) {
			t.Errorf("%x is not in [%x, %x)", inside, start, end)
		}
	}
	for _, outside := range [][]byte{pack(), pack("A"), pack("a\x00"), pack("a\x00", 1), pack("a\x00b"), pack("ab"), pack("b"), pack([]byte("a")), pack(1)} {
		if in(outside, start, end) {
			t.Errorf("%x is in [%x, %x)", outside, start, end)
		}
	}
	if successor := Successor(start); !in(pack("a\x00b"), start, successor) {
		t.Error("Successor would do as well: the difference that TupleEnd documents is gone")
	}
}

func TestRangesInsideAKind(t *testing.T) {
	for name, c := range map[string]struct {
		start, end      []byte
		inside, outside [][]byte
	}{
		"workflow family": {
			start:   WorkflowName.lead(nil),
			end:     Successor(WorkflowName.lead(nil)),
			inside:  [][]byte{WorkflowName.Append(nil, 0), WorkflowName.Append(nil, 1<<32-1)},
			outside: [][]byte{WorkflowHistory.lead(nil), TraceChunk.lead(nil)},
		},
		"parts of a large value": {
			start:   WorkflowBlob.Append(nil, &WorkflowHash{}, 1),
			end:     TupleEnd(WorkflowBlob.Append(nil, &WorkflowHash{}, 0)),
			inside:  [][]byte{WorkflowBlob.Append(nil, &WorkflowHash{}, 1), WorkflowBlob.Append(nil, &WorkflowHash{}, 1<<32-1)},
			outside: [][]byte{WorkflowBlob.Append(nil, &WorkflowHash{}, 0), WorkflowBlob.Append(nil, &WorkflowHash{31: 1}, 1)},
		},
		"runs of a schedule": {
			start:   ScheduleRun.Prefix(nil, "nightly", ""),
			end:     TupleEnd(ScheduleRun.Prefix(nil, "nightly", "")),
			inside:  [][]byte{ScheduleRun.Append(nil, "nightly", "", 1), ScheduleRun.Append(nil, "nightly", "", 1<<63)},
			outside: [][]byte{ScheduleRun.Append(nil, "nightly", "\x00", 1), ScheduleRun.Append(nil, "night", "ly", 1)},
		},
		"dead letters of a queue": {
			start:   DeadLetter.Prefix(nil, "jobs"),
			end:     TupleEnd(DeadLetter.Prefix(nil, "jobs")),
			inside:  [][]byte{DeadLetter.Append(nil, "jobs", 0), DeadLetter.Append(nil, "jobs", 1<<63)},
			outside: [][]byte{DeadLetter.Append(nil, "jobs\x00", 1), DeadLetter.Append(nil, "job", 1)},
		},
		"sqlite pages": {
			start:   SQLiteChunk.Prefix(nil, SQLiteMain),
			end:     Successor(SQLiteChunk.Prefix(nil, SQLiteMain)),
			inside:  [][]byte{SQLiteChunk.Append(nil, SQLiteMain, 0), SQLiteChunk.Append(nil, SQLiteMain, 1<<32-1)},
			outside: [][]byte{SQLiteMetadata.Append(nil, SQLiteMain), SQLiteChunk.Append(nil, SQLiteJournal, 0)},
		},
		"alarms of a name": {
			start:   Alarm.Prefix(nil, "remind"),
			end:     TupleEnd(Alarm.Prefix(nil, "remind")),
			inside:  [][]byte{Alarm.Append(nil, "remind", ""), Alarm.Append(nil, "remind", "\xFF")},
			outside: [][]byte{Alarm.Append(nil, "remind\x00", ""), Alarm.Append(nil, "reminder", ""), Alarm.Append(nil, "remin", "")},
		},
		"keys expired before 2000": {
			start:   Expiry.lead(nil),
			end:     Expiry.Prefix(nil, 2000),
			inside:  [][]byte{Expiry.Append(nil, -1, []byte{1}), Expiry.Append(nil, 1999, []byte{0xFF})},
			outside: [][]byte{Expiry.Append(nil, 2000, []byte{0}), Expiry.Append(nil, 1<<40, []byte{1})},
		},
	} {
		for _, key := range c.inside {
			if !in(key, c.start, c.end) {
				t.Errorf("%s: %s is not in the range", name, Format(key))
			}
		}
		for _, key := range c.outside {
			if in(key, c.start, c.end) {
				t.Errorf("%s: %s is in the range", name, Format(key))
			}
		}
	}
}
