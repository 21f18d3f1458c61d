package traces

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cairn-run/cairn/keyspace"
)

var update = flag.Bool("update", false, "write testdata")

// golden compares bytes with a file.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if file = "testdata/" + file; *update {
		must(t, os.WriteFile(file, got, 0o666))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	errorIf(t, !bytes.Equal(got, want), "%s should be\n%q\nand is\n%q", file, got, want)
}

// decodeChunk returns all spans of a chunk.
func decodeChunk(t testing.TB, h header, body string) []Span {
	t.Helper()
	list, err := decodeAll(h, body)
	must(t, err)
	return list
}

func decodeAll(h header, body string) (list []Span, err error) {
	c, err := openChunk(h, body)
	if err != nil {
		return nil, err
	}
	records := c.records()
	var r record
	for records.next(&r) {
		s, _, err := c.span(&r)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, records.err()
}

// encode returns a chunk of spans, as a flush writes it.
func encode(t testing.TB, spans ...Span) []byte {
	t.Helper()
	var e encoder
	e.reset(0)
	for i := range spans {
		fatalIf(t, !shrink(&e, spans[i], 0), "span %d has no room", i)
	}
	c := e.seal()
	c.stamp(7, hour0+minute, 3)
	return c.bytes
}

// full is a span with all members set.
var full = Span{
	TraceID: TraceID{1, 2, 3, 15: 9}, SpanID: SpanID{1, 7: 2}, Parent: SpanID{5, 7: 5}, RemoteParent: true, Sampled: true,
	Kind: Consumer, Status: Error, Message: "the card was refused", Name: "charge", Start: hour0 + 5, End: hour0 + 1_000_005,
	Scope: Scope{Name: "shop", Version: "v1.2.3"},
	Attributes: []Attribute{
		String("text", "abc"), String("empty", ""), String("long", strings.Repeat("x", 300)), Int("int", -5), Int("max", math.MaxInt64),
		Float("float", 1.25), Float("inf", math.Inf(1)), Bool("yes", true), Bool("no", false), Bytes("bytes", []byte{0, 255}),
		List("texts", String("", "a").Value, String("", "é").Value), List("mixed", Int("", 1).Value,
			Float("", 2.5).Value, Bool("", true).Value, Bytes("", []byte{1}).Value, Value{}),
		List("none"), {Key: "nothing"},
	},
	Events: []Event{{Name: "log", Time: hour0 + 7, Attributes: []Attribute{String("level", "info")},
		DroppedAttributes: 1}, {Name: "before", Time: hour0 - 7}},
	Links: []Link{{TraceID: TraceID{4}, SpanID: SpanID{5}, Sampled: true, Remote: true,
		Attributes: []Attribute{Int("n", 1)}, DroppedAttributes: 2},
		{TraceID: TraceID{6}, SpanID: SpanID{7}}},
	DroppedAttributes: 1, DroppedEvents: 2, DroppedLinks: 3,
}

// wholeScope is a scope with all members set.
var wholeScope = Scope{Name: "shop", Version: "v1.2.3", SchemaURL: "https://example.com/schemas/1",
	Attributes: []Attribute{String("team", "<pay>"), Int("n", 1)}}

func TestSpansRoundTrip(t *testing.T) {
	child := made(3, hour0+10, hour0+20)
	child.TraceID, child.Parent = full.TraceID, full.SpanID
	backwards := made(4, hour0+10, hour0-20)
	open := made(5, hour0+10, 0)
	open.Partial = true
	ancient := made(6, math.MinInt64, math.MaxInt64)
	scoped := made(7, hour0+10, hour0+20)
	scoped.Scope = wholeScope
	want := []Span{child, full, backwards, open, ancient, {TraceID: TraceID{1}, SpanID: SpanID{1}, End: 1}, scoped}
	b := encode(t, want...)
	h, err := parseHeader(b)
	must(t, err)
	if want := (header{incarnation: 7, written: hour0 + minute, first: math.MinInt64, last: math.MaxInt64, count: 7,
		partials: 1, dropped: 3, texts: h.texts}); h != want {
		t.Errorf("the header is %+v, want %+v", h, want)
	}
	got := decodeChunk(t, h, string(b[headerBytes:]))
	for i := range want {
		errorIf(t, !reflect.DeepEqual(got[i], want[i]), "span %d is\n%+v, want\n%+v", i, got[i], want[i])
	}
}

// TestStoredFormatsAreKept compares the formats with stored bytes.
func TestStoredFormatsAreKept(t *testing.T) {
	child := made(3, hour0+10, hour0+20)
	child.TraceID, child.Parent = full.TraceID, full.SpanID
	spans := []Span{child, full}
	b := encode(t, spans...)
	golden(t, "chunk-1.bin", b)
	h, err := parseHeader(b)
	must(t, err)
	got := decodeChunk(t, h, string(b[headerBytes:]))
	errorIf(t, !reflect.DeepEqual(got, spans), "the spans are %+v", got)

	totals := totals{bucket: hour0 / second, bytes: 1, chunks: 2, next: 3, first: -4, last: 5}
	const row = "01" + "0000000000000001" + "0000000000000002" + "0000000000000003" + "fffffffffffffffc" + "0000000000000005"
	if got := hex.EncodeToString(totals.append(nil)); got != row {
		t.Errorf("the totals are %s, want %s", got, row)
	}
	if got, ok := parseTotals(keyspace.TraceBucket.Append(nil, totals.bucket), totals.append(nil)); !ok || got != totals {
		t.Errorf("the totals are %+v", got)
	}
}

// TestChunksKeepTheirLimitWithTheirTexts is defect 8 of the reference: its sizes do not include the
// table of texts.
func TestChunksKeepTheirLimitWithTheirTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := NewBuffer(Options{Incarnation: 1})
	store := newRows()
	want := 0
	for i := range 3000 {
		s := made(i+1, hour0, hour0+1)
		for n := range random.IntN(20) {
			s.Attributes = append(s.Attributes, String(fmt.Sprintf("key %d of span %d", n, i), strings.Repeat("v", random.IntN(120))))
		}
		want++
		b.Add(s)
		flushFull(t, b, store, hour0+minute)
	}
	flush(t, b, store, hour0+minute)
	spans, largest := 0, 0
	for k, v := range store.m {
		if len(v) == totalsBytes {
			continue
		}
		errorIf(t, len(v) > MaxChunk, "%q has %d bytes", k, len(v))
		largest = max(largest, len(v))
		h, _ := parseHeader(v)
		spans += len(decodeChunk(t, h, string(v[headerBytes:])))
	}
	if spans != want || largest < MaxChunk*9/10 {
		t.Errorf("%d spans are stored, want %d; the largest chunk has %d bytes", spans, want, largest)
	}
}

func TestHostileSpansAreCut(t *testing.T) {
	long := strings.Repeat("é", MaxString)
	s := made(1, hour0, hour0+1)
	s.Name, s.Message, s.Scope.Name = "\xff\xfename", long, long
	for i := range 500 {
		s.Attributes = append(s.Attributes, String(fmt.Sprint(i)+"\xc3", long))
		e := Event{Name: long, Time: hour0}
		for range 200 {
			e.Attributes = append(e.Attributes, String(long, long))
		}
		s.Events = append(s.Events, e)
		s.Links = append(s.Links, Link{TraceID: TraceID{1}, SpanID: SpanID{1}, Attributes: e.Attributes})
	}
	s.Scope.Attributes = s.Attributes
	b := encode(t, s)
	fatalIf(t, len(b) > MaxChunk, "the chunk has %d bytes", len(b))
	h, _ := parseHeader(b)
	got := decodeChunk(t, h, string(b[headerBytes:]))[0]
	if got.Name != "\uFFFDname" || len(got.Message) != MaxString || !utf8.ValidString(got.Message) {
		t.Errorf("the name is %q, the message has %d bytes", got.Name, len(got.Message))
	}
	if len(got.Attributes)+int(got.DroppedAttributes) != 500 || len(got.Events)+int(got.DroppedEvents) != 500 ||
		len(got.Links)+int(got.DroppedLinks) != 500 {
		t.Errorf("%d+%d attributes, %d+%d events, %d+%d links", len(got.Attributes), got.DroppedAttributes,
			len(got.Events), got.DroppedEvents, len(got.Links), got.DroppedLinks)
	}
	for _, a := range got.Attributes {
		if !utf8.ValidString(a.Key) || !utf8.ValidString(a.Value.Text()) || len(a.Value.Text()) > MaxString {
			t.Errorf("attribute %q has %d bytes", a.Key, len(a.Value.Text()))
		}
	}
}

func TestListsKeepTheirLimit(t *testing.T) {
	var values []Value
	for range 1000 {
		values = append(values, String("", "0123456789").Value)
	}
	values = append(values, List("", Int("", 1).Value).Value)
	n := 0
	for v := range List("k", values...).Value.Elements {
		fatalIf(t, v.Text() != "0123456789", "%v", v)
		n++
	}
	errorIf(t, n == 0 || n*10 > MaxString, "the list has %d elements", n)
	if v := List("k", List("", Int("", 1).Value).Value, Int("", 2).Value).Value; len(v.text) != 2 {
		t.Errorf("a list in a list is kept: %q", v.text)
	}
}

// FuzzChunk decodes hostile chunks.
func FuzzChunk(f *testing.F) {
	child := made(3, hour0+10, hour0+20)
	child.TraceID, child.Parent = full.TraceID, full.SpanID
	f.Add(encode(f, child, full))
	f.Add(encode(f, workload(3, hour0, 1000)...))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		spans, err := decodeAll(h, string(b[headerBytes:]))
		fatalIf(t, len(spans) > len(b), "%d spans of %d bytes", len(spans), len(b))
		if err != nil || len(spans) == 0 {
			return
		}
		// Decoded spans can be written as OTLP, and encoded again.
		AppendJSON(nil, Group{Spans: spans})
		Protobuf(1, Group{Spans: spans})
		var e encoder
		e.reset(0)
		for i := range spans {
			s := spans[i]
			if s.End == 0 && !s.Partial {
				s.End = 1
				spans[i].End = 1
			}
			if !e.add(&s, 0) {
				return
			}
		}
		c := e.seal()
		again := decodeChunk(t, c.header, string(c.bytes[headerBytes:]))
		if a, b := AppendJSON(nil, Group{Spans: again}), AppendJSON(nil, Group{Spans: spans}); !bytes.Equal(a, b) {
			t.Errorf("the spans become\n%s, want\n%s", a, b)
		}
	})
}
