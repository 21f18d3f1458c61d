package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// executable is the command, built once by TestMain.
var executable string

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.fuzzworker"); f != nil && f.Value.String() == "true" {
		os.Exit(m.Run()) // fuzzing does not run the command
	}
	dir, err := os.MkdirTemp("", "cairn-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	executable = filepath.Join(dir, "cairn")
	status := 1
	if out, err := exec.Command("go", "build", "-o", executable, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the command: %v\n%s", err, out)
	} else {
		status = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(status)
}

// A daemon is cairn serve in a process of its own.
type daemon struct {
	cmd    *exec.Cmd
	url    string
	stderr *strings.Builder
	exited chan error
}

// serve starts a node on dir and a free port, unless more arguments say otherwise.
func serve(t *testing.T, dir string, args ...string) *daemon {
	t.Helper()
	args = append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", dir}, args...)
	d := &daemon{cmd: exec.Command(executable, args...), stderr: new(strings.Builder), exited: make(chan error, 1)}
	d.cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "CAIRN_TOKEN=") })
	for i, a := range args {
		if a == "0.0.0.0:0" && args[i-1] == "--listen" {
			d.cmd.Env = append(d.cmd.Env, "CAIRN_TOKEN=secret")
		}
	}
	d.begin(t)
	return d
}

// begin starts the process and waits until it serves.
func (d *daemon) begin(t *testing.T) {
	t.Helper()
	d.cmd.Stderr = d.stderr
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() { d.exited <- d.cmd.Wait() }()
	t.Cleanup(func() { d.stop(syscall.SIGKILL) })
	var ready struct{ URL string }
	if err != nil || json.Unmarshal([]byte(line), &ready) != nil || ready.URL == "" {
		d.stop(syscall.SIGKILL)
		t.Fatalf("the node did not say that it serves: %q %v\n%s", line, err, d.stderr)
	}
	d.url = ready.URL
}

// stop sends a signal and returns how the process ended. A process that has ended is left alone.
func (d *daemon) stop(s syscall.Signal) error {
	select {
	case err := <-d.exited:
		d.exited <- err
		return err
	default:
	}
	// An error means that it has ended in between.
	_ = d.cmd.Process.Signal(s)
	err := <-d.exited
	d.exited <- err
	return err
}

func TestNothingAcknowledgedIsLostWhenTheNodeIsKilled(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, dir)

	// Eight writers write until the node is gone under them.
	const writers = 8
	acknowledged := make([]int, writers)
	var wg sync.WaitGroup
	var enough sync.WaitGroup
	enough.Add(writers)
	for w := range writers {
		wg.Go(func() {
			reached := false
			for i := 0; ; i++ {
				r := runCommand(t, "", nil, "call", "--url", d.url, "--attempts=1", fmt.Sprintf("cell/w%d", w), "put", fmt.Sprintf(`{"key":["n",%d],"value":%d}`, i, i*i))
				if i == 20 {
					reached = true
					enough.Done()
				}
				if r.status != 0 {
					if !reached {
						enough.Done()
					}
					return
				}
				acknowledged[w] = i + 1
			}
		})
	}
	enough.Wait()
	d.stop(syscall.SIGKILL)
	wg.Wait()

	d = serve(t, dir)
	for w := range writers {
		if acknowledged[w] < 20 {
			t.Fatalf("writer %d got only %d acknowledgements", w, acknowledged[w])
		}
		var stored, want int
		for r := range pages(t, d.url, fmt.Sprintf("cell/w%d", w)) {
			for _, e := range r {
				if string(e.Value) != fmt.Sprint(stored*stored) || string(e.Key) != fmt.Sprintf(`["n",%d]`, stored) {
					t.Fatalf("writer %d: entry %d is %s: %s", w, stored, e.Key, e.Value)
				}
				stored++
			}
		}
		// One more may have been committed than acknowledged.
		if want = acknowledged[w]; stored != want && stored != want+1 {
			t.Errorf("writer %d: %d acknowledged, %d stored", w, want, stored)
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, d.stderr)
	}
}

type entry struct{ Key, Value json.RawMessage }

// pages lists a cell's entries page by page.
func pages(t *testing.T, url, address string) func(func([]entry) bool) {
	return func(yield func([]entry) bool) {
		cursor := ""
		for {
			r := at(t, url, "call", "--json", address, "list", fmt.Sprintf(`{"limit":1000,"cursor":%q}`, cursor))
			var page struct {
				Output struct {
					Entries []entry
					Cursor  string
				}
			}
			if err := json.Unmarshal([]byte(r.stdout), &page); err != nil {
				t.Fatalf("%s: %v %s", address, err, r.stderr)
			}
			if !yield(page.Output.Entries) || page.Output.Cursor == "" {
				return
			}
			cursor = page.Output.Cursor
		}
	}
}

func TestSignalEndsTheNodeCleanly(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		d := serve(t, t.TempDir())
		if r := at(t, d.url, "call", "cell/a", "put", `{"key":["a"],"value":1}`); r.status != 0 {
			t.Errorf("%+v", r)
		}
		if err := d.stop(s); err != nil {
			t.Errorf("%v: %v\n%s", s, err, d.stderr)
		}
	}
}

func TestEventsContinueAfterTheNodeWasKilled(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, dir, "--listen", reserve(t))
	put := func(i int) {
		t.Helper()
		if r := at(t, d.url, "call", "cell/a", "put", fmt.Sprintf(`{"key":[%d],"value":%d}`, i, i)); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	put(0)
	follower := exec.Command(executable, "events", "cell/a", "--url", d.url, "--after", "0", "--count", "6", "--json")
	follower.Stderr = os.Stderr
	stdout, err := follower.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	next := func(want int) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the follower ended before event %d: %v", want, lines.Err())
		}
		var e struct {
			Sequence int
			Data     struct{ Value int }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Sequence != want || e.Data.Value != want-1 {
			t.Fatalf("got %s, want event %d", lines.Text(), want)
		}
	}
	next(1)
	put(1)
	next(2)
	put(2)
	d = d.restart(t, dir)
	put(3)
	put(4)
	put(5)
	for i := range 4 {
		next(i + 3)
	}
	if err := follower.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStoppedNodeCanBeReadFromItsDirectory(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, dir)
	for i := range 3 {
		at(t, d.url, "call", fmt.Sprintf("cell/a/%d", i), "put", `{"key":["users",42],"value":{"name":"Ada"}}`)
	}
	online := at(t, d.url, "inspect", "cell/a/1")
	if online.status != 0 || !strings.Contains(online.stdout, `kv("users", 42)`) || !strings.Contains(online.stdout, `{"name":"Ada"}`) {
		t.Errorf("%+v", online)
	}
	if r := runCommand(t, "", nil, "inspect", "cell/a/1", "--data", dir); r.status != 1 || !strings.Contains(r.stderr, "another process") {
		t.Errorf("the directory of a running node: %+v", r)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	offline := runCommand(t, "", nil, "inspect", "cell/a/1", "--data", dir)
	if offline.status != 0 || offline.stdout != online.stdout {
		t.Errorf("offline:\n%s%sonline:\n%s", offline.stdout, offline.stderr, online.stdout)
	}
	all := documents[host.Status](t, runCommand(t, "", nil, "actors", "cell", "--prefix", "a", "--data", dir, "--json").stdout)
	if len(all) != 3 || all[0].State != host.Asleep || all[0].Key[1] != "0" {
		t.Errorf("got %+v", all)
	}
	one := documents[host.Status](t, runCommand(t, "", nil, "status", "cell/a/2", "--data", dir, "--json").stdout)
	if len(one) != 1 || one[0].ID != all[2].ID || one[0].Version != all[2].Version {
		t.Errorf("got %+v", one)
	}
	same(t, runCommand(t, "", nil, "status", "cell/none", "--data", dir), 1, "",
		"error: not_found: there is no actor cell/none\n  actor: cell/none\n  see docs/errors/not_found.md\n")
	if r := runCommand(t, "", nil, "actors", "--data", filepath.Join(dir, "nowhere")); r.status != 1 || r.stdout != "" {
		t.Errorf("a directory that is not there: %+v", r)
	}
	if _, err := os.Stat(filepath.Join(dir, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Error("reading made a directory")
	}
}

func TestNodeBeyondLoopbackNeedsAToken(t *testing.T) {
	out, err := exec.Command(executable, "serve", "--listen", "0.0.0.0:0", "--data", t.TempDir()).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "token") {
		t.Errorf("%v %s", err, out)
	}
	d := serve(t, t.TempDir(), "--listen", "0.0.0.0:0")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	url := "http://127.0.0.1:" + port
	if r := at(t, url, "actors"); r.status != 1 || !strings.Contains(r.stderr, "unauthenticated") {
		t.Errorf("%+v", r)
	}
	if r := at(t, url, "actors", "--token", "secret"); r.status != 0 {
		t.Errorf("%+v", r)
	}
}

func TestBenchMeasuresEveryCombination(t *testing.T) {
	args := []string{"bench", "--duration=30ms", "--callers=1,4", "--actors=1,3", "--json"}
	check := func(r result, target string) {
		t.Helper()
		runs := documents[benchRun](t, r.stdout)
		if r.status != 0 || len(runs) != 4 {
			t.Fatalf("%+v", r)
		}
		for _, run := range runs {
			if run.Target != target || run.Calls < 1 || run.Rate <= 0 || run.P50 <= 0 || run.P99 < run.P50 || run.Max < run.P99 || run.Value != 100 {
				t.Errorf("%+v", run)
			}
		}
	}
	dir := t.TempDir()
	check(runCommand(t, "", nil, append(args, "--dir", dir)...), "this process")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the benchmark left %v, %v", left, err)
	}
	d := serve(t, t.TempDir())
	check(runCommand(t, "", nil, append(args, "--url", d.url)...), d.url)
	if r := at(t, d.url, "actors", "--json"); r.stdout != "" {
		t.Errorf("the benchmark left actors: %s", r.stdout)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("after destroying actors the node does not stop cleanly: %v\n%s", err, d.stderr)
	}
}
