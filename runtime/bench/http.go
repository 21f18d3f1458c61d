package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/runtime"
)

// A caller is one keep-alive HTTP/1.1 connection that sends prepared requests. It does as little as
// a client can, so that the servers are what is compared.
type caller struct {
	conn net.Conn
	r    *bufio.Reader
}

func dial(addr string) *caller {
	c, err := net.Dial("tcp", addr)
	check(err)
	return &caller{conn: c, r: bufio.NewReader(c)}
}

// do sends a request and reads its response, which must be a success with a Content-Length.
func (c *caller) do(request []byte) {
	_, err := c.conn.Write(request)
	check(err)
	length, first := 0, true
	for {
		line, err := c.r.ReadSlice('\n')
		check(err)
		if first {
			if !bytes.HasPrefix(line, []byte("HTTP/1.1 20")) {
				rest, _ := io.ReadAll(io.LimitReader(c.r, 600))
				fatal(fmt.Errorf("response %s %s", line, rest))
			}
			first = false
		}
		if len(line) == 2 {
			break
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, err = strconv.Atoi(string(bytes.TrimSpace(v)))
			check(err)
		}
	}
	_, err = c.r.Discard(length)
	check(err)
}

func request(path string) []byte {
	return []byte("POST " + path +
		" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n7")
}

func callPath(key string) string { return "/actors/meter/" + key + "/-/call/record" }

// httpLoad measures callers against addr, each going round the paths.
func (b *bench) httpLoad(addr string, callers int, paths []string) float64 {
	requests := make([][]byte, len(paths))
	for i, p := range paths {
		requests[i] = request(p)
	}
	conns := make([]*caller, callers)
	for i := range conns {
		conns[i] = dial(addr)
		defer conns[i].conn.Close()
	}
	return b.load(callers, func(w, i int) { conns[w].do(requests[(w+i*callers)%len(requests)]) })
}

func (b *bench) httpNode(f func(addr string)) {
	b.node(runtime.Options{Listen: "127.0.0.1:0"}, func(rt *runtime.Runtime) { f(rt.Addr()) })
}

func (b *bench) httpDurable(callers, actors int) (v float64) {
	paths := keys(actors)
	for i := range paths {
		paths[i] = callPath(paths[i])
	}
	b.httpNode(func(addr string) { v = b.httpLoad(addr, callers, paths) })
	return v
}

func (b *bench) httpAlone() (v float64) {
	b.httpNode(func(addr string) {
		c, r := dial(addr), request(callPath("one"))
		defer c.conn.Close()
		v = b.p50(func(int) { c.do(r) })
	})
	return v
}

// serve runs f with a bare server for a handler.
func serve(h http.HandlerFunc, f func(addr string)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l)
	}()
	f(l.Addr().String())
	s.Close()
	<-done
}

// handler answers as a call does. It reads the request first, as a handler that needs its input
// must.
func handler(do func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		do()
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte("123\n"))
	}
}

func (b *bench) httpEmpty(callers int) (v float64) {
	serve(handler(func() {}), func(addr string) { v = b.httpLoad(addr, callers, []string{callPath("one")}) })
	return v
}

// httpRaw is a bare handler that makes one synced commit per call, over as many keys as there are
// actors.
func (b *bench) httpRaw(callers, actors int) (v float64) {
	b.pebbleDB(func(db *pebble.DB) {
		all := make([]actorRows, actors)
		for i := range all {
			all[i] = rowsFor(i)
		}
		var next atomic.Int64
		serve(handler(func() {
			batch := put(db, &all[int(next.Add(1))%actors])
			check(batch.Commit(pebble.Sync))
			batch.Close()
		}), func(addr string) { v = b.httpLoad(addr, callers, []string{callPath("one")}) })
	})
	return v
}

// httpRawAlone is a bare handler that makes one synced commit of a durable action's rows.
func (b *bench) httpRawAlone() (v float64) {
	b.pebbleDB(func(db *pebble.DB) {
		rows := rowsFor(1)
		serve(handler(func() {
			batch := put(db, &rows)
			check(batch.Commit(pebble.Sync))
			batch.Close()
		}), func(addr string) {
			c, r := dial(addr), request(callPath("one"))
			defer c.conn.Close()
			v = b.p50(func(int) { c.do(r) })
		})
	})
	return v
}
