//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestWorkKeepsTheEndOfWhatACommandSays(t *testing.T) {
	s := newScene(t)
	s.run(strings.Fields("queue send cell/acme mail 1"), "")
	at(t, s.server.URL, "queue", "work", "cell/acme", "mail", "--drain", "--", "sh", "-c",
		`i=0; while [ $i -lt 2000 ]; do echo "line ü $i" >&2; i=$((i+1)); done; exit 1`)
	all := documents[host.ListedMessage](t, s.run(strings.Fields("queue peek cell/acme mail --json"), "").stdout)
	got := all[0].Error
	errorIf(t, len(got) > 1024 || !strings.HasSuffix(got, "line ü 1999") || !strings.HasPrefix(got, "exit status 1: "),
		"%d bytes: %q", len(got), got)
}

// TestWorkDrainsWhenInterrupted runs the command as a process, with commands of its own, and
// interrupts it.
func TestWorkDrainsWhenInterrupted(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		s := newScene(t)
		s.run(strings.Fields("queue send cell/acme mail 1 2"), "")
		dir := t.TempDir()
		release := filepath.Join(dir, "go")
		work := exec.Command(executable, "queue", "work", "cell/acme", "mail", "--workers=3", "--url", s.server.URL, "--",
			"sh", "-c", `echo started; while [ ! -e "$0" ]; do sleep 0.02; done`, release)
		work.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stdout, err := work.StdoutPipe()
		must(t, err)
		var stderr strings.Builder
		work.Stderr = &stderr
		must(t, work.Start())
		lines := bufio.NewScanner(stdout)
		for range 2 {
			if !lines.Scan() {
				t.Fatal(lines.Err())
			}
		}
		// As a terminal does it: to the whole process group.
		must(t, syscall.Kill(-work.Process.Pid, signal))
		must(t, os.WriteFile(release, nil, 0o600))
		for lines.Scan() {
			t.Errorf("more output: %s", lines.Text())
		}
		check(t, work.Wait(), signal, &stderr)
		all := documents[host.QueueStats](t, s.run(strings.Fields("queue stats cell/acme mail --json"), "").stdout)
		errorIf(t, len(all) != 1 || all[0].Done != 2 || stderr.String() != "2 messages done, 0 failed\n", "%+v, %s", all, &stderr)
	}
}
