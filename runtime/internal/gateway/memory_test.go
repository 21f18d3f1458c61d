package gateway

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

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

func TestMessagesOfAllWebSocketsShareAMemory(t *testing.T) {
	lobby(t, Options{Limits: Limits{MemoryBytes: 300 << 10}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		release := make(chan struct{})
		conn.call = func(_ context.Context, r *host.Request) (host.Reply, error) {
			if r.Method == "slow" {
				<-release
			}
			return host.Reply{Version: 5}, nil
		}
		long := `"` + strings.Repeat("x", 250<<10) + `"`
		first, second := join(t, l), join(t, l)
		first.say(`{"id":1,"call":"slow","input":` + long + `}`)
		synctest.Wait()
		second.say(`{"id":1,"call":"add","input":` + long + `}`)
		second.expectBye("the bodies of other requests and what waits for other clients take all of 307200 bytes", websocket.StatusTryAgainLater)
		close(release)
		first.expect(`{"id":1,"version":5}`)
		first.say(`{"id":2,"call":"add","input":` + long + `}`)
		first.expect(`{"id":2,"version":5}`)
		for _, refused := range []string{`{"id":3,"connect":{"params":` + long + `}}`, `{"id":4,"call":"","input":` + long + `}`} {
			first.say(refused)
			if got, err := first.hear(); err != nil || !strings.Contains(got, `"error"`) {
				t.Errorf("got %q, %v", got, err)
			}
		}
		first.say(`{"unfollow":5` + strings.Repeat(" ", 200<<10) + `}`)
		first.ws.CloseNow()
		synctest.Wait()
		if n := g.memory.used.Load(); n != 0 {
			t.Errorf("%d bytes are still taken", n)
		}
	})
}

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
	if _, err := s.Write([]byte{frameClose, 0}); err == nil { // the library says goodbye to a client that is gone
		t.Error("a failed socket takes what is written")
	}
	if n := m.used.Load(); n != 0 {
		t.Fatalf("%d bytes are still taken", n)
	}
}
