package traces

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/cairn-run/cairn/keyspace"
)

const (
	cachedChunks  = 16
	parentRounds  = 16
	stoppedStatus = "actor stopped"
)

// source is a chunk that may have selected spans.
type source struct {
	key []byte // of a stored chunk
	header
	body string // of a pending chunk
}

// part is a record in a source.
type part struct {
	record
	source int
}

// partial is an incomplete span.
type partial struct {
	parts []part // in the order of their flushes
	live  *Span
	ended bool // the complete record was found
}

// candidate is a selected span.
type candidate struct {
	position
	part
	partial *partial // instead of part
}

func byPosition(a, b candidate) int { return a.position.compare(b.position) }

// reading is the state of one Read.
type reading struct {
	ctx      context.Context
	r        Reader
	q        Query
	after    position
	result   Result
	size     int      // of the spans and parents in result
	sources  []source // in the order of flushes
	ends     map[uint64]int64
	partials map[identity]*partial
	cache    [cachedChunks]struct {
		source int
		c      *chunk
	}
	used    int
	value   []byte
	damaged map[string]bool
}

// Read returns the spans of an actor that a query selects. It reads the totals of all hours, the
// chunks of those hours that overlap the time, and decodes the spans that it returns.
//
// The records of a span are merged: a complete one replaces partial ones, and a later partial one
// an earlier one. An open span of another incarnation ends at that one's last flush that stored
// something, with status Error and the message "actor stopped".
//
// Read skips a chunk that does not decode, and adds its key to Damaged. The fault of a query is a
// [*QueryError].
func Read(ctx context.Context, r Reader, q Query) (Result, error) {
	x := reading{ctx: ctx, r: r, q: q, ends: map[uint64]int64{}, partials: map[identity]*partial{},
		damaged: map[string]bool{}}
	var err error
	if x.after, err = x.q.check(); err != nil {
		return Result{}, err
	}
	for _, step := range [...]func() error{x.find, x.collectPartials, x.collect, x.parents} {
		if err := step(); err != nil {
			return Result{}, err
		}
	}
	return x.result, nil
}

func (x *reading) damage(key []byte) {
	name := keyspace.Format(key)
	if key == nil {
		name = "buffer"
	}
	if !x.damaged[name] {
		x.damaged[name] = true
		x.result.Damaged = append(x.result.Damaged, name)
	}
}

// find lists the chunks of the hours that overlap the time.
func (x *reading) find() error {
	var buckets []int64
	if err := eachTotals(x.r, func(t totals, ok bool) {
		if !ok {
			x.damage(keyspace.TraceBucket.Append(nil, t.bucket))
		}
		if !ok || t.first < x.q.End && t.last >= x.q.Start {
			buckets = append(buckets, t.bucket)
		}
	}); err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	for _, bucket := range buckets {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		start := keyspace.TraceChunk.Prefix(nil, bucket)
		if err := x.r.Scan(start, keyspace.TupleEnd(start), func(key, value []byte) bool {
			h, err := parseHeader(value)
			if err != nil {
				x.damage(key)
				return true
			}
			x.ends[h.incarnation] = max(x.ends[h.incarnation], h.written)
			if h.first < x.q.End && h.last >= x.q.Start {
				x.result.Dropped += uint64(h.dropped)
			}
			x.sources = append(x.sources, source{key: bytes.Clone(key), header: h})
			return true
		}); err != nil {
			return fmt.Errorf("traces: %w", err)
		}
	}
	for i := range x.q.Live.chunks {
		c := &x.q.Live.chunks[i]
		x.sources = append(x.sources, source{header: c.header, body: string(c.bytes[headerBytes:])})
	}
	return nil
}

// open returns a source with its texts decoded, or nil if it is gone or damaged.
func (x *reading) open(i int) (*chunk, error) {
	for j := range x.cache {
		if e := &x.cache[j]; e.c != nil && e.source == i {
			return e.c, nil
		}
	}
	if err := x.ctx.Err(); err != nil {
		return nil, err
	}
	s := &x.sources[i]
	body := s.body
	if s.key != nil {
		value, ok, err := x.r.AppendValue(x.value[:0], s.key)
		if err != nil {
			return nil, fmt.Errorf("traces: %s: %w", keyspace.Format(s.key), err)
		}
		x.value = value
		if !ok || len(value) < headerBytes {
			return nil, nil
		}
		body = string(value[headerBytes:])
	}
	c, err := openChunk(s.header, body)
	if err != nil {
		x.damage(s.key)
		return nil, nil
	}
	e := &x.cache[x.used%cachedChunks]
	e.source, e.c = i, c
	x.used++
	return c, nil
}

// each calls f with the records of a source, until it returns false.
func (x *reading) each(i int, f func(c *chunk, r *record) bool) error {
	c, err := x.open(i)
	if c == nil {
		return err
	}
	records := c.records()
	var r record
	for records.next(&r) {
		if !f(c, &r) {
			return nil
		}
	}
	if records.err() != nil {
		x.damage(x.sources[i].key)
	}
	return nil
}

// collectPartials finds the partial records, and the open spans of the buffer.
func (x *reading) collectPartials() error {
	wanted := func(id identity) *partial {
		if x.q.TraceID != (TraceID{}) && id.trace != x.q.TraceID {
			return nil
		}
		p := x.partials[id]
		if p == nil {
			p = new(partial)
			x.partials[id] = p
		}
		return p
	}
	for i := range x.sources {
		s := &x.sources[i]
		if s.partials == 0 || s.first >= x.q.End {
			continue
		}
		if err := x.each(i, func(_ *chunk, r *record) bool {
			if r.flags&isPartial != 0 {
				if p := wanted(r.identity); p != nil {
					p.parts = append(p.parts, part{*r, i})
				}
			}
			return true
		}); err != nil {
			return err
		}
	}
	for i := range x.q.Live.open {
		s := &x.q.Live.open[i]
		if p := wanted(s.identity()); p != nil {
			p.live = s
		}
	}
	return nil
}

// collect finds the spans of the page.
func (x *reading) collect() error {
	order := make([]int, 0, len(x.sources))
	for i := range x.sources {
		if s := &x.sources[i]; s.first < x.q.End && (s.last >= x.q.Start || len(x.partials) > 0) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(x.sources[i].first, x.sources[j].first) })

	var list []candidate
	bound := position{start: math.MaxInt64} // no span after it is in the page
	prune := func() {
		slices.SortFunc(list, byPosition)
		list = slices.CompactFunc(list, func(a, b candidate) bool { return a.position == b.position })
		if len(list) > x.q.Limit {
			list = list[:x.q.Limit+1]
			bound = list[x.q.Limit].position
		}
	}
	for _, i := range order {
		if x.sources[i].first > bound.start {
			break // all later ones are after it, too
		}
		if err := x.each(i, func(c *chunk, r *record) bool {
			if r.flags&isPartial != 0 {
				return true
			}
			if len(x.partials) > 0 {
				if p := x.partials[r.identity]; p != nil {
					p.ended = true
				}
			}
			at := position{r.start, r.identity}
			if !x.selects(at, r.end, r.status) || at.compare(bound) > 0 {
				return true
			}
			if x.q.Name != "" {
				name, err := c.name(r)
				if err != nil {
					x.damage(x.sources[i].key)
				}
				if name != x.q.Name {
					return true
				}
			}
			if list = append(list, candidate{position: at, part: part{*r, i}}); len(list) >= 4*x.q.Limit+1000 {
				prune()
			}
			return true
		}); err != nil {
			return err
		}
	}
	for id, p := range x.partials {
		if p.ended {
			continue
		}
		s, err := x.merge(p)
		if err != nil {
			return err
		}
		at := position{s.Start, id}
		if s.SpanID != id.span || x.q.Name != "" && s.Name != x.q.Name {
			continue
		}
		if end := cmp.Or(s.End, math.MaxInt64); x.selects(at, end, s.Status) {
			list = append(list, candidate{position: at, partial: p})
		}
	}
	prune()
	return x.fill(list)
}

// selects reports whether the query selects a span, except for its name.
func (x *reading) selects(at position, end int64, status Status) bool {
	q := &x.q
	return at.start < q.End && (end > q.Start || at.start >= q.Start) &&
		(q.TraceID == TraceID{} || at.trace == q.TraceID) &&
		(!q.Errors || status == Error) && at.compare(x.after) > 0
}

// fill decodes the candidates until the page is full. It reserves a quarter of the bytes for their
// parents.
func (x *reading) fill(list []candidate) error {
	room := x.q.MaxBytes - x.q.MaxBytes/4
	for n := range list {
		c := &list[n]
		if n == x.q.Limit {
			x.result.Cursor = x.q.cursor(list[n-1].position)
			break
		}
		s, ok, err := x.decode(c.partial, c.part)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if x.size += s.Size(); x.size > room && len(x.result.Spans) > 0 {
			x.size -= s.Size()
			x.result.Cursor = x.q.cursor(list[n-1].position)
			break
		}
		x.result.Spans = append(x.result.Spans, s)
	}
	return nil
}

// decode returns a span from its complete record or its partial ones.
func (x *reading) decode(p *partial, at part) (Span, bool, error) {
	if p != nil {
		s, err := x.merge(p)
		return s, s.SpanID != SpanID{}, err
	}
	s, _, err := x.span(at)
	return s, s.SpanID != SpanID{}, err
}

// span decodes a record. It returns the zero Span if the chunk is damaged.
func (x *reading) span(at part) (Span, int, error) {
	c, err := x.open(at.source)
	if c == nil {
		return Span{}, 0, err
	}
	s, from, err := c.span(&at.record)
	if err != nil {
		x.damage(x.sources[at.source].key)
		return Span{}, 0, nil
	}
	return s, from, nil
}

// merge returns a span without a complete record. It returns the zero Span if all its chunks are
// damaged.
func (x *reading) merge(p *partial) (Span, error) {
	if p.live != nil {
		return *p.live, nil
	}
	var merged Span
	var writer uint64
	for _, at := range p.parts {
		s, from, err := x.span(at)
		if err != nil {
			return Span{}, err
		}
		if s.SpanID == (SpanID{}) {
			continue
		}
		s.Events = append(merged.Events[:min(from, len(merged.Events)):min(from, len(merged.Events))], s.Events...)
		merged, writer = s, x.sources[at.source].incarnation
	}
	if writer != x.q.Live.Incarnation {
		merged.End = max(x.ends[writer], merged.Start)
		merged.Status, merged.Message = Error, stoppedStatus
	}
	return merged, nil
}

// parents finds the parents of the page that are not in it, up to the roots.
func (x *reading) parents() error {
	have := make(map[identity]bool, len(x.result.Spans))
	want := map[identity]bool{}
	for i := range x.result.Spans {
		have[x.result.Spans[i].identity()] = true
	}
	latest := int64(math.MinInt64)
	var need func(child *Span) error
	keep := func(s Span) error {
		if x.size += s.Size(); x.size > x.q.MaxBytes || len(x.result.Parents) >= x.q.Limit {
			clear(want)
			return nil
		}
		have[s.identity()] = true
		x.result.Parents = append(x.result.Parents, s)
		return need(&s)
	}
	need = func(child *Span) error {
		id := identity{child.TraceID, child.Parent}
		if child.Parent == (SpanID{}) || child.RemoteParent || have[id] {
			return nil
		}
		if p := x.partials[id]; p != nil && !p.ended {
			s, ok, err := x.decode(p, part{})
			if err != nil || !ok {
				return err
			}
			return keep(s)
		}
		want[id] = true
		latest = max(latest, child.Start)
		return nil
	}
	for i := range x.result.Spans {
		if err := need(&x.result.Spans[i]); err != nil {
			return err
		}
	}
	for before, round := 0, 0; len(want) > 0 && round < parentRounds &&
		(round == 0 || len(x.result.Parents) > before); round++ {
		before = len(x.result.Parents)
		for i := range x.sources {
			if x.sources[i].first > latest || len(want) == 0 {
				continue
			}
			var failed error
			if err := x.each(i, func(_ *chunk, r *record) bool {
				if r.flags&isPartial != 0 || !want[r.identity] {
					return true
				}
				delete(want, r.identity)
				s, _, err := x.span(part{*r, i})
				if err == nil && s.SpanID != (SpanID{}) {
					err = keep(s)
				}
				failed = err
				return err == nil && len(want) > 0
			}); err != nil || failed != nil {
				return cmp.Or(err, failed)
			}
		}
	}
	slices.SortFunc(x.result.Parents, func(a, b Span) int {
		return position{a.Start, a.identity()}.compare(position{b.Start, b.identity()})
	})
	return nil
}
