package gateway

import (
	"bytes"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestBodiesOfAllRequestsShareAMemory(t *testing.T) {
	g := &Gateway{}
	g.memory.limit = 300 << 10
	g.opts.Limits = Limits{BodyBytes: 1 << 20}.withTimeouts()
	read := func(n int) (*exchange, []byte, *host.Error) {
		r := httptest.NewRequest("POST", "/", io.LimitReader(zeros{}, int64(n)))
		r.ContentLength = -1
		x := &exchange{g: g, w: httptest.NewRecorder(), r: r}
		b, err := x.body()
		return x, b, err
	}
	first, b, err := read(200 << 10)
	if err != nil || len(b) != 200<<10 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	second, _, err := read(200 << 10)
	if err == nil || err.Code != host.Overloaded || !err.Retryable || err.Metadata["limit"] != "307200" {
		t.Fatalf("%v", err)
	}
	second.freeBody()
	first.freeBody()
	third, b, err := read(200 << 10)
	if err != nil || len(b) != 200<<10 {
		t.Fatalf("after the first was answered: %d bytes, %v", len(b), err)
	}
	third.freeBody()
	if n := g.memory.used.Load(); n != 0 {
		t.Fatalf("%d bytes are still taken", n)
	}
}

// withTimeouts returns l with what a gateway sets.
func (l Limits) withTimeouts() Limits { return Options{Limits: l}.EnsureDefaults().Limits }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, strings.Repeat("0", len(p))), nil }

func TestWhatWaitsForWebSocketsSharesAMemory(t *testing.T) {
	m := &memory{limit: 100 << 10}
	limits := Limits{StreamBufferBytes: 10 << 10}.withTimeouts()
	server, client := net.Pipe()
	defer client.Close()
	s := &socket{Conn: server, limits: &limits, memory: m, writing: true} // another goroutine writes, and does not get on
	s.room.L = &s.mu
	payload := bytes.Repeat([]byte("x"), 30<<10)
	var err error
	sent := 0
	for ; sent < 20 && err == nil; sent++ {
		err = s.send(payload)
	}
	if err != errSlow || sent < 3 || sent > 6 {
		t.Fatalf("%d messages, then %v", sent, err)
	}
	s.mu.Lock()
	s.fail(io.ErrClosedPipe)
	s.mu.Unlock()
	if n := m.used.Load(); n != 0 {
		t.Fatalf("%d bytes are still taken", n)
	}
}
