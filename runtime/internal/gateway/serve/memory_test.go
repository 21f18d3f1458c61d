package serve

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/testutil"
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
	fatalIf(t, err == nil || err.Code != host.Overloaded || !err.Retryable || err.Metadata["limit"] != "307200", "%v", err)
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
	s := &Socket{Conn: server, front: f, writing: true} // another goroutine writes, without progress
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
	if _, err := s.Write([]byte{frameClose, 0}); err == nil { // the library's close frame for a client that is gone
		t.Error("a failed socket takes what is written")
	}
	same(t, f.Memory.Used(), 0)
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// same reports an error unless got is want. where names the value.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%v: %v, not %v", where, got, want)
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := New(Options{
		Token: "a b", AllowedOrigins: []string{"example.com", "https://x/"}, Behaviors: []*host.Behavior{nil},
		Registerer: onlyRegisterer{prometheus.NewRegistry()},
		Limits: Limits{BodyBytes: -1, BodyTimeout: -1, Streams: -1, Connections: -1, ConnectionCalls: -1, ConnectionBytes: -1,
			StreamWriteTimeout: -1, StreamBufferBytes: -1, Heartbeat: -1},
	})
	fatalIf(t, err == nil, "no error")
	for _, want := range []string{"Token", `"example.com"`, `"https://x/"`, "Behaviors[0]", "Registerer", "BodyBytes",
		"BodyTimeout", "Streams", "Connections", "ConnectionCalls", "ConnectionBytes", "StreamWriteTimeout", "StreamBufferBytes", "Heartbeat"} {
		errorIf(t, !strings.Contains(err.Error(), want), "%q is not reported in %v", want, err)
	}
	if _, err := New(Options{AllowedOrigins: []string{"*"}}); err == nil {
		t.Error(`"*" passes without authorization`)
	}
}

type onlyRegisterer struct{ prometheus.Registerer }

func TestExhaustedDescriptorsAreAWarningOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := log.New(&serverLog{log: slog.New(slog.NewTextHandler(&out, nil))}, "", 0)
		for range 30 {
			l.Print("http: TLS handshake error from 10.0.0.1:1: EOF")
			l.Print("http: Accept error: accept tcp 127.0.0.1:6420: accept4: too many open files; retrying in 100ms")
			time.Sleep(100 * time.Millisecond)
		}
		if n := strings.Count(out.String(), "level=WARN"); n != 3 || !strings.Contains(out.String(), "LimitNOFILE") ||
			strings.Contains(out.String(), "handshake") {
			t.Errorf("%d warnings in 3 seconds:\n%s", n, &out)
		}
	})
}

// The page of an error says its status.
func TestEveryCodeHasItsStatusAndAPage(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "..", "docs", "errors")
	for _, c := range host.Codes() {
		page, err := os.ReadFile(filepath.Join(dir, string(c)+".md"))
		if err != nil {
			t.Errorf("code %s has no page: %v", c, err)
			continue
		}
		errorIf(t, !strings.HasPrefix(string(page), "# "+string(c)+"\n"), "%s.md does not begin with its code", c)
		for _, part := range []string{fmt.Sprintf("\nHTTP status: %d\n", Status(c)), "\n## Cause\n", "\n## Remedy\n"} {
			errorIf(t, !strings.Contains(string(page), part), "%s.md lacks %q", c, strings.TrimSpace(part))
		}
	}
	if got := Status(host.ReadOnly); got != 400 { // usually a statement of the client
		t.Errorf("read_only has the status %d", got)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	must(t, err)
	for _, p := range pages {
		c := host.Code(strings.TrimSuffix(filepath.Base(p), ".md"))
		errorIf(t, !c.Known() && c != "README", "%s describes no code", p)
	}
}

func TestRetryAfterIsAsLongAsTheErrorAsksFor(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range [][3]string{
		{"retry_at", "", "1"}, {"retry_at", "soon", "1"}, {"retry_at", "2026-01-02T03:04:00Z", "1"},
		{"retry_at", "2026-01-02T03:04:15.5Z", "11"}, {"retry_at", "2027-01-02T03:04:05Z", "3600"},
		{"retry_after_ms", "", "1"}, {"retry_after_ms", "-5", "1"}, {"retry_after_ms", "soon", "1"}, {"retry_after_ms", "0", "1"},
		{"retry_after_ms", "1000", "1"}, {"retry_after_ms", "1001", "2"}, {"retry_after_ms", "90000",
			"90"}, {"retry_after_ms", "99999999999999999", "3600"},
	} {
		same(t, retryAfter(host.Errorf(host.Overloaded, "x").With(c[0], c[1]), now), c[2], c[0], c[1])
	}
}
