package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
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
	"github.com/cairn-run/cairn/actor/host/changes"
)

// executable is the command: a link to this test program, which is the command wherever it is
// called by that name. So nothing is compiled a second time, and the race detector sees the command
// as well.
var executable string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "cairn" {
		main()
	}
	dir, err := os.MkdirTemp("", "cairn-test-")
	if err == nil {
		executable = filepath.Join(dir, "cairn")
		var program string
		if program, err = os.Executable(); err == nil {
			err = os.Symlink(program, executable)
		}
	}
	status := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
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

// configFile writes a configuration, and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cairn.toml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// begin starts the process and waits until it serves.
func (d *daemon) begin(t *testing.T) {
	t.Helper()
	d.cmd.Stderr = d.stderr
	stdout, err := d.cmd.StdoutPipe()
	must(t, err)
	must(t, d.cmd.Start())
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
	// Writers write until the node is gone under them.
	const writers, each = 4, 15
	acknowledged := make([]int, writers)
	var wg sync.WaitGroup
	var enough sync.WaitGroup
	enough.Add(writers)
	for w := range writers {
		wg.Go(func() {
			reached := sync.OnceFunc(enough.Done)
			defer reached()
			for i := 0; ; i++ {
				r := runCommand(t, "", nil, "call", "--url", d.url, "--attempts=1", fmt.Sprintf("cell/w%d", w), "put",
					fmt.Sprintf(`{"key":["n",%d],"value":%d}`, i, i*i))
				if r.status != 0 {
					return
				}
				if acknowledged[w] = i + 1; i == each {
					reached()
				}
			}
		})
	}
	enough.Wait()
	d.stop(syscall.SIGKILL)
	wg.Wait()

	d = serve(t, dir)
	for w, want := range acknowledged {
		var stored strings.Builder
		for i := range want {
			fmt.Fprintf(&stored, `{"key":["n",%d],"value":%d}`+"\n", i, i*i)
		}
		next := fmt.Sprintf(`{"key":["n",%d],"value":%d}`+"\n", want, want*want) // it may have been committed without an answer
		r := at(t, d.url, "kv", "export", fmt.Sprintf("cell/w%d", w), "-")
		errorIf(t, want < each || strings.TrimSuffix(r.stdout, next) != stored.String(),
			"writer %d: %d acknowledged, stored is %s%s", w, want, r.stdout, r.stderr)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, d.stderr)
	}
}

func TestNodeBeyondLoopbackNeedsAToken(t *testing.T) {
	d := serve(t, t.TempDir(), "--listen", "0.0.0.0:0")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(d.url, "http://"))
	must(t, err)
	url := "http://127.0.0.1:" + port
	at(t, url, "actors").want(t, 1, "", "unauthenticated")
	at(t, url, "actors", "--token", "secret").want(t, 0, "", "")
}

func TestBenchMeasuresEveryCombination(t *testing.T) {
	args := []string{"bench", "--duration=30ms", "--callers=1,4", "--actors=1,3", "--json"}
	check := func(r result, target string) {
		t.Helper()
		runs := documents[benchRun](t, r.stdout)
		fatalIf(t, r.status != 0 || len(runs) != 4, "%+v", r)
		for _, run := range runs {
			if run.Target != target || run.Calls < 1 || run.Rate <= 0 || run.P50 <= 0 || run.P99 < run.P50 ||
				run.Max < run.P99 || run.Value != 100 {
				t.Errorf("%+v", run)
			}
		}
	}
	dir := t.TempDir()
	check(runCommand(t, "", nil, append(args, "--dir", dir)...), "this process")
	left, err := os.ReadDir(dir)
	errorIf(t, err != nil || len(left) > 0, "the benchmark left %v, %v", left, err)
	d := serve(t, t.TempDir())
	check(runCommand(t, "", nil, append(args, "--url", d.url)...), d.url)
	if r := at(t, d.url, "actors", "--json"); r.stdout != "" {
		t.Errorf("the benchmark left actors: %s", r.stdout)
	}
	if err := d.stop(syscall.SIGINT); err != nil {
		t.Errorf("after destroying actors the node does not stop cleanly: %v\n%s", err, d.stderr)
	}
}

// A running command is a process of its own, whose lines a test reads one by one.
type running struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: exec.Command(executable, args...)}
	r.cmd.Stderr = os.Stderr
	stdout, err := r.cmd.StdoutPipe()
	must(t, err)
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	must(t, r.cmd.Start())
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	r.lines = bufio.NewScanner(stdout)
	return r
}

// next reads a line of JSON.
func (r *running) next(v any) {
	r.t.Helper()
	if !r.lines.Scan() {
		r.t.Fatalf("it ended: %v", r.lines.Err())
	}
	if err := json.Unmarshal(r.lines.Bytes(), v); err != nil {
		r.t.Fatalf("%s: %v", r.lines.Text(), err)
	}
}

// end ends it as Ctrl-C does, and hands over the lines that it still says.
func (r *running) end(more func(text string)) {
	r.t.Helper()
	must(r.t, r.cmd.Process.Signal(syscall.SIGINT))
	for r.lines.Scan() {
		more(r.lines.Text())
	}
	check(r.t, r.cmd.Wait())
}

// restart kills the node and starts it again at the same address.
func (d *daemon) restart(t *testing.T, dir string) *daemon {
	t.Helper()
	d.stop(syscall.SIGKILL)
	return serve(t, dir, "--listen", strings.TrimPrefix(d.url, "http://"))
}

func TestFollowersMissNothingWhenTheNodeIsKilled(t *testing.T) {
	const put, add = `call cell/a put {"key":[%d],"value":%[1]d}`, `stream append cell/a log %d`
	for _, f := range []struct {
		args, write string
		sequence    bool // from 1, in what is printed
	}{
		{"events cell/a --after=0 --json", put, true},
		{"stream follow cell/a log --json", add, true},
		{"connect cell/a --event=changed --json", put, false},
	} {
		dir := t.TempDir()
		d := serve(t, dir, "--listen", reserve(t))
		run := func(line string) result { t.Helper(); return at(t, d.url, strings.Fields(line)...) }
		write := func(i int) {
			t.Helper()
			r := run(fmt.Sprintf(f.write, i))
			fatalIf(t, r.status != 0, "%+v", r)
		}
		var welcome struct{ Connection string }
		if f.sequence {
			write(1) // what is followed exists already
		}
		follower := start(t, append(strings.Fields(f.args), "--url", d.url)...)
		next := func(want int) {
			t.Helper()
			var got struct {
				Sequence, Value int
				Data            struct{ Value int }
			}
			if follower.next(&got); got.Value+got.Data.Value != want || f.sequence && got.Sequence != want {
				t.Fatalf("%s: got %s, want %d", f.args, follower.lines.Text(), want)
			}
		}
		if !f.sequence {
			if follower.next(&welcome); welcome.Connection == "" {
				t.Fatal("no welcome")
			}
			write(1)
		}
		next(1)
		write(2)
		next(2)
		d = d.restart(t, dir)
		write(3)
		write(4)
		next(3)
		next(4)
		if !f.sequence { // it is still the same connection, and its calls go through
			all := documents[host.ConnectionInfo](t, run("connections list cell/a --json").stdout)
			errorIf(t, len(all) != 1 || all[0].ID != welcome.Connection || all[0].Lost != nil ||
				!slices.Equal(all[0].Events, []string{"changed"}),
				"%+v", all)
			fmt.Fprintln(follower.stdin, `get {"key":[1]}`)
			var reply struct {
				Call   string
				Output struct{ Value int }
			}
			if follower.next(&reply); reply.Call != "get" || reply.Output.Value != 1 {
				t.Errorf("%s", follower.lines.Text())
			}
		}
		follower.end(func(text string) { t.Errorf("%s: after the end: %s", f.args, text) })
		if r := run("connections list cell/a"); r.stderr != "no connections\n" {
			t.Errorf("%+v", r)
		}
	}
}

func TestWorkersLoseNothingWhenTheNodeIsKilled(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, dir, "--listen", reserve(t))
	const messages = 40
	r := runCommand(t, strings.Repeat("1\n", messages), nil, "queue", "send", "--url", d.url, "cell/a", "mail", "--lines")
	fatalIf(t, r.status != 0, "%+v", r)
	w := start(t, "queue", "work", "cell/a", "mail", "--workers=4", "--lock=2s", "--json", "--url", d.url, "--", "true")
	// If the node commits an acknowledgement and dies before it answers, the worker asks again, and
	// is told that its lock is lost.
	settled, restarted := make(map[uint64]bool), false
	for len(settled) < messages {
		var line struct {
			ID    uint64
			Done  bool
			Error string
		}
		if w.next(&line); !line.Done && !strings.Contains(line.Error, "the lock was lost") {
			t.Logf("message %d: %s", line.ID, line.Error)
			continue
		}
		if settled[line.ID] = true; len(settled) >= messages/2 && !restarted {
			d, restarted = d.restart(t, dir), true
		}
	}
	for {
		all := documents[host.QueueStats](t, at(t, d.url, "queue", "stats", "cell/a", "mail", "--json").stdout)
		if len(all) == 1 && all[0].Pending+all[0].Processing+all[0].Delayed > 0 {
			continue // a worker has it again
		}
		errorIf(t, len(all) != 1 || all[0].Done != messages || all[0].Dead != 0, "%+v", all)
		break
	}
	w.end(func(string) {})
}

func TestConnectPrintsTheEventsOfItsOwnCalls(t *testing.T) {
	s := newScene(t)
	for i := range 20 {
		put := fmt.Sprintf("put {\"key\":[\"a\"],\"value\":%d}\n", i)
		r := s.run(strings.Fields("connect cell/shop --event changed --json"), put+put)
		events, replies := strings.Count(r.stdout, `"name":"changed"`), strings.Count(r.stdout, `{"call":"put","output":`)
		fatalIf(t, r.status != 0 || r.stderr != "" || events != 2 || replies != 2, "in round %d: %+v", i, r)
	}
}

func TestChangesAreFollowed(t *testing.T) {
	d := serve(t, t.TempDir())
	follower := start(t, "changes", "cell", "--kinds", "kv", "--json", "--url", d.url)
	told, writer := make(chan struct{}), make(chan struct{})
	go func() { // it does not say when it has begun
		defer close(writer)
		for i := 1; ; i++ {
			select {
			case <-told:
				return
			default:
				at(t, d.url, "call", "cell/a", "put", fmt.Sprintf(`{"key":[%d],"value":1}`, i))
			}
		}
	}()
	var r changes.Record
	follower.next(&r)
	close(told)
	<-writer
	errorIf(t, r.Type != "cell" || !slices.Equal(r.Key, []string{"a"}) || len(r.Changes) != 1 || r.Changes[0].Kind != "kv", "%+v", r)
	follower.end(func(string) {})
}
