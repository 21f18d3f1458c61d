package replay

import (
	"bytes"
	"errors"
	"fmt"
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
	{"plain step", Entry{Kind: KindStep, Status: Completed, Seq: 1, Created: day, Ended: day.Add(3 * time.Millisecond),
		Output: []byte{0x18, 0x2a}}, plainStep},
	{"sleep", Entry{Kind: KindSleep, Created: day, Deadline: day.Add(time.Second)}, "02 00 02 00 05 00 00 80d095ffbc31 00 00 e8d795ffbc31"},
	{"failure in full", Entry{Status: Failed,
		Failure: &Failure{Type: "t", Code: "c", Message: "m", Reason: "r", Data: []byte{1}}},
		"02 00 00 03 09 00 00 00 00 00 1f 01 74 01 63 01 6d 01 72 01 01"},
	{"loop that goes on",
		Entry{Kind: KindLoop, Seq: 9, Created: day, Ended: day.Add(time.Millisecond), Iteration: 20, State: []byte{0xa0}, Ordinal: 2},
		"02 00 01 00 e1 80 02 02 09 80d095ffbc31 01 00 14 01 a0"},
	{"receive", Entry{Kind: KindReceive, Status: Completed, Queues: []string{"q"},
		Messages: []Delivery{{Queue: "q", ID: 5, Body: []byte{0xf5}, Sent: day, WantReply: true}, {Queue: "q"}}},
		"02 00 09 02 81 0c 00 00 00 00 00 01 01 71 02 01 01 71 05 80d095ffbc31 01 f5 02 01 71 00 00"},
	{"spawn", Entry{Kind: KindSpawn, Child: Destination{Type: "ship", Key: []string{"a", "b"}}, Program: "p",
		OnClose: 2}, "02 00 0e 00 81 20 00 00 00 00 00 04 73686970 02 01 61 01 62 01 70 02"},
	{"custom codec, large",
		Entry{Kind: KindStep, Status: Completed, Codec: 1,
			Large: []journal.LargeRef{{Payload: journal.PayloadOutput, Size: 70000, Hash: largeHash}}},
		"02 00 00 02 80 01 00 00 00 00 01 e1 c5 08" + strings.Repeat("ab", 32)},
	{"everything", Entry{
		Kind: KindSpawn, Status: Failed, Ordinal: 70000, Seq: 1 << 60, Codec: 2, Created: day, Ended: day.Add(-time.Second), ID: 1 << 31, Output: []byte{1},
		Failure: &Failure{Type: "t", Code: "c", Message: "m", Reason: "r", Data: []byte{1},
			Metadata: map[string]string{"k": "v"}, Own: "o"},
		Deadline: day.Add(time.Hour), Sensitive: true, Iteration: 300, State: []byte{2}, Winner: "w", Queues: []string{"q", ""}, Messages: []Delivery{{Queue: "q", ID: 1 << 63, Body: []byte{3}}},
		Resolved: 1 << 31, Latest: 1 << 30, Child: Destination{Type: "c",
			Key: []string{"k"}}, Program: "p", OnClose: 1, Count: 7, Branches: []uint32{1 << 31, 0},
	}, "02000e03fefe01f0a20480808080808080801080d095ffbc3198f8ffffffffffffff01020101808080800880adf180bd317f01740163016d0172010101016b0176016fac020102017702017100010001718080808080808080800100010380808080088080808004016301016b0170010702808080800800"},
}

func TestEntriesAreTheDocumentedBytes(t *testing.T) {
	for _, v := range entryVectors {
		got, err := journal.AppendEntry(nil, &v.entry)
		fatalIf(t, err != nil || !bytes.Equal(got, unhex(t, v.hex)), "%s: %x (%v), want %s", v.what, got, err, v.hex)
		back, err := decodeEntry(nil, got)
		if v.entry.Status.Over() && v.entry.Ended.IsZero() {
			v.entry.Ended = back.Ended
		}
		errorIf(t, err != nil || !reflect.DeepEqual(back, v.entry), "%s comes back as %+v (%v)", v.what, back, err)
		p, ok := journal.PeekEntry(got)
		if !ok || p.Status != back.Status || p.Ordinal != back.Ordinal || p.Seq != back.Seq ||
			(p.Flags&journal.FlagID != 0) != (back.ID != 0) {
			t.Errorf("%s peeks as %+v, %v", v.what, p, ok)
		}
		for n := range got {
			_, err := decodeEntry(nil, got[:n])
			errorIf(t, err == nil, "%s: %d bytes of %d are accepted", v.what, n, len(got))
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
		{"a retry", Metadata{Attempts: 2, LastAttempt: time.UnixMilli(1).UTC(), Due: time.UnixMilli(300).UTC(),
			Failure: &Failure{Message: "no"}}, "02 00 0f 02 01 ac02 04 02 6e6f"},
		{"progress", Metadata{Progress: []byte{}}, "02 00 10 00"},
		{"undone", Metadata{Undone: time.UnixMilli(5).UTC(), UndoFailure: &Failure{Code: "x"}}, "02 00 60 05 02 01 78"},
		{"ended in a pause", Metadata{Attempts: 1, Held: &Held{Status: Completed, Output: []byte{0xF6}}}, "02 00 81 01 02 00 01 f6"},
		{"failed in a pause", Metadata{Held: &Held{Status: Failed, Doubt: true, Failure: &Failure{Code: "x"}}}, "02 00 80 03 03 02 01 78"},
	} {
		got := journal.AppendMetadata(nil, &v.metadata)
		errorIf(t, !bytes.Equal(got, unhex(t, v.hex)), "%s: %x, want %s", v.what, got, v.hex)
		back, err := decodeMetadata(nil, got)
		errorIf(t, err != nil || !reflect.DeepEqual(back, v.metadata), "%s comes back as %+v (%v)", v.what, back, err)
		for n := range got {
			_, err := decodeMetadata(nil, got[:n])
			errorIf(t, err == nil, "%s: %d bytes of %d are accepted", v.what, n, len(got))
		}
	}
}

// noEntries are bytes that must be refused.
var noEntries = []struct {
	what, hex string
	newer     bool
}{
	{"nothing", "", false},
	{"half a form", "02", false},
	{"form 0", "00 00 00", false},
	{"form 258", "02 01 00 02", true},
	{"kind 16", "02 00 10 02 00 00 01 00 00 00 00", true},
	{"status 7", "02 00 00 07 00 00 01 00 00 00 00", true},
	{"flag 17", "02 00 00 02 80 80 08 00 01 00 00 00 00", true},
	{"flag of a failure", "02 00 00 03 09 00 00 00 00 00 80", true},
	{"metadata of a failure twice", "02 00 00 03 09 00 00 00 00 00 20 02 01 61 00 01 61 00", false},
	{"flag of a message", "02 00 09 02 81 08 00 00 00 00 00 01 04 01 71 00 00", true},
	{"leading zero", "02 00 00 02 00 80 00 01 00 00 00 01 f6", false},
	{"ordinal of 33 bits", "02 00 00 02 00 80 80 80 80 10 01 00 00 00 01 f6", false},
	{"65 bits", "02 00 00 02 00 00 ff ff ff ff ff ff ff ff ff 7f 00 00 00 01 f6", false},
	{"iteration zero", "02 00 00 02 21 00 00 00 00 00 00", false},
	{"no messages", "02 00 00 02 81 08 00 00 00 00 00 00", false},
	{"more queues than room", "02 00 00 02 81 04 00 00 00 00 00 ff ff ff 7f 01 71", false},
	{"large without any", "02 00 00 02 81 01 00 00 00 00 00", false},
	{"pending with duration", "02 00 00 00 01 00 00 00 05 00", false},
	{"output without end", "02 00 00 02 00 00 00 00 00 00 ff ff ff ff ff ff ff ff ff 01 00", false},
}

func TestEntriesThatAreNone(t *testing.T) {
	for _, v := range noEntries {
		_, err := decodeEntry([]byte("\x07\x15\x02\x14"), unhex(t, v.hex))
		var bad *CorruptError
		if !errors.As(err, &bad) || errors.Is(err, ErrNewer) != v.newer || !strings.Contains(err.Error(), "workflow/history[0]") {
			t.Errorf("%s: %v", v.what, err)
		}
	}
	_, err := decodeMetadata(nil, unhex(t, "02 00 80 00 00 00"))
	errorIf(t, err == nil, "a step has ended as pending")
	_, err = decodeMetadata(nil, unhex(t, "02 00 01 00"))
	errorIf(t, err == nil, "no attempts, but flagged")
	_, err = journal.AppendEntry(nil, &Entry{Kind: 16})
	errorIf(t, err == nil, "an unknown kind is written")
}

// Decoded values are encoded to the same bytes: an entry has one encoding.
func FuzzDecodeEntry(f *testing.F) {
	for _, v := range entryVectors {
		f.Add(unhex(f, v.hex))
	}
	for _, v := range noEntries {
		f.Add(unhex(f, v.hex))
	}
	for _, v := range newForm1Run(f).All() { // not all of them are entries
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(nil, b)
		p, ok := journal.PeekEntry(b)
		if err != nil {
			var bad *CorruptError
			fatalIf(t, !errors.As(err, &bad), "%x: %v", b, err)
			return
		}
		if b[0] == journal.Form1 {
			// It is then written in form 2, which keeps all of it.
			b, err = journal.AppendEntry(nil, &e)
			must(t, err)
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
	for _, v := range newForm1Run(f).All() { // not all of them are metadata
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMetadata(nil, b)
		if err != nil {
			return
		}
		again := journal.AppendMetadata(nil, &m)
		fatalIf(t, b[0] == journal.Form2 && !bytes.Equal(again, b), "%x decodes to %+v, which encodes to %x", b, m, again)
	})
}

// Invalid letters are refused.
func FuzzDeliver(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0xA0})
	valid, err := rowEncoding.Marshal(&letter{Verb: verbResult, Child: make([]byte, 16), Parent: make([]byte, 16), Status: 200})
	must(f, err)
	f.Add(valid)
	f.Fuzz(func(t *testing.T, body []byte) {
		turn := &testTurn{rows: newRows(), now: at(0)}
		_ = Deliver(turn, func(string) *Program { return nil }, body)
		_ = Undeliverable(turn, &Outgoing{Body: body}, errors.New("full"))
	})
}

// Invalid rows of obligations and of the inbox are errors.
func FuzzRows(f *testing.F) {
	j, place := newRows(), journal.Location{0x14}
	must(f, putObligation(j, &obligation{
		Number: 1, Entry: place, Handler: "h", Args: []byte{1}, Attempts: 2, Due: at(5), Failure: &Failure{Message: "m"},
	}))
	must(f, putMessage(j, &message{number: 1, location: place, status: Completed, output: []byte{0xF6}}))
	for _, v := range j.All() {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if o, err := decodeObligation(numbered{1, value}); err == nil {
			must(t, putObligation(newRows(), o))
		}
		if m, err := decodeMessage(numbered{1, value}); err == nil {
			fatalIf(t, m.status > journal.StatusLast, "status %d", m.status)
		}
	})
}

// wordyError is an error of the user with more metadata than is stored.
type wordyError struct{ metadata map[string]string }

func (e *wordyError) Error() string                    { return "wordy" }
func (e *wordyError) ErrorCode() string                { return "conflict" }
func (e *wordyError) ErrorMetadata() map[string]string { return e.metadata }

func TestMetadataOfAnErrorIsStoredWithinBounds(t *testing.T) {
	e := &wordyError{map[string]string{"": "x", "long": strings.Repeat("x", maxMetadataValue+1),
		strings.Repeat("k", maxMetadataKey+1): "x"}}
	for i := range 2 * maxMetadata {
		e.metadata[fmt.Sprint("key ", i)] = "v"
	}
	f := new(Program).failureOf(fmt.Errorf("around it: %w", e))
	if len(f.Metadata) != maxMetadata || f.Metadata["long"] != "" || f.Code != "conflict" || f.Own != "wordy" ||
		f.Message != "around it: wordy" {
		t.Errorf("%+v", f)
	}
	e.metadata["key 0"] = "changed"
	errorIf(t, f.Metadata["key 0"] == "changed", "the metadata is the user's own")
	f = new(Program).failureOf(e)
	errorIf(t, f.Own != "", "an error that stands alone has the text %q besides", f.Own)
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
