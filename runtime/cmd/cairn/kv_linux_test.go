package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The memory of an import and an export does not grow with the store.
func TestEntriesAreStreamed(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 750 MB")
	}
	const entries, size, most = 240, 1_000_000, 215 << 20 // a process of the race detector; all entries are 240 MB more
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
	for _, args := range [][]string{{"import", "cell/a", "-"}, {"export", "cell/a", file}, {"export", "cell/a", file, "--sqlite", "--force"}} {
		cmd := exec.Command(executable, append([]string{"--url=" + d.url, "kv"}, args...)...)
		cmd.Env = append(os.Environ(), "GOMEMLIMIT=64MiB") // what is not in use is given back
		if args[0] == "import" {
			cmd.Stdin = in
		}
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", args, err, text)
		}
		if peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; peak > most {
			t.Errorf("%s: %d MiB of memory", args, peak>>20)
		}
		if info, err := os.Stat(file); args[0] == "export" && (err != nil || info.Size() < entries*size) {
			t.Errorf("%s: %v, %v", args, info, err)
		}
	}
}
