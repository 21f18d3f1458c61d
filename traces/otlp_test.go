package traces

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// groups are spans of two resources, with everything.
func groups() []Group {
	child := made(3, hour0+10, hour0+20)
	child.Parent = full.SpanID
	ok := made(4, -5, 5)
	ok.Status, ok.Sampled = OK, false
	open := made(5, hour0, 0)
	r := &Resource{Attributes: []Attribute{String("service.name", "shop"), String("cairn.actor.key", "a/b")}}
	scoped := made(7, hour0, hour0+7)
	scoped.Scope = wholeScope
	return []Group{{r, []Span{child, full, ok, scoped}}, {nil, []Span{open}}, {r, nil}}
}

// TestOTLPDocument holds the document to what was reviewed against the rules of OTLP. runtime/bench decodes it with the
// collector's own decoder.
func TestOTLPDocument(t *testing.T) {
	var b bytes.Buffer
	if err := json.Indent(&b, AppendJSON(nil, groups()...), "", "  "); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	const file = "testdata/otlp.json"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	must(t, err)
	errorIf(t, b.String() != string(want), "the document is\n%s", b.String())
}

func TestFloatsWithoutANumberAreTexts(t *testing.T) {
	for f, want := range map[float64]string{math.Inf(-1): "-Infinity", math.NaN(): "NaN"} {
		if got := string(Float("", f).Value.appendJSON(nil)); got != `{"doubleValue":"`+want+`"}` {
			t.Error(got)
		}
	}
}

// TestProtobufSaysTheSame decodes both forms and compares them.
func TestProtobufSaysTheSame(t *testing.T) {
	const now = hour0 + minute
	in := groups()
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: Protobuf(now, in...)})
	must(t, err)
	var got, want tracepb.TracesData
	if err := proto.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	// protojson reads the ids as base64; hexadecimal digits are valid base64, of other bytes.
	open := &in[1].Spans[0]
	open.End, open.Attributes = now, []Attribute{Bool("span.partial", true)}
	if err := (protojson.UnmarshalOptions{}).Unmarshal(AppendJSON(nil, in...), &want); err != nil {
		t.Fatal(err)
	}
	for _, data := range []*tracepb.TracesData{&got, &want} {
		for _, r := range data.ResourceSpans {
			for _, scope := range r.ScopeSpans {
				for _, s := range scope.Spans {
					s.TraceId, s.SpanId, s.ParentSpanId = nil, nil, nil
					for _, l := range s.Links {
						l.TraceId, l.SpanId = nil, nil
					}
				}
			}
		}
	}
	if !proto.Equal(&got, &want) {
		t.Errorf("as protobuf\n%s\nas JSON\n%s", protojson.Format(&got), protojson.Format(&want))
	}
}

func TestHostileTextIsNoMarkup(t *testing.T) {
	s := made(1, hour0, hour0+1)
	s.Name = "</script><b>\u2028\u2029&\x00\x7f\"\\\xff日"
	doc := AppendJSON(nil, Group{Spans: []Span{s}})
	errorIf(t, bytes.ContainsAny(doc, "<>&\x00\x7f\u2028\u2029") || !json.Valid(doc), "the document is %s", doc)
	var out struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []struct{ Name string } }
		}
	}
	if err := json.Unmarshal(doc, &out); err != nil || out.ResourceSpans[0].ScopeSpans[0].Spans[0].Name != strings.ToValidUTF8(s.Name, "\uFFFD") {
		t.Errorf("the name is %+v (%v)", out, err)
	}
}

// TestSizeCountsTheScope: queues and tails are bounded by the sizes of their spans.
func TestSizeCountsTheScope(t *testing.T) {
	plain := made(1, hour0, hour0+1)
	s := plain
	s.Scope = Scope{Name: strings.Repeat("n", 100), Version: strings.Repeat("v", 200), SchemaURL: strings.Repeat("u", 2*MaxString)}
	if got, want := s.Size(), plain.Size()+300+MaxString; got != want {
		t.Errorf("the size is %d, want %d", got, want)
	}
}
