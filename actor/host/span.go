package host

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"time"
)

// A Span identifies an operation in a trace, as in W3C Trace Context
// (https://www.w3.org/TR/trace-context/). The zero Span is none.
type Span struct {
	Trace [16]byte
	ID    [8]byte
	Flags byte
}

// spanSize is the length of a traceparent of version 00.
const spanSize = 55

// sampled is the one flag of a traceparent of version 00.
const sampled = 1

// ParseSpan reads a traceparent of version 00, or of a later one that begins alike. Anything else
// is the zero Span.
func ParseSpan(traceparent string) (s Span) {
	p := traceparent
	if len(p) < spanSize || len(p) > 4*spanSize || p[2] != '-' || p[35] != '-' || p[52] != '-' || p[:2] == "ff" ||
		len(p) > spanSize && (p[:2] == "00" || p[spanSize] != '-') {
		return Span{}
	}
	var version, flags [1]byte
	if !unhex(version[:], p[:2]) || !unhex(s.Trace[:], p[3:35]) || !unhex(s.ID[:], p[36:52]) ||
		!unhex(flags[:], p[53:55]) ||
		s.Trace == [16]byte{} || s.ID == [8]byte{} {
		return Span{}
	}
	s.Flags = flags[0] & sampled // a sender must clear the bits that it does not know
	return s
}

// unhex reads lower-case hexadecimal digits.
func unhex(dst []byte, s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 'A' && c <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}

// IsZero reports whether s is no span.
func (s Span) IsZero() bool { return s.ID == [8]byte{} }

// Sampled reports whether the trace is recorded.
func (s Span) Sampled() bool { return s.Flags&sampled != 0 }

// Child returns a new span with the trace and the flags of s. If s is zero, the span begins a new
// trace.
func (s Span) Child() Span {
	if s.IsZero() {
		binary.NativeEndian.PutUint64(s.Trace[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(s.Trace[8:], rand.Uint64()|1) // not zero
	}
	binary.NativeEndian.PutUint64(s.ID[:], rand.Uint64()|1)
	return s
}

// String returns the traceparent for operations that the span causes, and "" for the zero Span. It
// is also the value of traceresponse.
func (s Span) String() string {
	if s.IsZero() {
		return ""
	}
	b := append(make([]byte, 0, spanSize), "00-"...)
	b = append(hex.AppendEncode(b, s.Trace[:]), '-')
	b = append(hex.AppendEncode(b, s.ID[:]), '-')
	return string(hex.AppendEncode(b, []byte{s.Flags}))
}

// Attrs returns the log attributes of the span, with the names of OpenTelemetry; none for the zero
// Span.
func (s Span) Attrs() []slog.Attr {
	if s.IsZero() {
		return nil
	}
	return []slog.Attr{slog.String("trace_id", hex.EncodeToString(s.Trace[:])),
		slog.String("span_id", hex.EncodeToString(s.ID[:]))}
}

type spanKey struct{}

// WithSpan returns a context for operations that a span causes.
func WithSpan(ctx context.Context, s Span) context.Context {
	return context.WithValue(ctx, spanKey{}, s)
}

// SpanOf returns the span of a context; the zero Span if it has none.
func SpanOf(ctx context.Context) Span {
	s, _ := ctx.Value(spanKey{}).(Span)
	return s
}

// A Tracer is a Node that records requests from outside.
type Tracer interface {
	// BeginRequest returns the span of a client's request for an actor of a type. cause is the span
	// of the client, or the zero Span. The result is not sampled if too many clients ask for
	// recording.
	BeginRequest(typ string, cause Span) Span
	// EndRequest records a finished request, if it is sampled. kind is http, websocket or nats. The
	// actor need not exist.
	EndRequest(a Address, kind, name string, s, cause Span, began time.Time, err error)
}

// Untraced, in place of a span, marks an operation that is not recorded. This is decided once,
// where the operation begins.
var Untraced = Span{Flags: 0x80}

// Decided reports whether it was decided to record the operation or not.
func (s Span) Decided() bool { return !s.IsZero() || s.Flags != 0 }
