package replay

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// plainStep is the example of docs/keyspace.md.
const plainStep = "02 00 | 00 | 02 | 00 | 00 | 01 | 80 d0 95 ff bc 31 | 03 | 00 | 02 18 2a"

var (
	day       = time.UnixMilli(1_700_000_000_000).UTC()
	largeHash = keyspace.WorkflowHash(bytes.Repeat([]byte{0xAB}, 32))
)

var entryVectors = []struct {
	what  string
	entry Entry
	hex   string
}{
	{"plain step", Entry{Kind: KindStep, Status: Completed, Seq: 1, Created: day, Ended: day.Add(3 * time.Millisecond), Output: []byte{0x18, 0x2a}}, plainStep},
	{"void step", Entry{Kind: KindStep, Status: Completed, Ordinal: 1, Seq: 2, Created: day, Ended: day, Output: cborNull}, "02 00 00 02 00 01 02 80d095ffbc31 00 00 01 f6"},
	{"sleep", Entry{Kind: KindSleep, Created: day, Deadline: day.Add(time.Second)}, "02 00 02 00 05 00 00 80d095ffbc31 00 00 e8d795ffbc31"},
	{"failed step with metadata", Entry{Kind: KindStep, Status: Exhausted, Seq: 300, Created: day, Ended: day, ID: 7, Failure: &Failure{Message: "no", Reason: "exhausted"}},
		"02 00 00 04 0b 00 ac02 80d095ffbc31 00 00 07 0c 02 6e6f 09 657868617573746564"},
	{"failure in full", Entry{Status: Failed, Failure: &Failure{Type: "t", Code: "c", Message: "m", Reason: "r", Data: []byte{1}}}, "02 00 00 03 09 00 00 00 00 00 1f 01 74 01 63 01 6d 01 72 01 01"},
	{"failure with metadata", Entry{Status: Failed, Failure: &Failure{Metadata: map[string]string{"b": "2", "a": ""}}}, "02 00 00 03 09 00 00 00 00 00 20 02 01 61 00 01 62 01 32"},
	{"failure with an own text", Entry{Status: Failed, Failure: &Failure{Code: "c", Message: "m", Own: "o"}}, "02 00 00 03 09 00 00 00 00 00 46 01 63 01 6d 01 6f"},
	{"loop that goes on", Entry{Kind: KindLoop, Seq: 9, Created: day, Ended: day.Add(time.Millisecond), Iteration: 20, State: []byte{0xa0}, Ordinal: 2},
		"02 00 01 00 e1 80 02 02 09 80d095ffbc31 01 00 14 01 a0"},
	{"race", Entry{Kind: KindRace, Status: Completed, Output: []byte{1}, Winner: "fast", Branches: []uint32{10, 12}, Sensitive: true}, "02 00 06 02 90 82 01 00 00 00 00 00 01 01 04 66617374 02 0a 0c"},
	{"receive", Entry{Kind: KindReceive, Status: Completed, Queues: []string{"q"}, Messages: []Delivery{{Queue: "q", ID: 5, Body: []byte{0xf5}, Sent: day, WantReply: true}, {Queue: "q"}}},
		"02 00 09 02 81 0c 00 00 00 00 00 01 01 71 02 01 01 71 05 80d095ffbc31 01 f5 02 01 71 00 00"},
	{"version", Entry{Kind: KindVersion, Status: Completed, Resolved: 1, Latest: 3}, "02 00 08 02 81 10 00 00 00 00 00 01 03"},
	{"spawn", Entry{Kind: KindSpawn, Child: Destination{Type: "ship", Key: []string{"a", "b"}}, Program: "p", OnClose: 2}, "02 00 0e 00 81 20 00 00 00 00 00 04 73686970 02 01 61 01 62 01 70 02"},
	{"foreach", Entry{Kind: KindForEach, Count: 300}, "02 00 0a 00 81 40 00 00 00 00 00 ac02"},
	{"custom codec, large", Entry{Kind: KindStep, Status: Completed, Codec: 1, Large: []journal.LargeRef{{Payload: journal.PayloadOutput, Size: 70000, Hash: largeHash}}}, "02 00 00 02 80 01 00 00 00 00 01 e1 c5 08" + strings.Repeat("ab", 32)},
	{"everything", Entry{
		Kind: KindSpawn, Status: Failed, Ordinal: 70000, Seq: 1 << 60, Codec: 2, Created: day, Ended: day.Add(-time.Second), ID: 1 << 31, Output: []byte{1},
		Failure:  &Failure{Type: "t", Code: "c", Message: "m", Reason: "r", Data: []byte{1}, Metadata: map[string]string{"k": "v"}, Own: "o"},
		Deadline: day.Add(time.Hour), Sensitive: true, Iteration: 300, State: []byte{2}, Winner: "w", Queues: []string{"q", ""}, Messages: []Delivery{{Queue: "q", ID: 1 << 63, Body: []byte{3}}},
		Resolved: 1 << 31, Latest: 1 << 30, Child: Destination{Type: "c", Key: []string{"k"}}, Program: "p", OnClose: 1, Count: 7, Branches: []uint32{1 << 31, 0},
	}, "02000e03fefe01f0a20480808080808080801080d095ffbc3198f8ffffffffffffff01020101808080800880adf180bd317f01740163016d0172010101016b0176016fac020102017702017100010001718080808080808080800100010380808080088080808004016301016b0170010702808080800800"},
}

func TestEntriesAreTheDocumentedBytes(t *testing.T) {
	for _, v := range entryVectors {
		got, err := journal.AppendEntry(nil, &v.entry)
		if err != nil || !bytes.Equal(got, unhex(t, v.hex)) {
			t.Errorf("%s: %x (%v), want %s", v.what, got, err, v.hex)
			continue
		}
		back, err := decodeEntry(nil, got)
		if v.entry.Status.Over() && v.entry.Ended.IsZero() {
			v.entry.Ended = back.Ended
		}
		errorIf(t, err != nil || !reflect.DeepEqual(back, v.entry), "%s comes back as %+v (%v)", v.what, back, err)
		p, ok := journal.PeekEntry(got)
		if !ok || p.Status != back.Status || p.Ordinal != back.Ordinal || p.Seq != back.Seq || (p.Flags&journal.FlagID != 0) != (back.ID != 0) {
			t.Errorf("%s peeks as %+v, %v", v.what, p, ok)
		}
		for n := range got {
			if _, err := decodeEntry(nil, got[:n]); err == nil {
				t.Errorf("%s: %d bytes of %d are accepted", v.what, n, len(got))
			}
		}
		if _, err := decodeEntry(nil, append(slices.Clone(got), 0)); err == nil {
			t.Errorf("%s: a byte after the end is accepted", v.what)
		}
	}
}

func TestMetadataIsTheDocumentedBytes(t *testing.T) {
	for _, v := range []struct {
		what     string
		metadata Metadata
		hex      string
	}{
		{"nothing", Metadata{}, "02 00 00"},
		{"a retry", Metadata{Attempts: 2, LastAttempt: time.UnixMilli(1).UTC(), Due: time.UnixMilli(300).UTC(), Failure: &Failure{Message: "no"}}, "02 00 0f 02 01 ac02 04 02 6e6f"},
		{"progress", Metadata{Progress: []byte{}}, "02 00 10 00"},
		{"undone", Metadata{Undone: time.UnixMilli(5).UTC(), UndoFailure: &Failure{Code: "x"}}, "02 00 60 05 02 01 78"},
	} {
		got := journal.AppendMetadata(nil, &v.metadata)
		errorIf(t, !bytes.Equal(got, unhex(t, v.hex)), "%s: %x, want %s", v.what, got, v.hex)
		if back, err := decodeMetadata(nil, got); err != nil || !reflect.DeepEqual(back, v.metadata) {
			t.Errorf("%s comes back as %+v (%v)", v.what, back, err)
		}
		for n := range got {
			if _, err := decodeMetadata(nil, got[:n]); err == nil {
				t.Errorf("%s: %d bytes of %d are accepted", v.what, n, len(got))
			}
		}
	}
}

func TestEntriesThatAreNone(t *testing.T) {
	for what, v := range map[string]struct {
		hex   string
		newer bool
	}{
		"nothing":               {"", false},
		"half a form":           {"02", false},
		"form 0":                {"00 00 00", false},
		"form 3":                {"03 00 00 02", true},
		"form 258":              {"02 01 00 02", true},
		"kind 16":               {"02 00 10 02 00 00 01 00 00 00 00", true},
		"status 7":              {"02 00 00 07 00 00 01 00 00 00 00", true},
		"flag 17":               {"02 00 00 02 80 80 08 00 01 00 00 00 00", true},
		"flag of a failure":     {"02 00 00 03 09 00 00 00 00 00 80", true},
		"no metadata":           {"02 00 00 03 09 00 00 00 00 00 20 00", false},
		"metadata twice":        {"02 00 00 03 09 00 00 00 00 00 20 02 01 61 00 01 61 00", false},
		"flag of a message":     {"02 00 09 02 81 08 00 00 00 00 00 01 04 01 71 00 00", true},
		"leading zero":          {"02 00 00 02 00 80 00 01 00 00 00 01 f6", false},
		"ordinal of 33 bits":    {"02 00 00 02 00 80 80 80 80 10 01 00 00 00 01 f6", false},
		"65 bits":               {"02 00 00 02 00 00 ff ff ff ff ff ff ff ff ff 7f 00 00 00 01 f6", false},
		"id zero":               {"02 00 00 02 03 00 00 00 00 00 00", false},
		"iteration zero":        {"02 00 00 02 21 00 00 00 00 00 00", false},
		"no winner":             {"02 00 00 02 81 02 00 00 00 00 00 00", false},
		"no queues":             {"02 00 00 02 81 04 00 00 00 00 00 00", false},
		"no messages":           {"02 00 00 02 81 08 00 00 00 00 00 00", false},
		"more queues than room": {"02 00 00 02 81 04 00 00 00 00 00 ff ff ff 7f 01 71", false},
		"large without any":     {"02 00 00 02 81 01 00 00 00 00 00", false},
		"ended twice":           {"02 00 00 02 81 80 02 00 00 00 05 00", false},
		"pending with duration": {"02 00 00 00 01 00 00 00 05 00", false},
		"output without end":    {"02 00 00 02 00 00 00 00 00 00 ff ff ff ff ff ff ff ff ff 01 00", false},
		"empty text of failure": {"02 00 00 03 09 00 00 00 00 00 01 00", false},
	} {
		_, err := decodeEntry([]byte("\x07\x15\x02\x14"), unhex(t, v.hex))
		var bad *CorruptError
		errorIf(t, !errors.As(err, &bad) || errors.Is(err, ErrNewer) != v.newer, "%s: %v", what, err)
		if err != nil && !strings.Contains(err.Error(), "workflow/history[0]") {
			t.Errorf("%s: the error does not say which row: %v", what, err)
		}
	}
	if _, err := decodeMetadata(nil, unhex(t, "02 00 80")); !errors.Is(err, ErrNewer) {
		t.Errorf("unknown flag of metadata: %v", err)
	}
	if _, err := decodeMetadata(nil, unhex(t, "02 00 01 00")); err == nil {
		t.Error("no attempts, but flagged")
	}
	if _, err := journal.AppendEntry(nil, &Entry{Kind: 16}); err == nil {
		t.Error("an unknown kind is written")
	}
}

// Whatever is decoded without an error is encoded to the same bytes: an entry has one encoding.
func FuzzDecodeEntry(f *testing.F) {
	for _, v := range entryVectors {
		f.Add(unhex(f, v.hex))
	}
	f.Add(unhex(f, form1Head+"01 00 00000000 | 00 | 01 02 18 2a | 00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(nil, b)
		p, ok := journal.PeekEntry(b)
		if err != nil {
			var bad *CorruptError
			fatalIf(t, !errors.As(err, &bad), "%x: %v", b, err)
			return
		}
		if b[0] == journal.Form1 {
			// It is written in form 2 from then on, and that keeps all of it.
			if b, err = journal.AppendEntry(nil, &e); err != nil {
				t.Fatal(err)
			}
			again, err := decodeEntry(nil, b)
			fatalIf(t, err != nil, "%+v: %v", e, err)
			e = again
		} else if !ok || p.Ordinal != e.Ordinal || p.Seq != e.Seq || p.Status != e.Status {
			t.Fatalf("%x peeks as %+v", b, p)
		}
		again, err := journal.AppendEntry(nil, &e)
		fatalIf(t, err != nil || !bytes.Equal(again, b), "%x decodes to %+v, which encodes to %x (%v)", b, e, again, err)
	})
}

func FuzzDecodeMetadata(f *testing.F) {
	f.Add(unhex(f, "02 00 0f 02 01 ac02 04 02 6e6f"))
	f.Add(unhex(f, form1Metadata))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMetadata(nil, b)
		if err != nil {
			return
		}
		if again := journal.AppendMetadata(nil, &m); b[0] == journal.Form2 && !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, m, again)
		}
	})
}

func TestAPlainStepAllocatesNothing(t *testing.T) {
	e := Entry{Kind: KindStep, Status: Completed, Seq: 1, Created: at(0), Ended: at(3), Output: []byte{0x18, 0x2a}}
	buf := make([]byte, 0, 64)
	var back Entry
	if n := testing.AllocsPerRun(100, func() {
		buf, _ = journal.AppendEntry(buf[:0], &e)
		must(t, journal.DecodeEntry(&back, buf))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTimesAtTheEdges(t *testing.T) {
	for _, ms := range []int64{0, -1, -62135596800000, 1, math.MaxInt32, 1 << 50} {
		e := Entry{Kind: KindStep, Status: Completed, Created: time.UnixMilli(ms), Ended: time.UnixMilli(ms + 7), Output: cborNull}
		b, err := journal.AppendEntry(nil, &e)
		must(t, err)
		back, err := decodeEntry(nil, b)
		if err != nil || !back.Ended.Equal(e.Ended) || journal.Millis(back.Created) != journal.Millis(e.Created) {
			t.Errorf("%d comes back as %v, %v (%v)", ms, back.Created, back.Ended, err)
		}
	}
}

func BenchmarkAppendEntry(b *testing.B) {
	e := Entry{Kind: KindStep, Status: Completed, Seq: 1, Created: at(0), Ended: at(3), Output: []byte{0x18, 0x2a}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = journal.AppendEntry(buf[:0], &e)
	}
}

func BenchmarkDecodeEntry(b *testing.B) {
	value := unhex(b, plainStep)
	var e Entry
	b.ReportAllocs()
	for b.Loop() {
		e = Entry{}
		must(b, journal.DecodeEntry(&e, value))
	}
}
