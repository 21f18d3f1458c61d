package traces

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// ParseTraceID parses a trace id in hexadecimal. It returns false if the id is invalid.
func ParseTraceID(s string) (id TraceID, ok bool) {
	if len(s) != 2*len(id) {
		return TraceID{}, false
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return TraceID{}, false
	}
	return id, id != TraceID{}
}

// The documents of OTLP in JSON.
type (
	jsonDocument struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []jsonAttribute }
			ScopeSpans []struct {
				Scope struct {
					Name, Version string
					Attributes    []jsonAttribute
				}
				SchemaURL string
				Spans     []jsonSpan
			}
		}
	}
	jsonSpan struct {
		TraceID, SpanID, ParentSpanID         string
		Flags                                 uint32
		Name                                  string
		Kind                                  uint8
		StartTimeUnixNano, EndTimeUnixNano    jsonInt
		Attributes                            []jsonAttribute
		DroppedAttributesCount                uint32
		Events                                []jsonEvent
		DroppedEventsCount, DroppedLinksCount uint32
		Links                                 []jsonLink
		Status                                struct {
			Code    uint8
			Message string
		}
	}
	jsonEvent struct {
		TimeUnixNano           jsonInt
		Name                   string
		Attributes             []jsonAttribute
		DroppedAttributesCount uint32
	}
	jsonLink struct {
		TraceID, SpanID        string
		Flags                  uint32
		Attributes             []jsonAttribute
		DroppedAttributesCount uint32
	}
	jsonAttribute struct {
		Key   string
		Value jsonValue
	}
	jsonValue struct {
		StringValue *string
		IntValue    *jsonInt
		DoubleValue *jsonFloat
		BoolValue   *bool
		BytesValue  []byte
		ArrayValue  *struct{ Values []jsonValue }
	}
)

// jsonInt is an integer of 64 bits, which is a text in OTLP.
type jsonInt int64

// UnmarshalJSON reads a number, or a text with one.
func (n *jsonInt) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseInt(unquoted(b), 10, 64)
	*n = jsonInt(v)
	return err
}

// jsonFloat is a floating-point number, which may be a text such as "NaN".
type jsonFloat float64

// UnmarshalJSON reads a number, or a text with one.
func (f *jsonFloat) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(unquoted(b), 64)
	if math.IsInf(v, 0) && errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	*f = jsonFloat(v)
	return err
}

func unquoted(b []byte) string {
	if len(b) >= 2 && b[0] == '"' {
		b = b[1 : len(b)-1]
	}
	return string(b)
}

// ParseJSON returns the groups of a document that [AppendJSON] wrote. It ignores unknown members.
func ParseJSON(b []byte) ([]Group, error) {
	var doc jsonDocument
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	groups := make([]Group, len(doc.ResourceSpans))
	for i, r := range doc.ResourceSpans {
		groups[i].Resource = &Resource{parseAttributes(r.Resource.Attributes)}
		for _, scoped := range r.ScopeSpans {
			scope := Scope{scoped.Scope.Name, scoped.Scope.Version, scoped.SchemaURL,
				parseAttributes(scoped.Scope.Attributes)}
			if scope.Name == RuntimeScope && scope.Version == "" && scope.SchemaURL == "" &&
				len(scope.Attributes) == 0 {
				scope = Scope{}
			}
			for j := range scoped.Spans {
				s, err := scoped.Spans[j].span()
				if err != nil {
					return nil, err
				}
				s.Scope = scope
				groups[i].Spans = append(groups[i].Spans, s)
			}
		}
	}
	return groups, nil
}

func (j *jsonSpan) span() (s Span, err error) {
	s = Span{
		Name: j.Name, Kind: Kind(j.Kind), Status: Status(j.Status.Code), Message: j.Status.Message,
		Start: int64(j.StartTimeUnixNano), End: int64(j.EndTimeUnixNano), Partial: j.EndTimeUnixNano == 0,
		Sampled: j.Flags&flagSampled != 0, RemoteParent: j.Flags&flagRemote != 0,
		Attributes: parseAttributes(j.Attributes), DroppedAttributes: j.DroppedAttributesCount,
		DroppedEvents: j.DroppedEventsCount, DroppedLinks: j.DroppedLinksCount,
	}
	if s.Kind > Consumer || s.Status > Error {
		return Span{}, fmt.Errorf("traces: span %q has kind %d and status %d", j.SpanID, j.Kind, j.Status.Code)
	}
	err = parseIDs(&s.TraceID, j.TraceID, &s.SpanID, j.SpanID)
	if err == nil && j.ParentSpanID != "" {
		err = parseIDs(nil, "", &s.Parent, j.ParentSpanID)
	}
	for i := range j.Events {
		e := &j.Events[i]
		s.Events = append(s.Events,
			Event{Name: e.Name, Time: int64(e.TimeUnixNano),
				Attributes: parseAttributes(e.Attributes), DroppedAttributes: e.DroppedAttributesCount})
	}
	for i := range j.Links {
		l := &j.Links[i]
		out := Link{Sampled: l.Flags&flagSampled != 0, Remote: l.Flags&flagRemote != 0,
			Attributes: parseAttributes(l.Attributes), DroppedAttributes: l.DroppedAttributesCount}
		err = errors.Join(err, parseIDs(&out.TraceID, l.TraceID, &out.SpanID, l.SpanID))
		s.Links = append(s.Links, out)
	}
	return s, err
}

// parseIDs parses ids in hexadecimal. trace may be nil.
func parseIDs(trace *TraceID, traceText string, span *SpanID, spanText string) error {
	if trace != nil {
		if len(traceText) != 2*len(trace) {
			return fmt.Errorf("traces: trace id %q is not of 16 bytes", traceText)
		}
		if _, err := hex.Decode(trace[:], []byte(traceText)); err != nil {
			return fmt.Errorf("traces: trace id %q: %w", traceText, err)
		}
	}
	if len(spanText) != 2*len(span) {
		return fmt.Errorf("traces: span id %q is not of 8 bytes", spanText)
	}
	if _, err := hex.Decode(span[:], []byte(spanText)); err != nil {
		return fmt.Errorf("traces: span id %q: %w", spanText, err)
	}
	return nil
}

func parseAttributes(in []jsonAttribute) []Attribute {
	if len(in) == 0 {
		return nil
	}
	out := make([]Attribute, len(in))
	for i := range in {
		out[i] = Attribute{in[i].Key, in[i].Value.value()}
	}
	return out
}

func (j *jsonValue) value() Value {
	switch {
	case j.StringValue != nil:
		return String("", *j.StringValue).Value
	case j.IntValue != nil:
		return Int("", int64(*j.IntValue)).Value
	case j.DoubleValue != nil:
		return Float("", float64(*j.DoubleValue)).Value
	case j.BoolValue != nil:
		return Bool("", *j.BoolValue).Value
	case j.BytesValue != nil:
		return Bytes("", j.BytesValue).Value
	case j.ArrayValue != nil:
		values := make([]Value, len(j.ArrayValue.Values))
		for i := range values {
			values[i] = j.ArrayValue.Values[i].value()
		}
		return List("", values...).Value
	}
	return Value{}
}
