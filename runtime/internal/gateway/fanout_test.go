package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
)

// A crowd is many clients of one server, over loopback in this process, that count what they read and do nothing else. So
// nearly all of the work is the server's and the kernel's.
type crowd struct {
	conns []net.Conn
	bytes atomic.Int64
	want  atomic.Int64
	done  chan struct{}
	all   sync.WaitGroup
}

// gather connects n clients that each send opening, and waits until each has read up to the end of until.
func gather(tb testing.TB, addr string, n int, opening, until string) *crowd {
	tb.Helper()
	c := &crowd{done: make(chan struct{}, 1), conns: make([]net.Conn, n)}
	for i := range c.conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			tb.Fatal(err)
		}
		c.conns[i] = conn
		if _, err := io.WriteString(conn, opening); err != nil {
			tb.Fatal(err)
		}
		seen, one := make([]byte, 0, 512), make([]byte, 1)
		for !strings.HasSuffix(string(seen), until) {
			if _, err := conn.Read(one); err != nil {
				tb.Fatalf("%v after %q", err, seen)
			}
			seen = append(seen, one[0])
		}
	}
	return c
}

// listen begins to count.
func (c *crowd) listen() {
	for _, conn := range c.conns {
		c.all.Go(func() {
			buf := make([]byte, 4096)
			for {
				n, err := conn.Read(buf)
				if err != nil {
					return
				}
				if c.bytes.Add(int64(n)) == c.want.Load() {
					c.done <- struct{}{}
				}
			}
		})
	}
}

// measure runs write b.N times and waits each time until all clients have read a message of so many bytes.
func (c *crowd) measure(b *testing.B, size int, write func()) {
	c.listen()
	b.ReportAllocs()
	b.ResetTimer()
	start := cpu()
	for range b.N {
		c.want.Add(int64(size * len(c.conns)))
		write()
		<-c.done
	}
	b.StopTimer()
	messages := float64(b.N * len(c.conns))
	b.ReportMetric(messages/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64((cpu()-start).Microseconds())/messages, "cpu-us/message")
}

// cpu is the processor time that this process has used, which says more than the clock on a machine that is shared.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (c *crowd) leave() {
	for _, conn := range c.conns {
		conn.Close()
	}
	c.all.Wait()
}

const upgradeRequest = "GET /actors/room/a/-/connect HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n\r\n"

// maskedFrame is a text frame of a client's.
func maskedFrame(text string) string {
	return string([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}) + text
}

// A hall is a node that does nothing but answer calls with their input and hand events to its connections.
type hall struct {
	Node
	mu    sync.Mutex
	conns []*guest
}

func (h *hall) Call(_ context.Context, r *host.Request) (host.Reply, error) {
	return host.Reply{Output: r.Input, Version: 1234567}, nil
}

func (h *hall) Connect(context.Context, host.Address, host.ConnectRequest) (host.LiveConnection, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &guest{hall: h, events: make(chan []host.EmittedEvent, 4), closed: make(chan bool, 1)}
	h.conns = append(h.conns, c)
	return c, nil
}

func (h *hall) emit(e host.EmittedEvent) {
	e.Shared = new(host.SharedFrames)
	events := []host.EmittedEvent{e}
	for _, c := range h.conns {
		c.events <- events
	}
}

// A guest is a connection to a hall.
type guest struct {
	host.LiveConnection
	hall   *hall
	events chan []host.EmittedEvent
	closed chan bool // what Close said of its loss
}

func (c *guest) Welcome() host.Welcome { return host.Welcome{Connection: "c1", Token: "t1"} }

func (c *guest) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	r.Order.Placed()
	return c.hall.Call(ctx, r)
}

func (c *guest) Next(ctx context.Context) (host.Delivery, error) {
	select {
	case events := <-c.events:
		return host.Delivery{Events: events}, nil
	case <-ctx.Done():
		return host.Delivery{}, host.Errorf(host.CodeOf(ctx.Err()), "done")
	}
}

func (c *guest) Close(_ context.Context, lost bool) error { c.closed <- lost; return nil }

func said(n uint64, data string) host.EmittedEvent {
	return host.EmittedEvent{Sequence: n, Version: n + 100, Name: "said", Time: time.Unix(1_000_000_000, 0), Data: []byte(data)}
}

const crowdSize = 1000

// BenchmarkFanOut brings one event of 100 bytes to 1,000 clients, and waits until all have it. bare is a loop that writes
// the same message with the same library, or for server-sent events with net/http, to sockets of the same kind.
func BenchmarkFanOut(b *testing.B) {
	e := said(18, `{"text":"`+strings.Repeat("x", 80)+`"}`)
	text := eventMessage(&e)
	frame := len(text) + 2
	if len(text) > 125 {
		frame += 2
	}
	event := appendEvent(nil, &e)
	chunk := len(fmt.Sprintf("%x\r\n", len(event))) + len(event) + 2

	b.Run("websocket/bare", func(b *testing.B) {
		conns := make(chan *websocket.Conn, crowdSize)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				b.Error(err)
				return
			}
			defer ws.CloseNow()
			conns <- ws
			ws.Read(context.Background())
		}))
		defer s.Close()
		c := gather(b, s.Listener.Addr().String(), crowdSize, upgradeRequest, "\r\n\r\n")
		defer c.leave()
		var all []*websocket.Conn
		for range crowdSize {
			all = append(all, <-conns)
		}
		c.measure(b, frame, func() {
			for _, ws := range all {
				if err := ws.Write(context.Background(), websocket.MessageText, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("websocket/gateway", func(b *testing.B) {
		h := new(hall)
		s := httptest.NewServer(newGateway(b, setup{Node: h}))
		defer s.Close()
		c := gather(b, s.Listener.Addr().String(), crowdSize, upgradeRequest+maskedFrame(`{"connect":{}}`), `"events":[]}}`)
		defer c.leave()
		c.measure(b, frame, func() { h.emit(e) })
	})
	b.Run("events/bare", func(b *testing.B) {
		type writer struct {
			w  http.ResponseWriter
			rc *http.ResponseController
		}
		writers := make(chan writer, crowdSize)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			w.Header().Set("Content-Type", "text/event-stream")
			w.Write([]byte("\n\n"))
			rc.Flush()
			writers <- writer{w, rc}
			<-r.Context().Done()
		}))
		defer s.Close()
		c := gather(b, s.Listener.Addr().String(), crowdSize, strings.Split(upgradeRequest, "Connection")[0]+"\r\n", "\n\n\r\n")
		defer c.leave()
		var all []writer
		for range crowdSize {
			all = append(all, <-writers)
		}
		c.measure(b, chunk, func() {
			for _, w := range all {
				w.w.Write(event)
				if err := w.rc.Flush(); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("events/gateway", func(b *testing.B) {
		h := new(hall)
		s := httptest.NewServer(newGateway(b, setup{Node: h}))
		defer s.Close()
		c := gather(b, s.Listener.Addr().String(), crowdSize, strings.Split(upgradeRequest, "Connection")[0]+"\r\n", "\n\n\r\n")
		defer c.leave()
		c.measure(b, chunk, func() { h.emit(e) })
	})
}

// BenchmarkIdleWebSocket measures what a WebSocket costs that is open and does nothing, in bytes of this process without
// the client's side, which is a plain connection: heap and stacks. bare is a handler that reads with the same library.
func BenchmarkIdleWebSocket(b *testing.B) {
	run := func(b *testing.B, h http.Handler, opening, until string) {
		n := 9_000
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
			n = min(n, int(limit.Cur)/2-500)
		}
		for range b.N {
			s := httptest.NewServer(h)
			before := settled()
			c := gather(b, s.Listener.Addr().String(), n, opening, until)
			after := settled()
			b.ReportMetric(float64(after.HeapInuse-before.HeapInuse)/float64(n), "heap-B/socket")
			b.ReportMetric(float64(after.StackInuse-before.StackInuse)/float64(n), "stack-B/socket")
			b.ReportMetric(float64(n), "sockets")
			c.leave()
			s.Close()
		}
	}
	b.Run("bare", func(b *testing.B) {
		run(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if ws, err := websocket.Accept(w, r, nil); err == nil {
				defer ws.CloseNow()
				ws.Read(context.Background())
			}
		}), upgradeRequest, "\r\n\r\n")
	})
	b.Run("gateway", func(b *testing.B) {
		run(b, newGateway(b, setup{Node: new(hall)}), upgradeRequest+maskedFrame(`{"connect":{}}`), `"events":[]}}`)
	})
	b.Run("connection alone", func(b *testing.B) {
		run(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "\r\n\r\n")
			go func() {
				defer conn.Close()
				conn.Read(make([]byte, 1))
			}()
		}), upgradeRequest, "\r\n\r\n")
	})
}

// settled is the memory in use once the garbage is gone and stacks have shrunk.
func settled() runtime.MemStats {
	var m runtime.MemStats
	for range 5 {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
	runtime.ReadMemStats(&m)
	return m
}
