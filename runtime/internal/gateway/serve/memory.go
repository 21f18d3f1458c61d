package serve

import (
	"io"
	"strconv"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
)

// A Memory bounds the memory that is kept for all clients together: bodies of requests, messages of
// WebSockets, and what waits to be written to those.
type Memory struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes, and reports whether there were so many.
func (m *Memory) take(n int64) bool {
	if m.used.Add(n) > m.limit {
		m.used.Add(-n)
		return false
	}
	return true
}

// Add takes n bytes, or gives them back if n is negative, whether there are so many or not.
func (m *Memory) Add(n int) { m.used.Add(int64(n)) }

// Used returns how many bytes are taken.
func (m *Memory) Used() int64 { return m.used.Load() }

// over reports whether more is taken than there is.
func (m *Memory) over() bool { return m.Used() > m.limit }

// firstRead is how much memory a body gets before any of it has arrived.
const firstRead = 64 << 10

// A bodyReader takes memory for what it reads, firstRead bytes at a time, because what a header
// promises is not yet there.
type bodyReader struct {
	io.Reader
	of   *Memory
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

// crowded returns the error for a body that there is no memory for.
func (m *Memory) crowded() *host.Error {
	return host.Errorf(host.Overloaded,
		"the bodies of other requests and what waits for other clients take all of %d bytes", m.limit).
		With("limit", strconv.FormatInt(m.limit, 10)).Retry()
}
