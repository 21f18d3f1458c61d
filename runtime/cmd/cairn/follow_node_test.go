package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

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
	if err != nil {
		t.Fatal(err)
	}
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
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

// interrupt ends it as Ctrl-C does, and expects nothing more.
func (r *running) interrupt() {
	r.t.Helper()
	r.end(func(text string) { r.t.Errorf("after the end: %s", text) })
}

// end ends it as Ctrl-C does, and hands over the lines that it still says.
func (r *running) end(more func(text string)) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		r.t.Fatal(err)
	}
	for r.lines.Scan() {
		more(r.lines.Text())
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Error(err)
	}
}

// restart kills the node and starts it again at the same address.
func (d *daemon) restart(t *testing.T, dir string) *daemon {
	t.Helper()
	d.stop(syscall.SIGKILL)
	return serve(t, dir, "--listen", strings.TrimPrefix(d.url, "http://"))
}

func TestStreamIsFollowedAfterTheNodeWasKilled(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, dir, "--listen", reserve(t))
	add := func(i int) {
		t.Helper()
		if r := at(t, d.url, "stream", "append", "cell/a", "log", fmt.Sprint(i)); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	add(1)
	f := start(t, "stream", "follow", "cell/a", "log", "--json", "--url", d.url)
	next := func(want uint64) {
		t.Helper()
		var item host.ReadStreamItem
		if f.next(&item); item.Sequence != want || string(item.Value) != fmt.Sprint(want) {
			t.Fatalf("got %+v, want %d", item, want)
		}
	}
	next(1)
	add(2)
	next(2)
	for i := 3; i < 9; i += 2 {
		d = d.restart(t, dir)
		add(i)
		add(i + 1)
		next(uint64(i))
		next(uint64(i + 1))
	}
	f.interrupt()
}

func TestConnectionResumesAfterTheNodeWasKilled(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, dir, "--listen", reserve(t))
	c := start(t, "connect", "cell/a", "--event", "changed", "--json", "--url", d.url)
	var welcome struct{ Connection string }
	if c.next(&welcome); welcome.Connection == "" {
		t.Fatal("no welcome")
	}
	put := func(i int) {
		t.Helper()
		if r := at(t, d.url, "call", "cell/a", "put", fmt.Sprintf(`{"key":[%d],"value":%d}`, i, i)); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	next := func(want int) {
		t.Helper()
		var e struct{ Data struct{ Value int } }
		if c.next(&e); e.Data.Value != want {
			t.Fatalf("got %s, want %d", c.lines.Text(), want)
		}
	}
	put(1)
	next(1)
	for i := 2; i < 6; i += 2 {
		d = d.restart(t, dir)
		put(i)
		put(i + 1)
		next(i)
		next(i + 1)
	}
	// It is still the same connection, and its calls go through.
	all := documents[host.ConnectionInfo](t, at(t, d.url, "connections", "list", "cell/a", "--json").stdout)
	if len(all) != 1 || all[0].ID != welcome.Connection || all[0].Lost != nil || !slices.Equal(all[0].Events, []string{"changed"}) {
		t.Errorf("%+v", all)
	}
	fmt.Fprintln(c.stdin, `get {"key":[1]}`)
	var reply struct {
		Call   string
		Output struct{ Value int }
	}
	if c.next(&reply); reply.Call != "get" || reply.Output.Value != 1 {
		t.Errorf("%s", c.lines.Text())
	}
	c.interrupt()
	if r := at(t, d.url, "connections", "list", "cell/a"); r.stderr != "no connections\n" {
		t.Errorf("%+v", r)
	}
}

func TestWorkersLoseNothingWhenTheNodeIsKilled(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, dir, "--listen", reserve(t))
	const messages = 40
	in := ""
	for i := range messages {
		in += fmt.Sprintf("%d\n", i+1)
	}
	if r := runCommand(t, in, nil, "queue", "send", "--url", d.url, "cell/a", "mail", "--lines"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	w := start(t, "queue", "work", "cell/a", "mail", "--workers=4", "--lock=2s", "--json", "--url", d.url, "--", "true")
	done := make(map[uint64]bool)
	for len(done) < messages {
		var line struct {
			ID    uint64
			Done  bool
			Error string
		}
		if w.next(&line); !line.Done {
			t.Logf("message %d: %s", line.ID, line.Error)
			continue
		}
		if done[line.ID] = true; len(done) == messages/2 {
			d = d.restart(t, dir)
		}
	}
	w.end(func(text string) { // a worker that was late with a message may learn only now that another was given it
		if strings.Contains(text, `"done":true`) {
			t.Errorf("after the end: %s", text)
		}
	})
	all := documents[host.QueueStats](t, at(t, d.url, "queue", "stats", "cell/a", "mail", "--json").stdout)
	if len(all) != 1 || all[0].Done != messages || all[0].Pending+all[0].Processing+all[0].Delayed+all[0].Dead != 0 {
		t.Errorf("%+v", all)
	}
}

func TestConnectPrintsTheEventsOfItsOwnCalls(t *testing.T) {
	d := serve(t, t.TempDir())
	for i := range 20 {
		put := fmt.Sprintf("put {\"key\":[\"a\"],\"value\":%d}\n", i)
		r := runCommand(t, put+put, nil, "connect", "cell/shop", "--event", "changed", "--json", "--url", d.url)
		events, replies := strings.Count(r.stdout, `"name":"changed"`), strings.Count(r.stdout, `{"call":"put","output":`)
		if r.status != 0 || r.stderr != "" || events != 2 || replies != 2 {
			t.Fatalf("in round %d: %+v", i, r)
		}
	}
}

func TestEventsOfAnAbsentActorSayThatTheyWait(t *testing.T) {
	d := serve(t, t.TempDir())
	// The note stands on standard error before the first event, which the actor's creation brings.
	in, out := io.Pipe()
	var stdout strings.Builder
	c := &cli{stdin: strings.NewReader(""), stdout: &stdout, stderr: out, getenv: func(string) string { return "" }}
	done := make(chan int, 1)
	go func() { done <- c.run(t.Context(), []string{"events", "cell/late", "--count", "1", "--url", d.url}) }()
	note := bufio.NewReader(in)
	if line, err := note.ReadString('\n'); err != nil || line != "cell/late does not exist yet: waiting for its first event\n" {
		t.Fatalf("%q, %v", line, err)
	}
	go io.Copy(io.Discard, note)
	if r := at(t, d.url, "call", "cell/late", "put", `{"key":["a"],"value":1}`); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if status := <-done; status != 0 || !strings.Contains(stdout.String(), "changed") {
		t.Errorf("status %d, %s", status, &stdout)
	}
	stdout.Reset()
	var stderr strings.Builder
	c = &cli{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: c.getenv}
	if status := c.run(t.Context(), []string{"events", "cell/late", "--after", "0", "--count", "1", "--url", d.url}); status != 0 || stderr.Len() != 0 {
		t.Errorf("status %d, %s", status, &stderr)
	}
}
