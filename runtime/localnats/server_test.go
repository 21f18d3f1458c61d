package localnats

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// start runs a server that ends with the test.
func start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// connect opens a connection in process that ends with the test.
func connect(t testing.TB, s *Server, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := s.Connect(opts...)
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

var must = testutil.Must

// streams returns the JetStream of a connection.
func streams(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	must(t, err)
	return js
}

func TestZeroOptionsOpenNoPortCarryMessagesAndLogToTheLogger(t *testing.T) {
	var buf lockedBuffer
	s := start(t, Options{Logger: slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if url, addr := s.ClientURL(), s.nats.Addr(); url != "" || addr != nil {
		t.Errorf("the server listens on %q, %v without Listen", url, addr)
	}
	nc := connect(t, s)
	sub, err := nc.SubscribeSync("a.*")
	must(t, err)
	must(t, nc.Publish("a.b", []byte("hello")))
	if m, err := sub.NextMsg(time.Minute); err != nil || string(m.Data) != "hello" {
		t.Fatalf("got %v, %v", m, err)
	}
	if got := nc.MaxPayload(); got != DefaultMaxPayload {
		t.Errorf("max payload %d", got)
	}
	nc.Close()
	s.Close()
	if !strings.Contains(buf.String(), "nats server: ") {
		t.Errorf("nothing was logged: %q", buf.String())
	}
}

func TestListenServesClientsFromOutsideThatShowTheirCredentials(t *testing.T) {
	s := start(t, Options{Listen: "127.0.0.1:0", ServerName: "outer", MaxPayload: 4096, User: "ann", Password: "secret"})
	connect(t, s) // shows the credentials by itself
	if nc, err := nats.Connect(s.ClientURL()); err == nil {
		nc.Close()
		t.Error("a client without credentials was let in")
	}
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("ann", "secret"))
	must(t, err)
	defer nc.Close()
	if nc.ConnectedServerName() != "outer" || nc.MaxPayload() != 4096 {
		t.Errorf("name %q, max payload %d", nc.ConnectedServerName(), nc.MaxPayload())
	}
}

func TestListeningElsewhereWithoutCredentialsIsRefused(t *testing.T) {
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:4222", "nats.example:4222"} {
		_, err := Start(Options{Listen: listen})
		var exposed *ExposedError
		if !errors.As(err, &exposed) || exposed.Listen != listen {
			t.Errorf("Listen %q: %v", listen, err)
		}
	}
	for _, listen := range []string{"localhost:0", "127.0.0.1:0", "127.8.8.8:0", "[::1]:0"} {
		if err := (Options{Listen: listen}).Validate(); err != nil {
			t.Errorf("Listen %q: %v", listen, err)
		}
	}
	if err := (Options{Listen: ":4222", Token: "secret"}).Validate(); err != nil {
		t.Errorf("with a token: %v", err)
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	err := Options{Listen: "nonsense", Token: "a", User: "b", JetStream: true, MaxPayload: -1, MaxStoreBytes: -1}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"Listen", "exclude each other", "needs a Password", "StoreDir", "MaxPayload", "MaxStoreBytes"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:-1"} {
		if (Options{Listen: listen}).Validate() == nil {
			t.Errorf("Listen %q was accepted", listen)
		}
	}
}

func TestAPortInUseIsAnErrorNotAnExit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	began := time.Now()
	s, err := Start(Options{Listen: l.Addr().String()})
	if err == nil {
		s.Close()
		t.Fatal("started on a port in use")
	}
	if took := time.Since(began); !strings.Contains(err.Error(), "in use") || took >= startTimeout {
		t.Errorf("after %v: %v", took, err)
	}
}

func TestJetStreamKeepsMessagesAcrossRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "js")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for round := uint64(1); round <= 2; round++ {
		s := start(t, Options{JetStream: true, StoreDir: dir, MaxStoreBytes: 16 << 20, MaxMemoryBytes: 16 << 20})
		nc := connect(t, s)
		js := streams(t, nc)
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
		must(t, err)
		ack, err := js.Publish(ctx, "s.a", []byte("x"))
		must(t, err)
		if ack.Sequence != round {
			t.Errorf("round %d stored sequence %d", round, ack.Sequence)
		}
		nc.Close()
		s.Close()
	}
}

// lockedBuffer is a buffer that many goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestCloseWaitsAndConnectFailsAfterwards(t *testing.T) {
	before, _ := ours()
	for range 5 {
		s := start(t, Options{Listen: "127.0.0.1:0"})
		connect(t, s).Close()
		s.Close()
		s.Close()
		if _, err := s.Connect(); !errors.Is(err, ErrClosed) {
			t.Errorf("Connect after Close: %v", err)
		}
	}
	// The client library's goroutines end by themselves after its Close returns.
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		n, all := ours()
		if n <= before {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines: %d, before %d\n%s", n, before, all)
		}
	}
}

// ours counts the goroutines of servers and of the client library, and returns their stacks.
func ours() (n int, all string) {
	stacks := make([]byte, 4<<20)
	for one := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(one, "/nats.go.") || strings.Contains(one, "/nats-server/") {
			n++
			all += one + "\n\n"
		}
	}
	return n, all
}

func TestServeDemandsItsTokenAndKeepsStreamsInItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nats")
	s, err := Serve("127.0.0.1:0", "secret", dir, slog.New(slog.DiscardHandler))
	must(t, err)
	defer s.Close()
	if nc, err := nats.Connect(s.ClientURL()); err == nil {
		nc.Close()
		t.Error("a client without the token is let in")
	}
	nc, err := nats.Connect(s.ClientURL(), nats.Token("secret"))
	must(t, err)
	defer nc.Close()
	_, err = streams(t, nc).CreateStream(t.Context(), jetstream.StreamConfig{Name: "s"})
	must(t, err)
	_, err = os.Stat(dir)
	must(t, err)
}
