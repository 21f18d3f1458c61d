package traces

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// Defaults and limits of a Buffer.
const (
	DefaultMaxAge   = 7 * 24 * time.Hour
	DefaultMaxBytes = 16 << 20 // of an actor's stored chunks
	MaxBuffered     = 1 << 20  // bytes of the spans that are not stored yet
	MaxOpen         = 1000     // open spans

	bucketSeconds = 3600
	maxPending    = 8       // hours that a buffer collects chunks for at a time
	smallFlush    = 8 << 10 // a buffer that flushed less returns its memory
)

// Reader reads the rows of one actor. Engine's Snapshot and WriteSet are Readers.
type Reader interface {
	AppendValue(dst, key []byte) ([]byte, bool, error)
	Scan(start, end []byte, f func(key, value []byte) bool) error
}

// Writer collects changes of the rows of one actor, which become one batch.
type Writer interface {
	Put(key, value []byte) error
	DeleteRange(start, end []byte) error
}

// Live is an open span. Its method may be called from any goroutine.
type Live interface {
	// Snapshot returns the span as it is now, with End 0. The caller owns the slices.
	Snapshot() Span
}

// Exporter sends ended spans elsewhere. It does not block.
type Exporter interface {
	// Export exports a span, and keeps no slice of it.
	Export(r *Resource, s *Span)
}

// Options are the properties of a [Buffer].
type Options struct {
	// Incarnation identifies this stay of the actor in memory. Partial records of other
	// incarnations belong to spans that a crash ended.
	Incarnation uint64

	MaxAge   time.Duration // of stored chunks; 0 is DefaultMaxAge
	MaxBytes int64         // of stored chunks; 0 is DefaultMaxBytes

	// Resource describes the actor to the collector of Exporter.
	Resource *Resource
	Exporter Exporter // gets each span that is added; may be nil

	// Added is called after a span was opened or added, by the runtime or by a user of the
	// OpenTelemetry API. It runs in the same goroutine, without a lock of the buffer, and not for
	// dropped spans. full reports whether the buffer has a full chunk, so a flush should not wait
	// for its time. Added may be nil.
	Added func(full bool)
}

// Reason says why spans were dropped.
type Reason uint8

// The reasons.
const (
	DropFull  Reason = iota // the buffer held MaxBuffered bytes
	DropOpen                // MaxOpen spans were open
	DropLarge               // no chunk has room for the span
	DropOld                 // the span ended more than MaxAge ago
	DropWrite               // its chunk was not written
	DropLate                // the span ended after the buffer was closed
	reasons
)

// String returns the name of the reason, for metrics.
func (r Reason) String() string {
	names := [reasons]string{"full", "open", "large", "old", "write", "late"}
	if r >= reasons {
		return "unknown"
	}
	return names[r]
}

// Drops counts dropped spans by reason.
type Drops [reasons]uint64

// Buffer holds the spans of one awake actor that are not stored yet, and the open ones. It is safe
// for concurrent use, except that one goroutine at a time calls Flush, Committed and Close. Its
// claims:
//
//  1. It holds at most MaxBuffered bytes of spans and MaxOpen open spans, and counts dropped spans.
//     When it is nearly full, it drops spans with a parent, and keeps roots.
//  2. A chunk is in the buffer until the batch that stores it is committed. A reader that calls
//     Pending before it opens a snapshot of the store finds each span in one of them, or in both.
//  3. A chunk never replaces another one: numbers continue from the stored ones.
//  4. Bytes returns the bytes of all stored keys and values.
type Buffer struct {
	o Options

	mu      sync.Mutex
	current []*encoder // at most one for each hour, the last used one at the end
	full    []sealed   // no longer appended to
	flying  []sealed   // in a batch that is not committed
	bytes   int        // of full and flying
	open    []open
	drops   Drops
	told    uint64 // drops counted in stored chunks
	closed  bool

	store store // of Flush and its callers
}

// open is an open span and the state of its last partial record.
type open struct {
	identity
	live       Live
	bucket     int64 // of the last partial record, or math.MinInt64
	events     int
	attributes int
	dropped    uint32 // events
	status     Status
	name       string
}

// NewBuffer returns an empty buffer.
func NewBuffer(o Options) *Buffer {
	if o.MaxAge == 0 {
		o.MaxAge = DefaultMaxAge
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Added == nil {
		o.Added = func(bool) {}
	}
	return &Buffer{o: o}
}

// Add adds ended spans, and exports them. It keeps no slice of them.
func (b *Buffer) Add(spans ...Span) {
	b.mu.Lock()
	kept := false
	for i := range spans {
		kept = b.add(&spans[i], math.MinInt64) || kept
	}
	b.unlockAdded(kept)
}

// unlockAdded unlocks b.mu and calls Added if a span was kept.
func (b *Buffer) unlockAdded(kept bool) {
	full := len(b.full) > 0
	b.mu.Unlock()
	if kept {
		b.o.Added(full)
	}
}

// add adds an ended span, and reports whether the buffer keeps it. b.mu is held.
func (b *Buffer) add(s *Span, bucket int64) bool {
	if b.closed {
		b.drops[DropLate]++
		return false
	}
	if b.o.Exporter != nil {
		exported := *s // without an exporter, s then stays off the heap
		b.o.Exporter.Export(b.o.Resource, &exported)
	}
	limit := MaxBuffered
	if s.Parent != (SpanID{}) && !s.RemoteParent {
		limit -= MaxBuffered / 8
	}
	if b.held() >= limit {
		b.drops[DropFull]++
		return false
	}
	return b.encode(s, 0, max(bucket, bucketOf(s.End)))
}

// held returns the bytes of the buffer.
func (b *Buffer) held() int {
	n := b.bytes
	for _, e := range b.current {
		n += e.size()
	}
	return n
}

// encode appends a span to the chunk of a bucket. It reports whether a chunk has room for it.
func (b *Buffer) encode(s *Span, from int, bucket int64) bool {
	e := b.encoder(bucket)
	if e.add(s, from) {
		return true
	}
	if e.count > 0 {
		b.seal(e)
		e.reset(bucket)
	}
	if !shrink(e, *s, from) {
		b.drops[DropLarge]++
		return false
	}
	return true
}

// encoder returns the encoder of a bucket. Users choose the times of spans, so there is a limit of
// encoders: beyond it a span goes to the chunk of another hour, which readers find by the times in
// its header.
func (b *Buffer) encoder(bucket int64) *encoder {
	for _, e := range slices.Backward(b.current) {
		if e.bucket == bucket {
			return e
		}
	}
	if len(b.current) > 0 {
		if e := b.current[len(b.current)-1]; e.count == 0 { // memory of an earlier flush
			e.reset(bucket)
			return e
		} else if len(b.current) == maxPending {
			return e
		}
	}
	e := new(encoder)
	e.reset(bucket)
	b.current = append(b.current, e)
	return e
}

func (b *Buffer) seal(e *encoder) {
	c := e.seal()
	b.full = append(b.full, c)
	b.bytes += len(c.bytes)
}

// Open registers a span that has begun, so flushes and readers include it. It returns false if
// there is no room. Then the span is counted as dropped, and its caller must not End it.
func (b *Buffer) Open(id SpanID, trace TraceID, live Live) bool {
	b.mu.Lock()
	room := !b.closed && len(b.open) < MaxOpen
	defer b.unlockAdded(room)
	if !room {
		b.drops[DropOpen]++
		return false
	}
	b.open = append(b.open, open{identity: identity{trace, id}, live: live, bucket: math.MinInt64})
	return true
}

// End adds a span that was registered by Open.
func (b *Buffer) End(s Span) { b.end(&s) }

func (b *Buffer) end(s *Span) {
	b.mu.Lock()
	bucket := int64(math.MinInt64)
	for i := len(b.open) - 1; i >= 0; i-- { // the newest span ends first
		if b.open[i].identity == s.identity() {
			bucket = b.open[i].bucket
			b.open = slices.Delete(b.open, i, i+1)
			break
		}
	}
	b.unlockAdded(b.add(s, bucket))
}

// snapshots returns snapshots of the open spans. It takes them without a lock.
func (b *Buffer) snapshots() []Span {
	b.mu.Lock()
	list := slices.Clone(b.open)
	b.mu.Unlock()
	spans := make([]Span, len(list))
	for i := range list {
		s := list[i].live.Snapshot()
		s.TraceID, s.SpanID, s.End, s.Partial = list[i].trace, list[i].span, 0, true
		spans[i] = s.Clone()
	}
	return spans
}

// Pending returns the spans that the store may not have, for [Query]. Call it before opening the
// snapshot that [Read] reads.
func (b *Buffer) Pending() Pending {
	p := Pending{Incarnation: b.o.Incarnation, open: b.snapshots()}
	b.mu.Lock()
	defer b.mu.Unlock()
	p.chunks = append(append(p.chunks, b.flying...), b.full...)
	for _, e := range b.current {
		if e.count > 0 {
			p.chunks = append(p.chunks, e.seal())
		}
	}
	return p
}

// Pending is the content of a buffer at one moment. The zero Pending is for an actor that is
// asleep.
type Pending struct {
	Incarnation uint64
	chunks      []sealed
	open        []Span
}

// And returns the spans of both.
func (p Pending) And(q Pending) Pending {
	p.chunks, p.open = append(slices.Clip(p.chunks), q.chunks...), append(slices.Clip(p.open), q.open...)
	return p
}

// Drops returns how many spans were dropped.
func (b *Buffer) Drops() Drops {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drops
}

// Empty reports whether a flush would write nothing: no span ended since the last one, and none is
// open.
func (b *Buffer) Empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.full) == 0 && len(b.open) == 0 &&
		!slices.ContainsFunc(b.current, func(e *encoder) bool { return e.count > 0 })
}

// Flush writes the spans of the buffer to w, and a partial record of each open span that is new or
// changed, and removes chunks that are too old or too many. r reads the stored rows: the first
// time, after a fault, and when one hour exceeds MaxBytes. now is the time in Unix nanoseconds.
//
// A chunk that w refuses is lost; the others are written. Flush returns the first error. The caller
// commits the batch even after an error, and then must call Committed. Flush writes nothing if
// there is nothing new.
func (b *Buffer) Flush(r Reader, w Writer, now int64) error {
	chunks := b.take(now)
	if len(chunks) == 0 {
		return nil
	}
	if err := b.store.load(r); err != nil {
		b.drop(DropWrite, chunks, true)
		return err
	}
	var first error
	oldest := now - int64(b.o.MaxAge)
	for i := range chunks {
		if bucketEnd(chunks[i].bucket) <= oldest {
			b.drop(DropOld, chunks[i:i+1], true)
		} else if err := b.store.put(r, w, &chunks[i]); err != nil {
			b.drop(DropWrite, chunks[i:i+1], true)
			first = cmp.Or(first, err)
		}
	}
	return cmp.Or(first, b.store.retain(r, w, oldest, b.o.MaxBytes), b.store.writeTotals(w))
}

// take moves all spans to the chunks of a flush.
func (b *Buffer) take(now int64) []sealed {
	seen := b.snapshots()
	bucket := bucketOf(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= size(b.flying)
	b.flying = nil
	for i := range b.open {
		o := &b.open[i]
		for len(seen) > 0 && seen[0].identity() != o.identity { // spans that ended meanwhile
			seen = seen[1:]
		}
		if len(seen) == 0 {
			break
		}
		s := &seen[0]
		if o.bucket == bucket && o.events == len(s.Events) && o.attributes == len(s.Attributes) &&
			o.dropped == s.DroppedEvents && o.status == s.Status && o.name == s.Name {
			continue
		}
		if o.bucket != bucket || o.dropped != s.DroppedEvents {
			o.events = 0 // each hour has the whole record of the span; users drop the oldest events
		}
		if b.held() >= MaxBuffered {
			b.drops[DropFull]++
			continue
		}
		b.encode(s, o.events, bucket)
		o.bucket, o.events, o.attributes, o.dropped = bucket, len(s.Events), len(s.Attributes), s.DroppedEvents
		o.status, o.name = s.Status, s.Name
	}
	var spare *encoder
	for _, e := range b.current {
		if e.count > 0 {
			b.seal(e)
		}
		if e.size() >= smallFlush || len(b.full) > 1 {
			spare = e
			spare.reset(0)
		}
	}
	b.current = nil
	if spare != nil {
		b.current = []*encoder{spare}
	}
	b.flying, b.full = b.full, nil
	var all uint64
	for _, n := range b.drops {
		all += n
	}
	dropped := uint32(min(all-b.told, math.MaxUint32))
	for i := range b.flying {
		c := &b.flying[i]
		c.bucket = min(c.bucket, bucket)
		c.stamp(b.o.Incarnation, now, dropped)
		dropped, b.told = 0, all
	}
	return b.flying
}

func size(chunks []sealed) (n int) {
	for i := range chunks {
		n += len(chunks[i].bytes)
	}
	return n
}

// drop counts the spans of chunks that are not stored. The next flush writes partial records again.
// If fly is set, drop removes the chunks from the flying ones.
func (b *Buffer) drop(why Reason, chunks []sealed, fly bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range chunks {
		b.drops[why] += uint64(chunks[i].header.count - chunks[i].header.partials)
	}
	for i := range b.open {
		b.open[i].bucket = math.MinInt64
	}
	if fly {
		gone := func(c sealed) bool {
			return slices.ContainsFunc(chunks, func(d sealed) bool { return &c.bytes[0] == &d.bytes[0] })
		}
		b.flying = slices.DeleteFunc(slices.Clone(b.flying), gone)
		b.bytes -= size(chunks)
	}
}

// Committed ends a flush: its batch was committed, or err is the reason why not. After an error the
// chunks of the flush are lost.
func (b *Buffer) Committed(err error) {
	b.mu.Lock()
	flown := b.flying
	b.bytes -= size(flown)
	b.flying = nil
	b.mu.Unlock()
	if err != nil {
		b.drop(DropWrite, flown, false)
		b.store.loaded = false
	}
}

// Bytes returns the bytes of all stored keys and values, if a flush has read them. [Size] returns
// them without a buffer.
func (b *Buffer) Bytes() int64 { return b.store.bytes.Load() }

// Close closes the buffer of an actor that goes to sleep, after its last flush. Spans that end
// later are dropped and counted.
func (b *Buffer) Close() {
	b.mu.Lock()
	b.closed = true
	list := b.open
	b.open, b.current, b.full = nil, nil, nil
	b.mu.Unlock()
	for i := range list {
		if l, ok := list[i].live.(interface{ forget() }); ok {
			l.forget()
		}
	}
}

// bucketOf returns the start of the hour of a time, in Unix seconds.
func bucketOf(ns int64) int64 {
	s := ns / 1e9
	if ns%1e9 < 0 {
		s--
	}
	past := s % bucketSeconds
	if past < 0 {
		past += bucketSeconds
	}
	return s - past
}

// bucketEnd returns the end of an hour in Unix nanoseconds.
func bucketEnd(bucket int64) int64 { return (bucket + bucketSeconds) * 1e9 }
