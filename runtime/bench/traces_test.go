package main

import (
	"math"
	"testing"

	"github.com/cairn-run/cairn/traces"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestCollectorsDecodeSpans decodes both forms of OTLP with the decoder of the OpenTelemetry
// collector.
func TestCollectorsDecodeSpans(t *testing.T) {
	const start, end = int64(1771891200000000005), int64(1771891200001000005)
	span := traces.Span{
		TraceID: traces.TraceID{1, 2, 3, 15: 9}, SpanID: traces.SpanID{1, 7: 2}, Parent: traces.SpanID{5,
			7: 5}, RemoteParent: true, Sampled: true,
		Kind: traces.Consumer, Status: traces.Error, Message: "refused <b>", Name: "charge \u2028", Start: start, End: end,
		Scope: traces.Scope{Name: "shop", Version: "v1", SchemaURL: "https://example.com/1",
			Attributes: []traces.Attribute{traces.Int("n", 1)}},
		Attributes: []traces.Attribute{traces.String("text", "a\"b\\"), traces.Int("int", math.MinInt64),
			traces.Float("float", 0.1), traces.Float("inf", math.Inf(-1)),
			traces.Bool("bool", true), traces.Bytes("bytes", []byte{0, 255}), traces.List("list",
				traces.Int("", 1).Value, traces.String("", "x").Value), {Key: "none"}},
		Events: []traces.Event{{Name: "log", Time: start + 1,
			Attributes: []traces.Attribute{traces.String("level", "info")}, DroppedAttributes: 4}},
		Links: []traces.Link{{TraceID: traces.TraceID{4}, SpanID: traces.SpanID{5}, Sampled: true, Remote: true,
			Attributes: []traces.Attribute{traces.Int("n", 1)}, DroppedAttributes: 5}},
		DroppedAttributes: 1, DroppedEvents: 2, DroppedLinks: 3,
	}
	root := traces.Span{TraceID: span.TraceID, SpanID: span.Parent, Kind: traces.Server, Status: traces.OK,
		Name: "root", Start: start, End: end}
	group := traces.Group{Resource: &traces.Resource{Attributes: []traces.Attribute{traces.String("service.name",
		"shop")}}, Spans: []traces.Span{root, span}}

	binary, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: traces.Protobuf(0, group)})
	if err != nil {
		t.Fatal(err)
	}
	fromBinary, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(binary)
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := (&ptrace.JSONUnmarshaler{DisallowUnknownFields: true}).UnmarshalTraces(traces.AppendJSON(nil, group))
	if err != nil {
		t.Fatal(err)
	}
	for form, data := range map[string]ptrace.Traces{"protobuf": fromBinary, "JSON": fromJSON} {
		r := data.ResourceSpans().At(0)
		if name, _ := r.Resource().Attributes().Get("service.name"); name.Str() != "shop" || r.ScopeSpans().Len() != 2 {
			t.Errorf("%s: the resource is %v, with %d scopes", form, r.Resource().Attributes().AsRaw(), r.ScopeSpans().Len())
		}
		first := r.ScopeSpans().At(0).Spans().At(0)
		if !first.ParentSpanID().IsEmpty() || first.Status().Code() != ptrace.StatusCodeOk ||
			first.Kind() != ptrace.SpanKindServer || first.Flags() != 0x100 {
			t.Errorf("%s: the root has parent %v, status %v, kind %v, flags %x", form, first.ParentSpanID(),
				first.Status(), first.Kind(), first.Flags())
		}
		scope := r.ScopeSpans().At(1)
		s := scope.Spans().At(0)
		check := func(what string, got, want any) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s is %v, want %v", form, what, got, want)
			}
		}
		check("scope", scope.Scope().Name()+" "+scope.Scope().Version()+" "+scope.SchemaUrl(), "shop v1 https://example.com/1")
		check("attributes of the scope", scope.Scope().Attributes().Len(), 1)
		check("trace", s.TraceID(), pcommon.TraceID(span.TraceID))
		check("span", s.SpanID(), pcommon.SpanID(span.SpanID))
		check("parent", s.ParentSpanID(), pcommon.SpanID(span.Parent))
		check("flags", s.Flags(), uint32(0x301))
		check("name", s.Name(), span.Name)
		check("kind", s.Kind(), ptrace.SpanKindConsumer)
		check("start", s.StartTimestamp(), pcommon.Timestamp(start))
		check("end", s.EndTimestamp(), pcommon.Timestamp(end))
		check("status", s.Status().Code(), ptrace.StatusCodeError)
		check("message", s.Status().Message(), span.Message)
		check("dropped", [3]uint32{s.DroppedAttributesCount(), s.DroppedEventsCount(), s.DroppedLinksCount()}, [3]uint32{1, 2, 3})

		value := func(key string) pcommon.Value {
			v, ok := s.Attributes().Get(key)
			if !ok {
				t.Fatalf("%s: there is no attribute %q", form, key)
			}
			return v
		}
		check("text", value("text").Str(), "a\"b\\")
		check("int", value("int").Int(), int64(math.MinInt64))
		check("float", value("float").Double(), 0.1)
		check("inf", value("inf").Double(), math.Inf(-1))
		check("bool", value("bool").Bool(), true)
		check("bytes", string(value("bytes").Bytes().AsRaw()), "\x00\xff")
		check("list", value("list").Slice().Len(), 2)
		check("element", value("list").Slice().At(0).Int(), int64(1))
		check("none", value("none").Type(), pcommon.ValueTypeEmpty)

		e := s.Events().At(0)
		level, _ := e.Attributes().Get("level")
		check("event", [2]string{e.Name(), level.Str()}, [2]string{"log", "info"})
		check("time of the event", e.Timestamp(), pcommon.Timestamp(start+1))
		check("dropped of the event", e.DroppedAttributesCount(), uint32(4))
		l := s.Links().At(0)
		check("trace of the link", l.TraceID(), pcommon.TraceID{4})
		check("span of the link", l.SpanID(), pcommon.SpanID{5})
		check("flags of the link", l.Flags(), uint32(0x301))
		check("dropped of the link", l.DroppedAttributesCount(), uint32(5))
	}
}
