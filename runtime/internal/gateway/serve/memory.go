package serve

import (
	"io"
	"strconv"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
)

// A Memory bounds the memory for all clients together: bodies of requests, messages of WebSockets,
// and their unwritten bytes.
type Memory struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes, and reports whether there was enough memory.
func (m *Memory) take(n int64) bool {
	if m.used.Add(n) > m.limit {
		m.used.Add(-n)
		return false
	}
	return true
}

// Add takes n bytes, even beyond the limit, or gives them back if n is negative.
func (m *Memory) Add(n int) { m.used.Add(int64(n)) }

// Used returns how many bytes are taken.
func (m *Memory) Used() int64 { return m.used.Load() }

// over reports whether more is taken than the limit.
func (m *Memory) over() bool { return m.Used() > m.limit }

// firstRead is how much memory a body gets before its first byte.
const firstRead = 64 << 10

// A bodyReader takes memory for its reads, firstRead bytes at a time, because the length in the
// header has not arrived yet.
type bodyReader struct {
	io.Reader
	of   *Memory
	held int64 // taken
	room int64 // bytes that may be read before more must be taken
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

// crowded returns the error for a body without memory.
func (m *Memory) crowded() *host.Error {
	return host.Errorf(host.Overloaded,
		"the bodies of other requests and what waits for other clients take all of %d bytes", m.limit).
		With("limit", strconv.FormatInt(m.limit, 10)).Retry()
}
