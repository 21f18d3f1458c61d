package gateway

import (
	"io"
	"strconv"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
)

// A memory bounds what is kept for all clients together: bodies of requests, messages of WebSockets, and what waits to be
// written to those. A nil memory bounds nothing.
type memory struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes, and reports whether there were so many.
func (m *memory) take(n int64) bool {
	if m == nil {
		return true
	}
	if m.used.Add(n) > m.limit {
		m.used.Add(-n)
		return false
	}
	return true
}

// add takes n bytes, or gives them back if n is negative, whether there are so many or not.
func (m *memory) add(n int) {
	if m != nil {
		m.used.Add(int64(n))
	}
}

// over reports whether more is taken than there is.
func (m *memory) over() bool { return m != nil && m.used.Load() > m.limit }

// A bodyReader takes memory for what it reads, firstRead bytes at a time, because what a header promises is not yet there.
type bodyReader struct {
	io.Reader
	of   *memory
	held int64 // taken
	room int64 // taken and not read yet, or to be read without being taken
	full bool
}

// Read implements io.Reader. It ends with io.ErrShortBuffer if there is no memory.
func (b *bodyReader) Read(p []byte) (int, error) {
	if b.room == 0 {
		if !b.of.take(firstRead) {
			b.full = true
			return 0, io.ErrShortBuffer
		}
		b.held += firstRead
		b.room = firstRead
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.room)])
	b.room -= int64(n)
	return n, err
}

// freeBody gives back the memory of the request's body.
func (x *exchange) freeBody() {
	if x.held > 0 {
		x.g.memory.add(-int(x.held))
		x.held = 0
	}
}

// crowded returns the error for a body that there is no memory for.
func crowded(limit int64) *host.Error {
	return host.Errorf(host.Overloaded, "the bodies of other requests and what waits for other clients take all of %d bytes", limit).
		With("limit", strconv.FormatInt(limit, 10)).Retry()
}
