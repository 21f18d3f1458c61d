package traces

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of one span. Longer values and lists are cut or dropped; the span counts dropped parts.
const (
	MaxString     = 4 << 10 // bytes of a name, a key or a value
	MaxAttributes = 128     // attributes of a span, an event or a link
	MaxEvents     = 128     // events of a span
	MaxLinks      = 128     // links of a span
)

// TraceID identifies a trace. The zero id is invalid.
type TraceID [16]byte

// String returns the id in hexadecimal.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// NewTraceID returns a random id.
func NewTraceID() (id TraceID) {
	for id == (TraceID{}) {
		putID(id[:8], rand.Uint64())
		putID(id[8:], rand.Uint64())
	}
	return id
}

// SpanID identifies a span. The zero id is invalid: a root has it as its parent.
type SpanID [8]byte

// String returns the id in hexadecimal.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// NewSpanID returns a random id.
func NewSpanID() (id SpanID) {
	for id == (SpanID{}) {
		putID(id[:], rand.Uint64())
	}
	return id
}

func putID(b []byte, n uint64) { binary.LittleEndian.PutUint64(b, n) }

// Kind is the role of a span, with the numbers of OTLP.
type Kind uint8

// The kinds of spans.
const (
	Unspecified Kind = iota
	Internal
	Server
	Client
	Producer
	Consumer
)

// Status is the result of a span, with the numbers of OTLP. The numbers of OpenTelemetry's Go API
// differ.
type Status uint8

// The results of spans.
const (
	Unset Status = iota
	OK
	Error
)

// Scope names the code that made a span. The zero Scope is the runtime itself.
type Scope struct {
	Name       string
	Version    string
	SchemaURL  string
	Attributes []Attribute
}

func (s *Scope) isZero() bool {
	return s.Name == "" && s.Version == "" && s.SchemaURL == "" && len(s.Attributes) == 0
}

// Span is one timed operation. Zero members are unset.
type Span struct {
	TraceID      TraceID
	SpanID       SpanID
	Parent       SpanID // zero for the root of a trace
	RemoteParent bool   // the parent is a span of another actor or process
	Sampled      bool   // the flag of the W3C trace context
	Partial      bool   // the record of a span that was open at that time
	Kind         Kind
	Status       Status
	Message      string // of the status
	Name         string
	Start        int64 // Unix ns
	End          int64 // Unix ns; 0 while the span is open
	Scope        Scope
	Attributes   []Attribute
	Events       []Event
	Links        []Link

	DroppedAttributes uint32
	DroppedEvents     uint32
	DroppedLinks      uint32
}

// Event is a moment of a span.
type Event struct {
	Name              string
	Time              int64 // Unix ns
	Attributes        []Attribute
	DroppedAttributes uint32
}

// Link refers to another span.
type Link struct {
	TraceID           TraceID
	SpanID            SpanID
	Sampled           bool
	Remote            bool
	Attributes        []Attribute
	DroppedAttributes uint32
}

// identity identifies a span.
type identity struct {
	trace TraceID
	span  SpanID
}

func (s *Span) identity() identity { return identity{s.TraceID, s.SpanID} }

// Snapshot implements [Live], for an open span that does not change before its end.
func (s *Span) Snapshot() Span { return s.Clone() }

// Clone returns a copy of a span within the limits that shares no slice with it.
func (s *Span) Clone() Span {
	c := *s
	c.Name, c.Message = clean(s.Name), clean(s.Message)
	c.Scope = Scope{clean(s.Scope.Name), clean(s.Scope.Version), clean(s.Scope.SchemaURL),
		cloneAttributes(s.Scope.Attributes, new(uint32))}
	c.Attributes = cloneAttributes(s.Attributes, &c.DroppedAttributes)
	c.Events = slices.Clone(head(s.Events, MaxEvents, &c.DroppedEvents))
	for i := range c.Events {
		e := &c.Events[i]
		e.Name, e.Attributes = clean(e.Name), cloneAttributes(e.Attributes, &e.DroppedAttributes)
	}
	c.Links = slices.Clone(head(s.Links, MaxLinks, &c.DroppedLinks))
	for i := range c.Links {
		l := &c.Links[i]
		l.Attributes = cloneAttributes(l.Attributes, &l.DroppedAttributes)
	}
	return c
}

func cloneAttributes(list []Attribute, dropped *uint32) []Attribute {
	list = slices.Clone(head(list, MaxAttributes, dropped))
	for i := range list {
		a := &list[i]
		a.Key = clean(a.Key)
		if a.Value.kind == TypeString {
			a.Value.text = clean(a.Value.text)
		}
	}
	return list
}

// head returns the first elements of a list, up to limit, and counts the rest.
func head[T any](list []T, limit int, dropped *uint32) []T {
	if len(list) <= limit {
		return list
	}
	*dropped += uint32(len(list) - limit)
	return list[:limit]
}

// clean returns a text that is valid UTF-8 and has at most MaxString bytes.
func clean(s string) string {
	if len(s) > MaxString {
		s = cut(s, MaxString)
	}
	if utf8.ValidString(s) {
		return s
	}
	return cut(strings.ToValidUTF8(s, "\uFFFD"), MaxString)
}

// cut returns the first bytes of a text, up to limit, without a part of a character at the end.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for i := limit; i > limit-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:limit]
}
