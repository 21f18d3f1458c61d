package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// asProgram in the environment makes the test binary run as the program itself, on the directory
// that it names.
const asProgram = "ORDERS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asProgram); dir != "" {
		os.Args = []string{os.Args[0], "--data", dir}
		main()
		return
	}
	os.Exit(m.Run())
}

// process runs the program and kills it after life, unless that is 0 or it has ended by then. It
// returns what it printed.
func process(t *testing.T, dir string, life time.Duration) (out string, killed bool) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asProgram+"="+dir), &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if life > 0 {
		timer := time.AfterFunc(life, func() { cmd.Process.Kill() })
		defer timer.Stop()
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return "", true
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return stdout.String(), false
}

// Killed at any moment and run again, the program prints the same as one that was never killed:
// nobody pays twice.
func TestKillAtRandomMomentsEndsWithTheSameOrders(t *testing.T) {
	begun := time.Now()
	if got, _ := process(t, filepath.Join(t.TempDir(), "data"), 0); got != printed {
		t.Fatalf("it printed\n%s", got)
	}
	took := time.Since(begun)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("undisturbed it takes %v; seed %d", took, seed)
	rounds := 1
	if os.Getenv("CAIRN_LONG") != "" {
		rounds = 3
	}
	for range rounds {
		dir := filepath.Join(t.TempDir(), "data")
		kills := 0
		for range 3 { // a step may be executed four times
			if _, killed := process(t, dir, time.Duration(1+random.Int64N(int64(took)))); killed {
				kills++
			}
		}
		if got, _ := process(t, dir, 0); got != printed {
			t.Errorf("after %d kills it printed\n%s", kills, got)
		}
	}
}
