// Package trace has what operators read of the spans that an actor has recorded. A [Span] is an
// operation of the actor, as OpenTelemetry has it
// (https://opentelemetry.io/docs/specs/otel/trace/api/).
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
	// Start and End bound a time. Spans that overlap it are selected, however long they are.
	// Absent, there is no bound.
	Start *time.Time `json:"start,omitempty"`
	End   *time.Time `json:"end,omitempty"`
	// TraceID selects the spans of one trace, by its 32 hexadecimal digits.
	TraceID string `json:"trace_id,omitempty"`
	// Name selects the spans with a name.
	Name string `json:"name,omitempty"`
	// Errors selects spans that ended with an error.
	Errors bool `json:"errors,omitempty"`
	// Limit is how many spans a page has; 0 is DefaultPage.
	Limit int `json:"limit,omitempty" range:"0,10000"`
	// MaxBytes is how many bytes the spans of a page and their parents have at most, as OTLP; 0 is
	// 4 MiB.
	MaxBytes int `json:"max_bytes,omitempty" range:"0,67108864"`
	// Cursor is that of the page before.
	Cursor string `json:"cursor,omitempty"`
}

// ReadOutput is a page of spans, in the order of their starts.
type ReadOutput struct {
	Spans []Span `json:"spans"`
	// Parents are the spans that those of the page are part of, as far as they are not in it and
	// there is room.
	Parents []Span `json:"parents,omitempty"`
	// Cursor selects the next page; absent after the last.
	Cursor string `json:"cursor,omitempty"`
	// Dropped is how many spans of that time are missing, because there were too many.
	Dropped uint64 `json:"dropped,omitempty"`
	// Damaged names the keys of stored spans that cannot be read.
	Damaged []string `json:"damaged,omitempty"`
	// Now is the time of the node.
	Now time.Time `json:"now"`
}

// A Sampling says which of the traces that begin at a node are recorded.
type Sampling struct {
	Rule
	// Types have rules of their own.
	Types map[string]Rule `json:"types,omitempty"`
}

// A Rule says which traces are recorded, and which operations although their trace is not. A member
// that is absent is as the configuration of the node says; of a type, as it is for the other types,
// except that a type with a rule has a rate of its own.
type Rule struct {
	// PerSecond is how many traces begin in a second that are recorded.
	PerSecond *int64 `json:"per_second,omitempty" range:"0,1099511627776"`
	// Share is the part of the traces that is recorded, up to PerSecond.
	Share *float64 `json:"share,omitempty" range:"0,1"`
	// SlowMS is how long a turn or query takes, in milliseconds, that is recorded in any case.
	SlowMS *int64 `json:"slow_ms,omitempty" range:"1,86400000"`
}

// A Sampler is a node that says which traces it records, and can be told until its next start.
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

// FindPage has spans of a trace. A page ends when a node has read for a while, also if it has found
// nothing.
type FindPage struct {
	// Actors is how many actors were looked at.
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

// A Finder is a node that puts a trace together. It wakes no actor. The error is an *host.Error.
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
	// host.Position. Of an actor that is gone, the error code is Destroyed if Life is set and
	// NotFound otherwise.
	Life string
}

// MaxFollowers is how many readers may follow the spans of one actor at a time.
const MaxFollowers = 100

// A Follower is a node that shows the spans of an actor as they end, also over a time in which the
// actor sleeps. It does not wake the actor. The error is an *host.Error: NotFound if there is no
// such actor.
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
	// Missed is how many spans that ended after these are missing, because the reader was too slow.
	Missed uint64
	// Lost says that spans which ended before these may be missing, because the connection to the
	// node was lost.
	Lost bool
}

// A Span is an operation. One without an end has not ended.
type Span struct {
	TraceID  string `json:"trace_id"`
	SpanID   string `json:"span_id"`
	ParentID string `json:"parent_id,omitempty"`
	// Remote says that the parent is a span of another actor or process.
	Remote bool   `json:"remote,omitempty"`
	Name   string `json:"name"`
	// Kind is internal, server, client, producer or consumer.
	Kind  string     `json:"kind"`
	Start time.Time  `json:"start"`
	End   *time.Time `json:"end,omitempty"`
	// Status is ok or error; absent if nobody said.
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

// A Link refers to a span that is related, such as the one that sent a message.
type Link struct {
	TraceID    string         `json:"trace_id"`
	SpanID     string         `json:"span_id"`
	Attributes map[string]any `json:"attributes,omitempty"`
}
