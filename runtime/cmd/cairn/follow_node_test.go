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
	"github.com/cairn-run/cairn/actor/host/changes"
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
			if r := run(fmt.Sprintf(f.write, i)); r.status != 0 {
				t.Fatalf("%+v", r)
			}
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
			errorIf(t, len(all) != 1 || all[0].ID != welcome.Connection || all[0].Lost != nil || !slices.Equal(all[0].Events, []string{"changed"}),
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
	// If the node commits an acknowledgement and dies before it answers, the worker asks again, and is told that its lock is lost.
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
