// Package trace has the recorded spans of an actor, for operators. A [Span] is an operation of the
// actor, as in OpenTelemetry (https://opentelemetry.io/docs/specs/otel/trace/api/).
package trace

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// The bounds of a page of spans.
const (
	DefaultPage = 1_000
	MaxPage     = 10_000
	MaxBytes    = 64 << 20
)

// ReadInput selects spans of an actor.
type ReadInput struct {
	// Start and End bound a time. Spans that overlap it are selected, regardless of their length.
	// An absent one is no bound.
	Start *time.Time `json:"start,omitempty"`
	End   *time.Time `json:"end,omitempty"`
	// TraceID selects the spans of one trace, by its 32 hexadecimal digits.
	TraceID string `json:"trace_id,omitempty"`
	// Name selects the spans with a name.
	Name string `json:"name,omitempty"`
	// Errors selects spans that ended with an error.
	Errors bool `json:"errors,omitempty"`
	// Limit bounds the spans of a page; 0 is DefaultPage.
	Limit int `json:"limit,omitempty" range:"0,10000"`
	// MaxBytes bounds the bytes of the spans of a page and their parents, as OTLP; 0 is 4 MiB.
	MaxBytes int `json:"max_bytes,omitempty" range:"0,67108864"`
	// Cursor is the cursor of the previous page.
	Cursor string `json:"cursor,omitempty"`
}

// ReadOutput is a page of spans, in the order of their starts.
type ReadOutput struct {
	Spans []Span `json:"spans"`
	// Parents are the parents of the page's spans, except for spans of the page, as far as there is
	// room.
	Parents []Span `json:"parents,omitempty"`
	// Cursor selects the next page; absent after the last.
	Cursor string `json:"cursor,omitempty"`
	// Dropped counts the spans of that time that are missing, because there were too many.
	Dropped uint64 `json:"dropped,omitempty"`
	// Damaged names the keys of stored spans that cannot be read.
	Damaged []string `json:"damaged,omitempty"`
	// Now is the time of the node.
	Now time.Time `json:"now"`
}

// A Sampling decides which of the traces that begin at a node are recorded.
type Sampling struct {
	Rule
	// Types has the rules of single types.
	Types map[string]Rule `json:"types,omitempty"`
}

// A Rule decides which traces are recorded, and which operations even if their trace is not. An
// absent member has the value of the node's configuration or, for a type, of the other types,
// except that a type with a rule has its own rate.
type Rule struct {
	// PerSecond bounds the recorded traces that begin in a second.
	PerSecond *int64 `json:"per_second,omitempty" range:"0,1099511627776"`
	// Share is the part of the traces that is recorded, up to PerSecond.
	Share *float64 `json:"share,omitempty" range:"0,1"`
	// SlowMS is the time, in milliseconds, from which a turn or query is recorded in any case.
	SlowMS *int64 `json:"slow_ms,omitempty" range:"1,86400000"`
}

// A Sampler is a node whose sampling can be read, and set until its next start.
type Sampler interface {
	Sampling() Sampling
	// SetSampling replaces all rules. It returns the rules that hold from now on. The error is an
	// *host.Error.
	SetSampling(ctx context.Context, s Sampling) (Sampling, error)
}

// A FindQuery selects the spans of one trace, of all actors of a node.
type FindQuery struct {
	TraceID string
	// Type selects the actors of a type; all if it is empty.
	Type string
	// Start and End bound a time, as in ReadInput. A node finds spans faster if they are given.
	Start, End *time.Time
	Cursor     string
}

// FindPage has spans of a trace. A page ends when a node has read for a while, even if it has found
// nothing.
type FindPage struct {
	// Actors counts the actors that were examined.
	Actors int     `json:"actors"`
	Spans  []Found `json:"spans"`
	// Cursor selects the next page; absent after the last.
	Cursor string `json:"cursor,omitempty"`
}

// Found is a span of an actor.
type Found struct {
	Type string   `json:"type"`
	Key  []string `json:"key"`
	Span
}

// A Finder is a node that finds the spans of a trace. It wakes no actor. Errors are *host.Error.
type Finder interface {
	FindTrace(ctx context.Context, q FindQuery) (FindPage, error)
}

// Documents is a node that shows the spans of actors as OTLP
// (https://opentelemetry.io/docs/specs/otlp/).
type Documents interface {
	// TraceDocument returns spans of an actor and their parents as an OTLP JSON document,
	// ExportTraceServiceRequest, and the cursor of the next page. It does not wake the actor. The
	// error is an *host.Error.
	TraceDocument(ctx context.Context, a host.Address, in *ReadInput) (document []byte, cursor string, err error)
}

// FollowInput selects the spans that a reader follows. Empty members select all.
type FollowInput struct {
	TraceID string // by its 32 hexadecimal digits
	Name    string
	Errors  bool // only spans that ended with an error
	// Life is the id of the actor's life that is followed, or "" for the present one: see
	// host.Position. If the actor is gone, the error code is Destroyed if Life is set and NotFound
	// otherwise.
	Life string
}

// MaxFollowers bounds the readers that follow the spans of one actor at a time.
const MaxFollowers = 100

// A Follower is a node that shows the spans of an actor as they end, even while the actor sleeps.
// It does not wake the actor. The error is an *host.Error: NotFound if there is no such actor.
type Follower interface {
	FollowTraces(ctx context.Context, a host.Address, in FollowInput) (Tail, error)
}

// A Tail receives the spans of one life of an actor that end after it was opened. Its caller must
// close it.
type Tail interface {
	// Life is the id of that life.
	Life() string
	// Next waits for spans. The error is an *host.Error: Canceled or DeadlineExceeded when ctx
	// ends, after which Next may be called again; Destroyed when the actor is.
	Next(ctx context.Context) (News, error)
	Close()
}

// News are spans that have ended, in the order of their ends.
type News struct {
	Spans []Span
	// Missed counts missing spans that ended after these, because the reader was too slow.
	Missed uint64
	// Lost is set if spans that ended before these may be missing, because the connection to the
	// node was lost.
	Lost bool
}

// A Span is an operation. Without an end it has not ended.
type Span struct {
	TraceID  string `json:"trace_id"`
	SpanID   string `json:"span_id"`
	ParentID string `json:"parent_id,omitempty"`
	// Remote is set if the parent is a span of another actor or process.
	Remote bool   `json:"remote,omitempty"`
	Name   string `json:"name"`
	// Kind is internal, server, client, producer or consumer.
	Kind  string     `json:"kind"`
	Start time.Time  `json:"start"`
	End   *time.Time `json:"end,omitempty"`
	// Status is ok or error; absent if it was not set.
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	// Scope is the name of the code that made the span; absent for the runtime itself.
	Scope      string         `json:"scope,omitempty"`
	Attributes map[string]any `json:"attributes,omitempty"`
	Events     []Event        `json:"events,omitempty"`
	Links      []Link         `json:"links,omitempty"`
}

// An Event is a moment of a span.
type Event struct {
	Name       string         `json:"name"`
	Time       time.Time      `json:"time"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

// A Link refers to a related span, such as the one that sent a message.
type Link struct {
	TraceID    string         `json:"trace_id"`
	SpanID     string         `json:"span_id"`
	Attributes map[string]any `json:"attributes,omitempty"`
}
