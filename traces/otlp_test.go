package traces

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// groups are spans of two resources, with all members set.
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

// TestOTLPDocument compares the document with one that was reviewed against the rules of OTLP.
// runtime/bench decodes it with the collector's own decoder.
func TestOTLPDocument(t *testing.T) {
	var b bytes.Buffer
	must(t, json.Indent(&b, AppendJSON(nil, groups()...), "", "  "))
	b.WriteByte('\n')
	golden(t, "otlp.json", b.Bytes())
}

func TestFloatsWithoutANumberAreTexts(t *testing.T) {
	for f, want := range map[float64]string{math.Inf(-1): "-Infinity", math.NaN(): "NaN"} {
		got := string(Float("", f).Value.appendJSON(nil))
		errorIf(t, got != `{"doubleValue":"`+want+`"}`, "%v", got)
	}
}

// TestProtobufSaysTheSame decodes both forms and compares them.
func TestProtobufSaysTheSame(t *testing.T) {
	const now = hour0 + minute
	in := groups()
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: Protobuf(now, in...)})
	must(t, err)
	var got, want tracepb.TracesData
	must(t, proto.Unmarshal(b, &got))
	// protojson reads the ids as base64; hexadecimal digits are valid base64, of other bytes.
	open := &in[1].Spans[0]
	open.End, open.Attributes = now, []Attribute{Bool("span.partial", true)}
	must(t, (protojson.UnmarshalOptions{}).Unmarshal(AppendJSON(nil, in...), &want))
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
	got, err := ParseJSON(doc)
	must(t, err)
	errorIf(t, got[0].Spans[0].Name != strings.ToValidUTF8(s.Name, "\uFFFD"), "the name is %q", got[0].Spans[0].Name)
}

// TestSizeCountsTheScope: the sizes of spans bound queues and tails.
func TestSizeCountsTheScope(t *testing.T) {
	plain := made(1, hour0, hour0+1)
	s := plain
	s.Scope = Scope{Name: strings.Repeat("n", 100), Version: strings.Repeat("v", 200), SchemaURL: strings.Repeat("u", 2*MaxString)}
	got, want := s.Size(), plain.Size()+300+MaxString
	errorIf(t, got != want, "the size is %d, want %d", got, want)
}
