package serve

import (
	"bytes"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/internal/testutil"
)

func TestBodiesOfAllRequestsShareAMemory(t *testing.T) {
	f := newFront(t, Options{Limits: Limits{BodyBytes: 1 << 20, MemoryBytes: 300 << 10}})
	read := func(n int) (*Exchange, []byte, *host.Error) {
		r := httptest.NewRequest("POST", "/", io.LimitReader(zeros{}, int64(n)))
		r.ContentLength = -1
		x := &Exchange{Front: f, W: httptest.NewRecorder(), R: r}
		b, err := x.Body()
		return x, b, err
	}
	first, b, err := read(200 << 10)
	fatalIf(t, err != nil || len(b) != 200<<10, "%d bytes, %v", len(b), err)
	second, _, err := read(200 << 10)
	fatalIf(t, err == nil || err.Code != host.Overloaded || !err.Retryable || err.Metadata["limit"] != "307200",
		"%v", err)
	second.FreeBody()
	first.FreeBody()
	third, b, err := read(200 << 10)
	fatalIf(t, err != nil || len(b) != 200<<10, "after the first was answered: %d bytes, %v", len(b), err)
	third.FreeBody()
	same(t, f.Memory.Used(), 0)
}

// newFront makes a front that the test closes.
func newFront(t *testing.T, o Options) *Front {
	t.Helper()
	f, err := New(o)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, strings.Repeat("0", len(p))), nil }

func TestWhatWaitsForWebSocketsSharesAMemory(t *testing.T) {
	f := newFront(t, Options{Limits: Limits{StreamBufferBytes: 10 << 10, MemoryBytes: 100 << 10}})
	server, client := net.Pipe()
	defer client.Close()
	s := &Socket{Conn: server, front: f, writing: true} // another goroutine writes, and does not get on
	s.room.L = &s.mu
	payload := bytes.Repeat([]byte("x"), 30<<10)
	var err error
	sent := 0
	for ; sent < 20 && err == nil; sent++ {
		err = s.Send(payload)
	}
	fatalIf(t, err != ErrSlow || sent < 3 || sent > 6, "%d messages, then %v", sent, err)
	s.mu.Lock()
	s.fail(io.ErrClosedPipe)
	s.mu.Unlock()
	if _, err := s.Write([]byte{frameClose, 0}); err == nil { // the library says goodbye to a client that is gone
		t.Error("a failed socket takes what is written")
	}
	same(t, f.Memory.Used(), 0)
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// same is an error unless got is want. where says of what.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%v: %v, not %v", where, got, want)
	}
}
