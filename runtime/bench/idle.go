package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/runtime"
)

// idleSockets is how many WebSockets are held, over so many actors.
const (
	idleSockets = 10_000
	idleActors  = 100
)

// asHolder in the environment makes the program hold WebSockets: those of a "node", or of a "bare"
// server. It prints the address that it listens on, and, for each line that comes, how much memory
// it has in use: heap and stacks, and all that is resident.
const asHolder = "CAIRN_BENCH_HOLD"

// footprint is the memory of a process, or what a connection takes of it, in bytes.
type footprint struct{ heap, resident float64 }

// hold is the program as a holder.
func hold(what string) {
	if database, ok := strings.CutPrefix(what, "sql "); ok {
		holdDatabases(database)
		return
	}
	if what == "bare" {
		serve(holdBare, func(addr string) { report(addr, func() {}) })
		return
	}
	dir, err := os.MkdirTemp("", "cairn-bench-")
	check(err)
	defer os.RemoveAll(dir)
	b := &bench{dir: dir}
	o := runtime.Options{Listen: "127.0.0.1:0", IdleTimeout: time.Second, Actors: stageDefinition(func(int) {})}
	b.node(o, func(rt *runtime.Runtime) {
		report(rt.Addr(), func() {
			for awake(rt) > 0 {
				time.Sleep(100 * time.Millisecond)
			}
		})
	})
}

// holdBare holds a WebSocket and reads what comes.
func holdBare(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
	check(err)
	defer ws.CloseNow()
	_, _, err = ws.Read(context.Background()) // the hello
	check(err)
	check(ws.Write(context.Background(), websocket.MessageText, []byte(`{"welcome":{}}`)))
	ws.Read(context.Background())
}

// report prints the address, and the footprint for each line, when what is to rest does.
func report(addr string, rest func()) {
	fmt.Println(addr)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		rest()
		debug.FreeOSMemory()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		fmt.Println(m.HeapAlloc+m.StackInuse, resident())
	}
}

// resident returns the resident memory of the process in bytes.
func resident() int {
	text, err := os.ReadFile("/proc/self/statm")
	check(err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	check(err)
	return pages * os.Getpagesize()
}

// idle returns what one of n idle WebSockets takes of the memory of another process that holds
// them.
func (b *bench) idle(what string, n int) footprint {
	return once(b, "idle "+what, func() footprint {
		holder := exec.Command(os.Args[0])
		holder.Env = append(os.Environ(), asHolder+"="+what)
		holder.Stderr = os.Stderr
		in, err := holder.StdinPipe()
		check(err)
		out, err := holder.StdoutPipe()
		check(err)
		check(holder.Start())
		lines := bufio.NewScanner(out)
		lines.Scan()
		addr := lines.Text()
		ask := func() (f footprint) {
			io.WriteString(in, "\n")
			lines.Scan()
			_, err := fmt.Sscan(lines.Text(), &f.heap, &f.resident)
			check(err)
			return f
		}
		warm := sockets(addr, min(256, n))
		before := ask()
		n := affordable(n)
		held := sockets(addr, n)
		after := ask()
		leave(warm)
		leave(held)
		in.Close()
		check(holder.Wait())
		return footprint{(after.heap - before.heap) / float64(n), (after.resident - before.resident) / float64(n)}
	})
}

// sockets opens n WebSockets, and answers pings.
func sockets(addr string, n int) []*listener {
	open := make([]*listener, n)
	rateOnce(32, n, func(i int) {
		path := "/actors/stage/stage-" + strconv.Itoa(i%idleActors) + "/-/connect"
		open[i] = listen(addr, path, stageHello, true)
		go func() {
			for err := error(nil); err == nil; {
				_, err = open[i].next(1)
			}
		}()
	})
	return open
}

func leave(open []*listener) {
	for _, l := range open {
		l.conn.(*net.TCPConn).Close()
	}
}

// affordable returns how many of n files or sockets a process may have open beside a few hundred
// others, and says so if it is less.
func affordable(n int) int {
	var limit syscall.Rlimit
	check(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if most := int(min(limit.Cur, 1<<30)) - 600; n > most {
		fmt.Fprintf(os.Stderr, "bench: %d files instead of %d: ulimit -n is %d\n", most, n, limit.Cur)
		return most
	}
	return n
}
