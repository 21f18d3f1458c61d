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

// The memory of an import and an export does not grow with the store: of three times as many entries it takes less than two thirds of
// what they are more.
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

// streamed imports entries of a size and exports them twice. It returns how much memory each took at most.
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
	for _, args := range [][]string{{"import", "cell/a", "-"}, {"export", "cell/a", file}, {"export", "cell/a", file, "--sqlite", "--force"}} {
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
