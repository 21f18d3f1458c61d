// Package audit has the records of operators' actions on actors, and the [Origin] of an operator's
// call, which the context of the call carries.
package audit

import (
	"context"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

// Header is the header of a request, over HTTP or NATS, that has the reason for it. Its value is a
// text in UTF-8, in which any bytes may be percent-encoded, and a percent sign must.
const Header = "Cairn-Reason"

// MaxReason bounds a reason, in characters.
const MaxReason = 1000

// An Origin describes the caller of a method.
type Origin struct {
	// Channel is http, websocket or nats; actor for a call of an actor's turn, go for a call of the
	// program, and offline for a call on the data of a stopped node.
	Channel string
	// Principal is the name of the caller from the hook Authorize. For an actor it is the actor's
	// address. Empty if it is not known.
	Principal string
	// Remote is the network address of the caller, or of the last proxy before it.
	Remote string
	// Reason is why the caller makes the call.
	Reason string
}

type originKey struct{}

// With returns a context for calls with an origin.
func With(ctx context.Context, o *Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// Of returns the origin of the calls of a context; nil for the program's own calls without a
// reason.
func Of(ctx context.Context) *Origin {
	o, _ := ctx.Value(originKey{}).(*Origin)
	return o
}

// WithReason returns a context for calls with a reason.
func WithReason(ctx context.Context, reason string) context.Context {
	var o Origin
	if before := Of(ctx); before != nil {
		o = *before
	}
	o.Reason = reason
	return With(ctx, &o)
}

// CheckReason returns an error for a reason that is too long or not a text. field names its header
// or member.
func CheckReason(reason, field string) *host.Error {
	switch n := utf8.RuneCountInString(reason); {
	case !utf8.ValidString(reason):
		return host.Errorf(host.InvalidArgument, "the reason is not valid UTF-8").With("field", field)
	case n > MaxReason:
		return host.OverLimit("characters of the reason", MaxReason, int64(n)).With("field", field)
	}
	return nil
}

// ParseReason reads the value of [Header].
func ParseReason(value string) (string, *host.Error) {
	reason, err := url.PathUnescape(value)
	if err != nil {
		return "", host.Errorf(host.InvalidArgument, "the header %s has a bad percent-encoding",
			Header).With("field", Header)
	}
	return reason, CheckReason(reason, Header)
}

// FormatReason returns the value of [Header] for a reason.
func FormatReason(reason string) string { return url.PathEscape(reason) }

// A Record describes one successful call of an operator's method.
type Record struct {
	// ID grows from record to record, regardless of the clock.
	ID uint64 `json:"id"`
	// Time is when the record was written, by the clock of the node.
	Time time.Time `json:"time"`
	// Type and Key are the address of the actor. Both are empty if the verb acts on the node.
	Type string   `json:"type"`
	Key  []string `json:"key"`
	// ActorID names the life of the actor, and Version the commit that made the change. A verb
	// without a commit has none.
	ActorID string `json:"actor_id,omitempty"`
	Version uint64 `json:"version,omitempty"`
	// Damaged is set if the record cannot be read. Then only its place in the log is known, and the
	// actor if the query names it.
	Damaged bool `json:"damaged,omitempty"`
	// Verb is the name of the method, or actor.destroy, sql.import or trace.sample.
	Verb      string `json:"verb"`
	Channel   string `json:"channel"`
	Principal string `json:"principal,omitempty"`
	Remote    string `json:"remote,omitempty"`
	Reason    string `json:"reason,omitempty"`
	// Input is the input of the method. Before and After are the changed values, or After is the
	// output. A value of more than 4 KiB is {"$size": bytes, "$sha256": digest}.
	Input  host.Raw `json:"input,omitempty"`
	Before host.Raw `json:"before,omitempty"`
	After  host.Raw `json:"after,omitempty"`
}

// The bounds of a page of records.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// A Query selects records.
type Query struct {
	// Type selects the records of the actors of a type, and Prefix those whose keys begin with it.
	Type   string
	Prefix []string
	// Exact is set if Prefix is the whole key of one actor.
	Exact bool
	// Verb selects the records of one method.
	Verb string
	// Since and Until bound the time; the zero time is no bound.
	Since, Until time.Time
	// After and Before are ids that bound the records, without their own; 0 is none.
	After, Before uint64
	// Limit bounds the records of a page; 0 is DefaultPage.
	Limit int
}

// A Page is a page of records, the latest first.
type Page struct {
	Records []Record `json:"records"`
	// Cursor selects the next page, as the Before of its query; 0 after the last. A page with a
	// cursor may be empty.
	Cursor uint64 `json:"cursor,omitempty"`
}

// A Log is a node with an audit log. Errors are *host.Error.
type Log interface {
	// Audit returns a page of records. It wakes no actor.
	Audit(ctx context.Context, q Query) (Page, error)
	// FollowAudit calls f for records in their order, as they are committed: after q.After and from
	// q.Since on, or from the present on if both are zero. Until, Before and Limit must be zero. It
	// returns when ctx ends, with the error of f, or when the node stops.
	FollowAudit(ctx context.Context, q Query, f func(*Record) error) error
}
