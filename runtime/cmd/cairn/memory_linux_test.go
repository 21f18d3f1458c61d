package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var cgroupTime = flag.Duration("cgroup", 0, "for how long a node under a memory limit of 512 MiB is loaded; 0 skips the test")

// TestNodeLivesWithinItsCgroup loads a node whose cgroup has 512 MiB with calls, values, SQL,
// streams and connections, all at once. The kernel kills it if it takes more. It must serve at the
// end, and must have done work of every kind.
func TestNodeLivesWithinItsCgroup(t *testing.T) {
	if *cgroupTime == 0 {
		t.Skip("runs with -cgroup only: it needs root, and loads the machine")
	}
	const limit = 512 << 20
	group := memoryCgroup(t, limit)
	dir := t.TempDir()
	d := &daemon{cmd: exec.Command("/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group, executable,
		"serve", "--json", "--listen", "127.0.0.1:0", "--data", dir), stderr: new(strings.Builder), exited: make(chan error, 1)}
	d.begin(t)
	ctx, cancel := context.WithTimeout(t.Context(), *cgroupTime)
	defer cancel()
	load := &memoryLoad{url: d.url, ctx: ctx, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}}
	kinds := load.kinds()
	var wg sync.WaitGroup
	for _, kind := range kinds {
		for range kind.clients {
			wg.Go(func() {
				for ctx.Err() == nil {
					kind.do(kind)
				}
			})
		}
	}
	var peak int64
	for ctx.Err() == nil {
		select {
		case <-time.After(100 * time.Millisecond):
		case err := <-d.exited:
			d.exited <- err
			for _, k := range kinds {
				t.Logf("%-12s %8d done %8d refused", k.name, k.done.Load(), k.refused.Load())
			}
			t.Fatalf("the node ended after a peak of %d MiB: %v\n%s", peak>>20, err, d.stderr)
		}
		peak = max(peak, residentBytes(d.cmd.Process.Pid))
	}
	wg.Wait()
	for _, k := range kinds {
		t.Logf("%-12s %8d done %8d refused", k.name, k.done.Load(), k.refused.Load())
		errorIf(t, k.done.Load() == 0, "no %s was done", k.name)
	}
	t.Logf("peak of the resident memory: %d MiB of %d; largest of the cgroup: %s", peak>>20, limit>>20,
		readFile(group+"/memory.max_usage_in_bytes"))
	if res, err := http.Get(d.url + "/healthz"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the node is not well: %v %v", res, err)
	}
	if res, err := http.Get(d.url + "/metrics"); err == nil {
		b, _ := io.ReadAll(res.Body)
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "bytes ") && !strings.HasPrefix(line, "#") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

// memoryCgroup makes a cgroup that may take limit bytes and no swap.
func memoryCgroup(t *testing.T, limit int64) string {
	t.Helper()
	name := "cairn-test-" + strconv.Itoa(os.Getpid())
	dir, file := filepath.Join("/sys/fs/cgroup/memory", name), "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, file = filepath.Join("/sys/fs/cgroup", name), "memory.max"
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		t.Skipf("the memory of a cgroup cannot be limited here: %v", err)
	}
	_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0o644)
	return dir
}

func readFile(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// residentBytes returns the resident memory of a process that is not of a file.
func residentBytes(pid int) int64 {
	for line := range strings.Lines(readFile(fmt.Sprintf("/proc/%d/status", pid))) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssAnon:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// A memoryLoad is work for cells of a node.
type memoryLoad struct {
	ctx    context.Context
	url    string
	client *http.Client
}

// A loadKind is a kind of work and how many clients do it.
type loadKind struct {
	name          string
	clients       int
	do            func(*loadKind)
	done, refused atomic.Int64
}

func (l *memoryLoad) kinds() []*loadKind {
	blob := strings.Repeat("0123456789abcdef", 7<<10) // 112 KiB
	some := func(n int) string { return blob[:rand.IntN(n)] }
	cell := func(n int) string { return fmt.Sprintf("k%d", rand.IntN(n)) }
	call := func(k *loadKind, cell, method string, input map[string]any) { l.send(k, cell+"/-/call/"+method, input) }
	return []*loadKind{
		{name: "state", clients: 16, do: func(k *loadKind) { call(k, cell(20_000), "set_state", map[string]any{"state": some(32 << 10)}) }},
		{name: "kv", clients: 24, do: func(k *loadKind) {
			call(k, cell(500), "put", map[string]any{"key": []any{rand.IntN(100)}, "value": some(len(blob))})
		}},
		{name: "sql", clients: 16, do: func(k *loadKind) {
			c := cell(300)
			call(k, c, "sql.exec",
				map[string]any{"sql": "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, body TEXT, n REAL)", "reason": "load"})
			call(k, c, "sql.exec",
				map[string]any{"sql": "INSERT INTO t (body, n) SELECT hex(randomblob(500)), random() FROM generate_series(1, 1000)", "reason": "load"})
		}},
		{name: "sort", clients: 16, do: func(k *loadKind) {
			call(k, cell(300), "sql.query",
				map[string]any{"sql": "SELECT count(*) FROM (SELECT body, n FROM t ORDER BY body, n LIMIT 50000)"})
			call(k, cell(300), "sql.query",
				map[string]any{"sql": "SELECT length(group_concat(a.body)) FROM t a, (SELECT 1 FROM t LIMIT 5) b"})
		}},
		{name: "stream", clients: 16, do: func(k *loadKind) {
			call(k, cell(200), "stream.append", map[string]any{"stream": "s", "items": []string{blob[:60<<10], some(60 << 10)}})
		}},
		{name: "queue", clients: 16, do: func(k *loadKind) {
			c := cell(200)
			call(k, c, "queue.send", map[string]any{"queue": "q", "messages": []any{map[string]any{"body": some(60 << 10)}}})
			call(k, c, "queue.receive", map[string]any{"queue": "q", "limit": 10, "lock_ms": 1000})
		}},
		{name: "follower", clients: 48, do: func(k *loadKind) { l.send(k, cell(200)+"/-/streams/s", nil) }},
		{name: "events", clients: 48, do: func(k *loadKind) { l.send(k, cell(500)+"/-/events", nil) }},
	}
}

// send calls a method. Without an input it reads events or items slowly for a second. A node that
// is busy refuses.
func (l *memoryLoad) send(k *loadKind, path string, input map[string]any) {
	ctx, method, body := l.ctx, http.MethodPost, []byte(nil)
	if input == nil {
		c, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		ctx, method = c, http.MethodGet
	} else {
		body, _ = json.Marshal(input)
	}
	q, err := http.NewRequestWithContext(ctx, method, l.url+"/actors/cell/"+path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	res, err := l.client.Do(q)
	if err != nil {
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		if k.refused.Add(1) < 4 {
			out, _ := io.ReadAll(io.LimitReader(res.Body, 300))
			fmt.Fprintf(os.Stderr, "%s: %d %s\n", path, res.StatusCode, out)
		}
		return
	}
	k.done.Add(1)
	for buf := make([]byte, 1024); err == nil; {
		if _, err = res.Body.Read(buf); input == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// The memory of an import and an export does not grow with the store: of three times as many
// entries it takes less than two thirds of what they are more.
func TestStreamedEntriesTakeLittleMemory(t *testing.T) {
	if os.Getenv("CAIRN_LONG") == "" {
		t.Skip("writes 180 MB: `make soak` runs this, and TestEntriesAreStreamed is its short form")
	}
	const few, many, size = 15, 45, 1_000_000
	less, more := streamed(t, few, size), streamed(t, many, size)
	for i, verb := range []string{"import", "export", "export to SQLite"} {
		t.Logf("%s: %d MiB for %d entries, %d MiB for %d", verb, less[i]>>20, few, more[i]>>20, many)
		errorIf(t, more[i] > less[i]+(many-few)*size*2/3,
			"%s: %d MiB of memory for %d entries, %d MiB for %d", verb, less[i]>>20, few, more[i]>>20, many)
	}
}

// streamed imports entries of a size and exports them twice. It returns how much memory each took
// at most.
func streamed(t *testing.T, entries, size int) (peaks []int64) {
	d := serve(t, t.TempDir())
	in, out := io.Pipe()
	go func() {
		value := strings.Repeat("x", size)
		for i := range entries {
			fmt.Fprintf(out, `{"key":[%d],"value":%q,"encoding":"text"}`+"\n", i, value)
		}
		out.Close()
	}()
	file := filepath.Join(t.TempDir(), "entries")
	for _, args := range [][]string{{"import", "cell/a", "-"}, {"export", "cell/a", file},
		{"export", "cell/a", file, "--sqlite", "--force"}} {
		cmd := exec.Command(executable, append([]string{"--url=" + d.url, "kv"}, args...)...)
		cmd.Env = append(os.Environ(), "GOGC=25") // what is not in use is given back
		if args[0] == "import" {
			cmd.Stdin = in
		}
		text, err := cmd.CombinedOutput()
		must(t, err, args, "\n", text)
		peaks = append(peaks, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
		if info, err := os.Stat(file); args[0] == "export" && (err != nil || info.Size() < int64(entries*size)) {
			t.Errorf("%s: %v, %v", args, info, err)
		}
	}
	return peaks
}

// reserve returns an address on which nothing listens, and which the system gives to nothing that
// asks for any free port: a node that is started there again finds it free. It is bound for as long
// as the test runs, in a way that does not keep a listener away.
func reserve(t *testing.T) string {
	t.Helper()
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { syscall.Close(s) })
	must(t, syscall.SetsockoptInt(s, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	must(t, syscall.Bind(s, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(s)
	must(t, err)
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}
