package main

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// `make crash` sets these.
var (
	binary      = flag.String("binary", "", "test this `program` instead of the one inside the test binary")
	killCount   = flag.Int("kills", 2, "how often the program is killed in the middle of the import")
	flightCount = flag.Int("flights", 100, "how many flights are imported")
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
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr watched
	// killer kills it some time after its import began, if it is not nil.
	killer *time.Timer
}

// watched keeps what a process writes and calls begun, once, when it begins or goes on with the
// import.
type watched struct {
	text  strings.Builder
	begun func()
}

var importBegins = regexp.MustCompile(`importing .* flights\n|going on after flight .*\n|were imported before\n`)

func (w *watched) Write(p []byte) (int, error) {
	w.text.Write(p)
	if w.begun != nil && importBegins.MatchString(w.text.String()) {
		w.begun()
		w.begun = nil
	}
	return len(p), nil
}

func (w *watched) String() string { return w.text.String() }

// start runs an import in a process, and kills that when it has imported for life, unless life is
// 0.
func start(t *testing.T, dir string, life time.Duration) *run {
	t.Helper()
	program, env := *binary, os.Environ()
	if program == "" {
		program, env = os.Args[0], append(env, asProgram+"=1")
	}
	args := []string{"--once", "--data", dir, "--listen", "127.0.0.1:0", "--flights", strconv.Itoa(*flightCount)}
	r := &run{cmd: exec.CommandContext(t.Context(), program, args...)}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = env, &r.stdout, &r.stderr
	r.stderr.begun = func() {
		if life > 0 {
			r.killer = time.AfterFunc(life, func() { r.cmd.Process.Kill() })
		}
	}
	must(t, r.cmd.Start())
	return r
}

// wait returns how the process ended: nil for exit code 0.
func (r *run) wait() error {
	err := r.cmd.Wait()
	if r.killer != nil {
		r.killer.Stop()
	}
	return err
}

// killed reports whether err, from wait, says that a SIGKILL ended the process.
func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// complete runs the import to its end, compares the table and returns what else the program said.
func complete(t *testing.T, dir, want string) string {
	t.Helper()
	r := start(t, dir, 0)
	if err := r.wait(); err != nil {
		t.Fatalf("%v\n%s", err, r.stderr.String())
	}
	if got := r.stdout.String(); got != want {
		t.Fatalf("the table is\n%s\nexpected\n%s\nThe program said\n%s", got, want, r.stderr.String())
	}
	return r.stderr.String()
}

// importTook finds how long an import took in what the program said.
var importTook = regexp.MustCompile(`replayed .* flights in (\S+):`)

func TestKillAtRandomMomentsEndsWithTheSameTable(t *testing.T) {
	want := expected(t, *flightCount)
	dir := filepath.Join(t.TempDir(), "data")
	said := complete(t, dir, want)
	match := importTook.FindStringSubmatch(said)
	if match == nil {
		t.Fatalf("the program does not tell how long the import took:\n%s", said)
	}
	took, err := time.ParseDuration(match[1])
	must(t, err)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("an undisturbed import takes %v; seed %d", took, seed)

	// Most kills hit the import, some the time after it, when messages may be on their way.
	dir = filepath.Join(t.TempDir(), "data")
	kills, resumed, imports := 0, 0, 1
	for kills < *killCount {
		r := start(t, dir, time.Duration(1+random.Int64N(int64(took*5/4))))
		err := r.wait()
		if strings.Contains(r.stderr.String(), "going on after flight") {
			resumed++
		}
		switch {
		case killed(err):
			kills++
		case err != nil:
			t.Fatalf("after %d kills: %v\n%s", kills, err, r.stderr.String())
		}
		if err == nil || strings.Contains(r.stderr.String(), "were imported before") {
			complete(t, dir, want) // This import is through. The other kills go to the next.
			dir = filepath.Join(t.TempDir(), "data")
			imports++
		}
	}
	complete(t, dir, want)
	t.Logf("%d kills, %d runs went on from a position, %d imports", kills, resumed, imports)

	// Now there is nothing left to do.
	if said := complete(t, dir, want); !strings.Contains(said, "were imported before") {
		t.Errorf("one more run said\n%s", said)
	}
}
