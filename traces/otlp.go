package traces

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// RuntimeScope is the name of the zero [Scope] in OTLP.
const RuntimeScope = "cairn"

// Resource is the source of spans. An exporter puts the spans of one *Resource into one message.
type Resource struct {
	Attributes []Attribute
}

// Group is the spans of one resource.
type Group struct {
	Resource *Resource // may be nil
	Spans    []Span
}

// Flags of OTLP spans and links, besides those of the W3C trace context.
const (
	flagSampled     = 0x001
	flagRemoteKnown = 0x100
	flagRemote      = 0x200
)

func otlpFlags(sampled, remote bool) uint32 {
	flags := uint32(flagRemoteKnown)
	if sampled {
		flags |= flagSampled
	}
	if remote {
		flags |= flagRemote
	}
	return flags
}

// otlpTime returns a time for OTLP, which has no times before 1970.
func otlpTime(ns int64) uint64 { return uint64(max(ns, 0)) }

func (s *Scope) otlpName() string {
	if s.isZero() {
		return RuntimeScope
	}
	return s.Name
}

// appendJSON appends the scope and the URL of its schema as members of an object.
func (s *Scope) appendJSON(dst []byte) []byte {
	dst = appendQuoted(append(dst, `"scope":{"name":`...), s.otlpName())
	if s.Version != "" {
		dst = appendQuoted(append(dst, `,"version":`...), s.Version)
	}
	if len(s.Attributes) > 0 {
		dst = appendAttributesJSON(append(dst, `,"attributes":`...), s.Attributes)
	}
	dst = append(dst, '}')
	if s.SchemaURL != "" {
		dst = appendQuoted(append(dst, `,"schemaUrl":`...), s.SchemaURL)
	}
	return dst
}

// byScope yields the spans of each scope, in the order in which scopes first appear.
func byScope(spans []Span, yield func(*Scope, []*Span) bool) {
	index := map[string]int{}
	var lists [][]*Span
	var key []byte
	for i := range spans {
		s := &spans[i]
		key = s.Scope.appendJSON(key[:0])
		n, ok := index[string(key)]
		if !ok {
			n = len(lists)
			index[string(key)], lists = n, append(lists, nil)
		}
		lists[n] = append(lists[n], s)
	}
	for _, list := range lists {
		if !yield(&list[0].Scope, list) {
			return
		}
	}
}

// AppendJSON appends groups as one OTLP document in JSON. An open span has no endTimeUnixNano.
func AppendJSON(dst []byte, groups ...Group) []byte {
	dst = append(dst, `{"resourceSpans":[`...)
	for i, g := range groups {
		dst = comma(dst, i)
		dst = append(dst, `{"resource":{"attributes":`...)
		var attributes []Attribute
		if g.Resource != nil {
			attributes = g.Resource.Attributes
		}
		dst = append(appendAttributesJSON(dst, attributes), `},"scopeSpans":[`...)
		n := 0
		for scope, spans := range func(yield func(*Scope, []*Span) bool) { byScope(g.Spans, yield) } {
			dst = comma(dst, n)
			n++
			dst = append(scope.appendJSON(append(dst, '{')), `,"spans":[`...)
			for j, s := range spans {
				dst = s.AppendJSON(comma(dst, j))
			}
			dst = append(dst, "]}"...)
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, "]}"...)
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// AppendJSON appends the span in OTLP's JSON form, without resource and scope.
func (s *Span) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"traceId":"`...)
	dst = hex.AppendEncode(dst, s.TraceID[:])
	dst = append(dst, `","spanId":"`...)
	dst = hex.AppendEncode(dst, s.SpanID[:])
	dst = append(dst, `","parentSpanId":"`...)
	if s.Parent != (SpanID{}) {
		dst = hex.AppendEncode(dst, s.Parent[:])
	}
	dst = strconv.AppendUint(append(dst, `","flags":`...), uint64(otlpFlags(s.Sampled, s.RemoteParent)), 10)
	dst = appendQuoted(append(dst, `,"name":`...), s.Name)
	dst = strconv.AppendUint(append(dst, `,"kind":`...), uint64(s.Kind), 10)
	dst = appendTimeJSON(append(dst, `,"startTimeUnixNano":`...), s.Start)
	if s.End != 0 {
		dst = appendTimeJSON(append(dst, `,"endTimeUnixNano":`...), max(s.End, 1))
	}
	dst = appendAttributesJSON(append(dst, `,"attributes":`...), s.Attributes)
	dst = appendCountJSON(dst, "droppedAttributesCount", s.DroppedAttributes)
	if len(s.Events) > 0 {
		dst = append(dst, `,"events":[`...)
		for i := range s.Events {
			e := &s.Events[i]
			dst = appendTimeJSON(append(comma(dst, i), `{"timeUnixNano":`...), e.Time)
			dst = appendQuoted(append(dst, `,"name":`...), e.Name)
			dst = appendAttributesJSON(append(dst, `,"attributes":`...), e.Attributes)
			dst = append(appendCountJSON(dst, "droppedAttributesCount", e.DroppedAttributes), '}')
		}
		dst = append(dst, ']')
	}
	dst = appendCountJSON(dst, "droppedEventsCount", s.DroppedEvents)
	if len(s.Links) > 0 {
		dst = append(dst, `,"links":[`...)
		for i := range s.Links {
			l := &s.Links[i]
			dst = hex.AppendEncode(append(comma(dst, i), `{"traceId":"`...), l.TraceID[:])
			dst = hex.AppendEncode(append(dst, `","spanId":"`...), l.SpanID[:])
			dst = appendAttributesJSON(append(dst, `","attributes":`...), l.Attributes)
			dst = appendCountJSON(dst, "droppedAttributesCount", l.DroppedAttributes)
			dst = strconv.AppendUint(append(dst, `,"flags":`...), uint64(otlpFlags(l.Sampled, l.Remote)), 10)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	dst = appendCountJSON(dst, "droppedLinksCount", s.DroppedLinks)
	dst = strconv.AppendUint(append(dst, `,"status":{"code":`...), uint64(s.Status), 10)
	if s.Message != "" {
		dst = appendQuoted(append(dst, `,"message":`...), s.Message)
	}
	return append(dst, "}}"...)
}

func appendTimeJSON(dst []byte, ns int64) []byte {
	return append(strconv.AppendUint(append(dst, '"'), otlpTime(ns), 10), '"')
}

func appendCountJSON(dst []byte, name string, n uint32) []byte {
	if n == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return strconv.AppendUint(dst, uint64(n), 10)
}

func appendAttributesJSON(dst []byte, list []Attribute) []byte {
	dst = append(dst, '[')
	for i := range list {
		dst = appendQuoted(append(comma(dst, i), `{"key":`...), list[i].Key)
		dst = append(list[i].Value.appendJSON(append(dst, `,"value":`...)), '}')
	}
	return append(dst, ']')
}

func (v Value) appendJSON(dst []byte) []byte {
	switch v.kind {
	case TypeString:
		dst = appendQuoted(append(dst, `{"stringValue":`...), v.text)
	case TypeInt:
		dst = append(strconv.AppendInt(append(dst, `{"intValue":"`...), v.Int(), 10), '"')
	case TypeFloat:
		dst = appendFloatJSON(append(dst, `{"doubleValue":`...), v.Float())
	case TypeBool:
		dst = strconv.AppendBool(append(dst, `{"boolValue":`...), v.Bool())
	case TypeBytes:
		dst = append(base64.StdEncoding.AppendEncode(append(dst, `{"bytesValue":"`...), []byte(v.text)), '"')
	case TypeList:
		dst = append(dst, `{"arrayValue":{"values":[`...)
		i := 0
		for e := range v.Elements {
			dst = e.appendJSON(comma(dst, i))
			i++
		}
		dst = append(dst, "]}"...)
	default:
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

func appendFloatJSON(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// appendQuoted appends a text as JSON. It escapes characters with a meaning in HTML and scripts,
// and replaces invalid UTF-8.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7F:
				dst = append(dst, `\u00`...)
				dst = append(dst, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
			default:
				dst = append(dst, c)
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch r {
		case utf8.RuneError:
			dst = append(dst, "\uFFFD"...)
		case '\u2028':
			dst = append(dst, `\u2028`...)
		case '\u2029':
			dst = append(dst, `\u2029`...)
		default:
			dst = append(dst, s[i:i+n]...)
		}
		i += n
	}
	return append(dst, '"')
}

// Protobuf returns groups as messages of OTLP, for collectors. Collectors do not accept open spans,
// so an open span ends at now and has the attribute span.partial.
func Protobuf(now int64, groups ...Group) []*tracepb.ResourceSpans {
	list := make([]*tracepb.ResourceSpans, len(groups))
	for i, g := range groups {
		m := &tracepb.ResourceSpans{Resource: &resourcepb.Resource{}}
		if g.Resource != nil {
			m.Resource.Attributes = otlpAttributes(g.Resource.Attributes)
		}
		for scope, spans := range func(yield func(*Scope, []*Span) bool) { byScope(g.Spans, yield) } {
			out := &tracepb.ScopeSpans{SchemaUrl: scope.SchemaURL,
				Scope: &commonpb.InstrumentationScope{Name: scope.otlpName(), Version: scope.Version,
					Attributes: otlpAttributes(scope.Attributes)}}
			out.Spans = make([]*tracepb.Span, len(spans))
			for j, s := range spans {
				out.Spans[j] = s.protobuf(now)
			}
			m.ScopeSpans = append(m.ScopeSpans, out)
		}
		list[i] = m
	}
	return list
}

// Ended returns groups whose open spans are ended as in [Protobuf].
func Ended(now int64, groups []Group) []Group {
	out := make([]Group, len(groups))
	for i, g := range groups {
		out[i] = Group{g.Resource, slices.Clone(g.Spans)}
		for j := range out[i].Spans {
			out[i].Spans[j].endAt(now)
		}
	}
	return out
}

// endAt ends an open span.
func (s *Span) endAt(now int64) {
	if s.End == 0 {
		s.End = now
		s.Attributes = append(slices.Clip(s.Attributes), Bool("span.partial", true))
	}
}

func (s *Span) protobuf(now int64) *tracepb.Span {
	copied := *s
	copied.endAt(now)
	s = &copied
	m := &tracepb.Span{
		TraceId: s.TraceID[:], SpanId: s.SpanID[:], Flags: otlpFlags(s.Sampled, s.RemoteParent),
		Name: s.Name, Kind: tracepb.Span_SpanKind(s.Kind), StartTimeUnixNano: otlpTime(s.Start), EndTimeUnixNano: otlpTime(max(s.End, 1)),
		Attributes:             otlpAttributes(s.Attributes),
		DroppedAttributesCount: s.DroppedAttributes, DroppedEventsCount: s.DroppedEvents, DroppedLinksCount: s.DroppedLinks,
		Status: &tracepb.Status{Code: tracepb.Status_StatusCode(s.Status), Message: s.Message},
	}
	if s.Parent != (SpanID{}) {
		m.ParentSpanId = s.Parent[:]
	}
	for i := range s.Events {
		e := &s.Events[i]
		m.Events = append(m.Events, &tracepb.Span_Event{Name: e.Name, TimeUnixNano: otlpTime(e.Time),
			Attributes: otlpAttributes(e.Attributes), DroppedAttributesCount: e.DroppedAttributes})
	}
	for i := range s.Links {
		l := &s.Links[i]
		m.Links = append(m.Links,
			&tracepb.Span_Link{TraceId: l.TraceID[:], SpanId: l.SpanID[:], Flags: otlpFlags(l.Sampled, l.Remote),
				Attributes: otlpAttributes(l.Attributes), DroppedAttributesCount: l.DroppedAttributes})
	}
	return m
}

func otlpAttributes(list []Attribute) []*commonpb.KeyValue {
	if len(list) == 0 {
		return nil
	}
	out := make([]*commonpb.KeyValue, len(list))
	for i := range list {
		out[i] = &commonpb.KeyValue{Key: list[i].Key, Value: list[i].Value.otlp()}
	}
	return out
}

func (v Value) otlp() *commonpb.AnyValue {
	switch v.kind {
	case TypeString:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v.text}}
	case TypeInt:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v.Int()}}
	case TypeFloat:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v.Float()}}
	case TypeBool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.Bool()}}
	case TypeBytes:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte(v.text)}}
	case TypeList:
		list := &commonpb.ArrayValue{}
		for e := range v.Elements {
			list.Values = append(list.Values, e.otlp())
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	}
	return &commonpb.AnyValue{}
}

// Size returns the approximate bytes of a span as OTLP in protobuf.
func (s *Span) Size() int {
	n := 80 + min(len(s.Name), MaxString) + min(len(s.Message), MaxString) + attributesSize(s.Attributes) +
		min(len(s.Scope.Name), MaxString) + min(len(s.Scope.Version),
		MaxString) + min(len(s.Scope.SchemaURL), MaxString) + attributesSize(s.Scope.Attributes)
	for i := range s.Events {
		n += 16 + len(s.Events[i].Name) + attributesSize(s.Events[i].Attributes)
	}
	for i := range s.Links {
		n += 36 + attributesSize(s.Links[i].Attributes)
	}
	return n
}

func attributesSize(list []Attribute) (n int) {
	for i := range list {
		n += 12 + min(len(list[i].Key), MaxString) + min(len(list[i].Value.text), MaxString)
	}
	return n
}
