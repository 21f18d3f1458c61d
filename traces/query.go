package traces

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
)

// Limits of Read.
const (
	DefaultLimit    = 1000
	MaxLimit        = 10_000
	DefaultMaxReply = 4 << 20 // bytes of the spans as OTLP
	MaxReply        = 64 << 20

	cursorFormat = 1
	cursorBytes  = 1 + 8 + 8 + 8 + 16
)

// Query selects spans. The zero Query selects all spans of an actor that is asleep.
type Query struct {
	Start   int64   // spans that overlap the time from Start, in Unix ns,
	End     int64   // until before End; 0 has no bound
	TraceID TraceID // only this trace, unless zero
	Name    string  // only spans with exactly this name, unless ""
	Of      string  // names the actor, so a cursor of another actor is refused
	Errors  bool    // only spans with status Error

	Limit    int    // spans; 0 is DefaultLimit
	MaxBytes int    // of the spans and their parents as OTLP; 0 is DefaultMaxReply. A first span is returned even if it is larger
	Cursor   string // of the page before, with an otherwise equal selection

	// Live is the content of the actor's buffer, if it is awake. Get it before opening the snapshot
	// that Read reads.
	Live Pending
}

// Result is a page of spans.
type Result struct {
	Spans   []Span   // in the order of start and span id. An open span has End 0
	Parents []Span   // parents of Spans, up to the roots, that are not in Spans, if they are stored and fit
	Cursor  string   // of the next page; "" if there is none
	Dropped uint64   // spans that the actor dropped around that time because it had too many
	Damaged []string // the keys of chunks and totals that do not decode, printed
}

// QueryError is the fault of a query.
type QueryError struct {
	Field  string // start, end, limit, max_bytes or cursor
	Reason string
}

// Error returns the fault.
func (e *QueryError) Error() string { return "traces: " + e.Field + ": " + e.Reason }

// position is the place of a span in the order of results.
type position struct {
	start int64
	identity
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.start, q.start), bytes.Compare(p.span[:], q.span[:]),
		bytes.Compare(p.trace[:], q.trace[:]))
}

// selection returns the digest of a cursor's selection.
func (q *Query) selection() uint64 {
	h := fnv.New64a()
	var b []byte
	b = binary.BigEndian.AppendUint64(b, uint64(q.Start))
	b = binary.BigEndian.AppendUint64(b, uint64(q.End))
	b = append(b, q.TraceID[:]...)
	if q.Errors {
		b = append(b, 1)
	}
	fmt.Fprintf(h, "%s%q%q", b, q.Name, q.Of)
	return h.Sum64()
}

func (q *Query) cursor(p position) string {
	b := binary.BigEndian.AppendUint64([]byte{cursorFormat}, q.selection())
	b = binary.BigEndian.AppendUint64(b, uint64(p.start))
	b = append(append(b, p.span[:]...), p.trace[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (q *Query) parseCursor() (p position, err error) {
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || len(b) != cursorBytes || b[0] != cursorFormat {
		return p, &QueryError{"cursor", "it is not a cursor of traces"}
	}
	if binary.BigEndian.Uint64(b[1:]) != q.selection() {
		return p, &QueryError{"cursor", "it belongs to another selection"}
	}
	p.start = int64(binary.BigEndian.Uint64(b[9:]))
	copy(p.span[:], b[17:])
	copy(p.trace[:], b[25:])
	return p, nil
}

// check sets defaults, and returns the place of the cursor.
func (q *Query) check() (after position, err error) {
	if q.End == 0 {
		q.End = math.MaxInt64
	}
	for _, n := range [...]struct {
		value          *int
		field          string
		standard, most int
	}{{&q.Limit, "limit", DefaultLimit, MaxLimit}, {&q.MaxBytes, "max_bytes", DefaultMaxReply, MaxReply}} {
		if *n.value < 0 || *n.value > n.most {
			return after, &QueryError{n.field, fmt.Sprintf("%d is not in the range from 1 to %d", *n.value, n.most)}
		}
		if *n.value == 0 {
			*n.value = n.standard
		}
	}
	if q.End < q.Start {
		return after, &QueryError{"end", "it is before the start"}
	}
	if q.Cursor != "" {
		return q.parseCursor()
	}
	return position{start: math.MinInt64}, nil
}
