package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// drive sends b.N requests through 64 keep-alive connections. The client writes prepared bytes and
// parses only the length of a response, so nearly all of the work is the server's.
func drive(b *testing.B, h http.Handler, request string) {
	const callers = 64
	s := httptest.NewServer(h)
	defer s.Close()
	var left atomic.Int64
	left.Store(int64(b.N))
	conns := make([]net.Conn, callers)
	for i := range conns {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for _, conn := range conns {
		all.Go(func() {
			r := bufio.NewReader(conn)
			for left.Add(-1) >= 0 {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Error(err)
					return
				}
				length := -1
				for n := 0; ; n++ {
					line, err := r.ReadSlice('\n')
					if err != nil || n == 0 && string(line) != "HTTP/1.1 200 OK\r\n" {
						b.Errorf("%q %v", line, err)
						return
					}
					if len(line) == 2 {
						break
					}
					if v, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
						fmt.Sscan(v, &length)
					}
				}
				if _, err := r.Discard(length); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

const benchBody = `{"amount":1}`

// BenchmarkHTTPCall calls a node that does nothing through the gateway. runtime/bench compares
// calls, fan-out and idle sockets with bare handlers.
func BenchmarkHTTPCall(b *testing.B) {
	request := func(path string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			path, len(benchBody), benchBody)
	}
	node := new(hall)
	path := "/actors/room/acme/-/call/add"
	b.Run("gateway", func(b *testing.B) { drive(b, newGateway(b, setup{Node: node, LoopbackOnly: true}), request(path)) })
	b.Run("gateway token", func(b *testing.B) {
		g := newGateway(b, setup{Node: node, Token: "0123456789abcdef"})
		drive(b, g, strings.Replace(request(path), "Host", "Authorization: Bearer 0123456789abcdef\r\nHost", 1))
	})
	b.Run("gateway without timeout", func(b *testing.B) {
		drive(b, newGateway(b, setup{Node: node, LoopbackOnly: true, Limits: serve.Limits{CallTimeout: -1}}), request(path))
	})
}

// BenchmarkSocketCall calls a node that does nothing over one WebSocket, with 32 calls in flight.
func BenchmarkSocketCall(b *testing.B) {
	s := httptest.NewServer(newGateway(b, setup{Node: new(hall)}))
	defer s.Close()
	conn := greet(b, s.Listener.Addr().String(), upgradeRequest+maskedFrame(`{"connect":{}}`), `"events":[]}}`)
	const inFlight = 32
	request := []byte{}
	for i := range inFlight {
		request = append(request, maskedFrame(fmt.Sprintf(`{"id":%d,"call":"add","input":%s}`, 10+i, benchBody))...)
	}
	reply := len(fmt.Sprintf(`{"id":10,"version":1234567,"output":%s}`, benchBody)) + 2
	buf := make([]byte, inFlight*reply)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += inFlight {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, buf); err != nil {
			b.Fatal(err)
		}
	}
}
