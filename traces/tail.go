package traces

import (
	"slices"
	"sync/atomic"
)

// Tail receives the spans that end in an actor from now on.
type Tail struct {
	b       *Buffer
	spans   chan Span
	dropped atomic.Uint64
}

// Tail returns a new subscription that holds up to n spans which its reader has not received. Spans beyond that are dropped for
// this reader and counted. Its caller must close it.
func (b *Buffer) Tail(n int) *Tail {
	t := &Tail{b: b, spans: make(chan Span, max(n, 1))}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		close(t.spans)
	} else {
		b.tails = append(b.tails, t)
	}
	return t
}

// Spans returns the channel of the spans. It is closed when the tail or the buffer is.
func (t *Tail) Spans() <-chan Span { return t.spans }

// Dropped returns how many spans this reader missed.
func (t *Tail) Dropped() uint64 { return t.dropped.Load() }

// Close ends the subscription.
func (t *Tail) Close() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if i := slices.Index(t.b.tails, t); i >= 0 {
		t.b.tails = slices.Delete(t.b.tails, i, i+1)
		close(t.spans)
	}
}

// send gives a span to the reader. The mutex of the buffer is held.
func (t *Tail) send(s *Span) {
	if len(t.spans) == cap(t.spans) {
		t.dropped.Add(1)
		return
	}
	t.spans <- s.Clone()
}
