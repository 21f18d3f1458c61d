package main

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// `make crash` sets these.
var (
	binary      = flag.String("binary", "", "test this `program` instead of the one inside the test binary")
	killCount   = flag.Int("kills", 3, "how often the program is killed in the middle of the import")
	flightCount = flag.Int("flights", 1000, "how many flights are imported")
)

// asProgram in the environment makes the test binary run as the program itself.
const asProgram = "FLIGHTS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A run is one process of the program, with everything it printed.
type run struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

func start(t *testing.T, dir string, args ...string) *run {
	t.Helper()
	program, env := *binary, os.Environ()
	if program == "" {
		program, env = os.Args[0], append(env, asProgram+"=1")
	}
	r := &run{cmd: exec.CommandContext(t.Context(), program, append([]string{"--data", dir, "--listen", "127.0.0.1:0"}, args...)...)}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = env, &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// wait returns how the process ended: nil for exit code 0.
func (r *run) wait() error { return r.cmd.Wait() }

func (r *run) killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// complete runs the import to its end and compares the table.
func complete(t *testing.T, dir, want string) *run {
	t.Helper()
	r := start(t, dir, "--once", "--flights", strconv.Itoa(*flightCount))
	if err := r.wait(); err != nil {
		t.Fatalf("%v\n%s", err, r.stderr.String())
	}
	if got := r.stdout.String(); got != want {
		t.Fatalf("the table is\n%s\nexpected\n%s\nThe program said\n%s", got, want, r.stderr.String())
	}
	return r
}

func TestKillAtRandomMomentsEndsWithTheSameTable(t *testing.T) {
	want := expected(t, *flightCount)
	dir := filepath.Join(t.TempDir(), "data")
	begin := time.Now()
	complete(t, dir, want)
	took := time.Since(begin)

	// A second run has nothing to do.
	if r := complete(t, dir, want); !strings.Contains(r.stderr.String(), "were imported before") {
		t.Errorf("the second run said\n%s", r.stderr.String())
	}

	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("an undisturbed run takes %v; seed %d", took.Round(time.Millisecond), seed)
	dir = filepath.Join(t.TempDir(), "data")
	kills, resumed, rounds := 0, 0, 0
	for kills < *killCount {
		r := start(t, dir, "--once", "--flights", strconv.Itoa(*flightCount))
		killer := time.AfterFunc(time.Duration(random.Int64N(int64(took))), func() { r.cmd.Process.Kill() })
		err := r.wait()
		killer.Stop()
		if strings.Contains(r.stderr.String(), "going on after flight") {
			resumed++
		}
		switch {
		case r.killed(err):
			kills++
		case err != nil:
			t.Fatalf("after %d kills: %v\n%s", kills, err, r.stderr.String())
		}
		if err == nil || strings.Contains(r.stderr.String(), "were imported before") {
			// This one is through. The rest of the kills go to the next.
			rounds++
			complete(t, dir, want)
			dir = filepath.Join(t.TempDir(), "data")
		}
	}
	complete(t, dir, want)
	t.Logf("%d kills, %d runs went on from a position, %d imports in all", kills, resumed, rounds+1)
}
