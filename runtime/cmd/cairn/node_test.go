package main

import (
	"bufio"
	"encoding/json"
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
)

// executable is the command: a link to this test program, which is the command wherever it is called by that name. So nothing is
// compiled a second time, and the race detector sees the command as well.
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
				r := runCommand(t, "", nil, "call", "--url", d.url, "--attempts=1", fmt.Sprintf("cell/w%d", w), "put", fmt.Sprintf(`{"key":["n",%d],"value":%d}`, i, i*i))
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
		if want < each || strings.TrimSuffix(r.stdout, next) != stored.String() {
			t.Errorf("writer %d: %d acknowledged, stored is %s%s", w, want, r.stdout, r.stderr)
		}
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
			if run.Target != target || run.Calls < 1 || run.Rate <= 0 || run.P50 <= 0 || run.P99 < run.P50 || run.Max < run.P99 || run.Value != 100 {
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
