package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/term"

	"github.com/cairn-run/cairn/actor/host"
)

// openTerminal opens a pseudo-terminal: its master and the device that a program takes for its
// terminal.
func openTerminal(t *testing.T) (master, device *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	control := func(request uintptr, value *int32) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Skip("no pseudo-terminals here: ", errno)
		}
	}
	var unlock, number int32
	control(syscall.TIOCSPTLCK, &unlock)
	control(syscall.TIOCGPTN, &number)
	device, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { device.Close() })
	return master, device
}

// A sitting is a shell on a terminal, in a process of its own.
type sitting struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	shown  string // and not waited for
}

// sit starts a shell. Its history is in home.
func sit(t *testing.T, master, device *os.File, url, home string, flags ...string) *sitting {
	t.Helper()
	s := &sitting{t: t, master: master, cmd: exec.Command(executable, append([]string{"sql", "cell/acme"}, flags...)...)}
	s.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "CAIRN_") || strings.HasPrefix(v, "NO_COLOR=")
	}), "CAIRN_URL="+url, "HOME="+home, "XDG_CONFIG_HOME="+home, "TERM=xterm")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = device, device, device
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// play types keys and waits for what is shown, in turn.
func (s *sitting) play(steps ...string) {
	s.t.Helper()
	for i := 0; i < len(steps); i += 2 {
		must(s.t, errOf(s.master.WriteString(steps[i])))
		b := make([]byte, 4096)
		for !strings.Contains(s.shown, steps[i+1]) {
			n, err := s.master.Read(b)
			if err != nil {
				s.t.Fatalf("after %q %q is not shown, but %q: %v", steps[i], steps[i+1], s.shown, err)
			}
			s.shown += string(b[:n])
		}
		_, s.shown, _ = strings.Cut(s.shown, steps[i+1])
	}
}

// The whole program, on a terminal of its own.
func TestTheShellOnATerminal(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.run(strings.Fields("create cell/acme"), "")
	s.run(strings.Fields("sql cell/acme --write --reason r"),
		"CREATE TABLE note (id INTEGER PRIMARY KEY); CREATE VIEW short AS SELECT 1;\n")
	master, device := openTerminal(t)
	before, err := term.GetState(int(device.Fd()))
	must(t, err)
	home := t.TempDir()
	const prompt = "cell/acme> "
	shell := sit(t, master, device, s.server.URL, home)
	shell.play(
		"", "cell/acme: 8.0 KiB; read-only. .help lists the commands, Ctrl-D leaves.\r\n", "", prompt,
		"SELECT 1 AS a, NULL AS b;\r", "a  b\r\n-  ----\r\n1  \x1b[90mNULL\x1b[0m\r\n", "", prompt,
		"SELECT 1 AS id, ';\r", "...> ",
		"' AS x; SELECT 2 AS b;\r", "\r\nid  x\r\n--  ---\r\n 1  ;\\n\r\nb\r\n-\r\n2\r\n", "", prompt,
		"DELETE FROM note;\r", "read_only", "", prompt,
		".nonsense\r", "there is no command .nonsense", "", prompt,
		".tab\t\r", ".tables ", "", "note   table", "", prompt,
		"SELECT count(*) AS n FROM NO\t;\r", "FROM note ;", "", "n\r\n-\r\n0\r\n", "", prompt,
		".\t", ".tables  .schema  .indexes",
		"\x15SELECT 'half\x03", "^C\r\n", "", prompt, // a key, not a signal
		"SELECT '\r", "...> ", "\x03", prompt,
	)
	s.node.mu.Lock()
	ran := s.node.counts[host.SQLQuery]
	s.node.mu.Unlock()
	must(t, errOf(master.WriteString("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n;\r")))
	s.line("@", []string{"await", host.SQLQuery, fmt.Sprint(ran + 1)}, "")
	shell.play("typed ahead \x03", "cancel", "", prompt, "SELECT 1 AS still;\r", "still\r\n", "", prompt)
	must(t, errOf(master.WriteString("\x04"))) // Ctrl-D
	must(t, shell.cmd.Wait())
	file := filepath.Join(home, "cairn", "sql_history")
	text, err := os.ReadFile(file)
	must(t, err)
	info, err := os.Stat(file)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || info.Mode().Perm() != 0o600 || lines[0] != "SELECT 1 AS a, NULL AS b;" ||
		lines[1] != "SELECT 2 AS b;" || len(lines) != 6 {
		t.Errorf("history %q %v", lines, info.Mode())
	}

	shell = sit(t, master, device, s.server.URL, home, "--write", "--reason", "r")
	shell.play("", "(write)> ", "\x1b[A\r", "still\r\n", "", "(write)> ", // up: the statement before
		"INSERT INTO note VALUES (7);\r", "1 row changed", "", "(write)> ",
		"BEGIN; DELETE FROM note;\r", "(write)*> ", "\x03", "given up\r\n", "", "(write)> ",
		"SELECT count(*) AS n FROM note;\r", "n\r\n-\r\n1\r\n", "BEGIN;\r", "*> ",
		"\x04", "no COMMIT: nothing of it was done")
	must(t, shell.cmd.Wait())

	shell = sit(t, master, device, s.server.URL, home)
	shell.play("", prompt)
	must(t, shell.cmd.Process.Signal(syscall.SIGTERM))
	must(t, shell.cmd.Wait())
	after, err := term.GetState(int(device.Fd()))
	errorIf(t, err != nil || *after != *before, "the terminal is left in another state: %v", err)
}
