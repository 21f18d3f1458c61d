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
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the document is\n%s", b.String())
	}
}

func TestOTLPRules(t *testing.T) {
	doc := string(AppendJSON(nil, groups()...))
	for what, want := range map[string]string{
		"hexadecimal ids":        `"traceId":"01020300000000000000000000000009","spanId":"0100000000000002","parentSpanId":"0500000000000005"`,
		"no parent":              `"parentSpanId":""`,
		"integers as strings":    `"intValue":"9223372036854775807"`,
		"times as strings":       `"startTimeUnixNano":"1771891200000000005","endTimeUnixNano":"1771891200001000005"`,
		"times before 1970":      `"startTimeUnixNano":"0","endTimeUnixNano":"5"`,
		"doubles as numbers":     `{"doubleValue":1.25}`,
		"infinity as a string":   `{"doubleValue":"Infinity"}`,
		"bytes as base64":        `{"bytesValue":"AP8="}`,
		"error is 2":             `"status":{"code":2,"message":"the card was refused"}`,
		"ok is 1":                `"status":{"code":1}`,
		"kinds as numbers":       `"kind":5`,
		"flags, remote parent":   `"flags":769`,
		"flags, local parent":    `"flags":257`,
		"flags, not sampled":     `"flags":256`,
		"scope":                  `{"scope":{"name":"shop","version":"v1.2.3"},"spans":[`,
		"schema of a scope":      `"schemaUrl":"https://example.com/schemas/1","spans":[`,
		"attributes of a scope":  `"version":"v1.2.3","attributes":[{"key":"team",`,
		"scope of the runtime":   `{"scope":{"name":"cairn"},"spans":[`,
		"open spans have no end": `"startTimeUnixNano":"1771891200000000000","attributes":[]`,
		"no value":               `{"key":"nothing","value":{}}`,
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("%s: the document has no %s", what, want)
		}
	}
	if got := string(Value{kind: TypeFloat, bits: math.Float64bits(math.NaN())}.appendJSON(nil)); got != `{"doubleValue":"NaN"}` {
		t.Error(got)
	}
	if got := string(Float("", math.Inf(-1)).Value.appendJSON(nil)); got != `{"doubleValue":"-Infinity"}` {
		t.Error(got)
	}
}

// TestProtobufSaysTheSame decodes both forms and compares them.
func TestProtobufSaysTheSame(t *testing.T) {
	const now = hour0 + minute
	in := groups()
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: Protobuf(now, in...)})
	if err != nil {
		t.Fatal(err)
	}
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
	if bytes.ContainsAny(doc, "<>&\x00\x7f\u2028\u2029") || !json.Valid(doc) {
		t.Errorf("the document is %s", doc)
	}
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
