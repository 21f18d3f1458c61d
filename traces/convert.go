package traces

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
)

func fromEvent(name string, at time.Time, attributes []attribute.KeyValue, dropped int) Event {
	e := Event{Name: clean(name), Time: at.UnixNano(), DroppedAttributes: uint32(dropped)}
	e.Attributes = fromAttributes(head(attributes, MaxAttributes, &e.DroppedAttributes))
	return e
}

func fromLink(c trace.SpanContext, attributes []attribute.KeyValue, dropped int) Link {
	l := Link{TraceID: TraceID(c.TraceID()), SpanID: SpanID(c.SpanID()), Sampled: c.IsSampled(),
		Remote: c.IsRemote(), DroppedAttributes: uint32(dropped)}
	l.Attributes = fromAttributes(head(attributes, MaxAttributes, &l.DroppedAttributes))
	return l
}

// fromCode converts a status: OpenTelemetry's Go API and OTLP number Error and OK in opposite
// order.
func fromCode(c codes.Code) Status {
	switch c {
	case codes.Ok:
		return OK
	case codes.Error:
		return Error
	}
	return Unset
}

func fromAttributes(list []attribute.KeyValue) []Attribute {
	if len(list) == 0 {
		return nil
	}
	out := make([]Attribute, len(list))
	for i := range list {
		out[i] = fromAttribute(string(list[i].Key), list[i].Value)
	}
	return out
}

// fromAttribute converts an attribute, and cleans its texts. A map, and a list that contains lists,
// become texts.
func fromAttribute(key string, v attribute.Value) Attribute {
	key = clean(key)
	switch v.Type() {
	case attribute.EMPTY:
		return Attribute{Key: key}
	case attribute.BOOL:
		return Bool(key, v.AsBool())
	case attribute.INT64:
		return Int(key, v.AsInt64())
	case attribute.FLOAT64:
		return Float(key, v.AsFloat64())
	case attribute.STRING:
		return String(key, clean(v.AsString()))
	case attribute.BYTESLICE:
		return Bytes(key, v.AsByteSlice())
	case attribute.BOOLSLICE:
		return list(key, v.AsBoolSlice(), Bool)
	case attribute.INT64SLICE:
		return list(key, v.AsInt64Slice(), Int)
	case attribute.FLOAT64SLICE:
		return list(key, v.AsFloat64Slice(), Float)
	case attribute.STRINGSLICE:
		return list(key, v.AsStringSlice(), String)
	}
	return String(key, clean(unique(v).String()))
}

// unique returns a value with only the last value of each key in its maps.
func unique(v attribute.Value) attribute.Value {
	switch v.Type() {
	case attribute.SLICE:
		list := v.AsSlice()
		for i := range list {
			list[i] = unique(list[i])
		}
		return attribute.SliceValue(list...)
	case attribute.MAP:
		set := attribute.NewSet(v.AsMap()...)
		list := set.ToSlice()
		for i := range list {
			list[i].Value = unique(list[i].Value)
		}
		return attribute.MapValue(list...)
	}
	return v
}

func list[T any](key string, elements []T, make1 func(string, T) Attribute) Attribute {
	values := make([]Value, 0, min(len(elements), MaxString))
	for _, e := range elements[:cap(values)] {
		values = append(values, make1("", e).Value)
	}
	return List(key, values...)
}

// EnvironmentAttributes returns the attributes of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME,
// for resources. It replaces text that is not UTF-8: a collector would refuse the whole request.
func EnvironmentAttributes(ctx context.Context) ([]Attribute, error) {
	r, err := resource.New(ctx, resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return cloneAttributes(fromAttributes(r.Attributes()), new(uint32)), nil
}
