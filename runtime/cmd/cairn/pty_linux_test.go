package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/term"
)

// openTerminal opens a pseudo-terminal: its master and the device that a program takes for its terminal.
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

// The whole program, on a terminal of its own.
func TestTheShellOnATerminal(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.run(strings.Fields("create cell/acme"), "")
	s.run(strings.Fields("sql cell/acme --write --reason r"), "CREATE TABLE note (id INTEGER PRIMARY KEY);\n")
	master, device := openTerminal(t)
	before, err := term.GetState(int(device.Fd()))
	must(t, err)
	home := t.TempDir()
	cmd := exec.Command(executable, "sql", "cell/acme")
	cmd.Env = []string{"CAIRN_URL=" + s.server.URL, "HOME=" + home, "XDG_CONFIG_HOME=" + home, "TERM=xterm"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = device, device, device
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, cmd.Start())
	shown := ""
	wait := func(text string) {
		t.Helper()
		b := make([]byte, 4096)
		for !strings.Contains(shown, text) {
			n, err := master.Read(b)
			if err != nil {
				t.Fatalf("%q is not shown, but %q: %v", text, shown, err)
			}
			shown += string(b[:n])
		}
		_, shown, _ = strings.Cut(shown, text)
	}
	typed := func(keys string) {
		if _, err := master.WriteString(keys); err != nil {
			t.Error(err)
		}
	}
	wait("cell/acme: 8.0 KiB; read-only. .help lists the commands, Ctrl-D leaves.\r\n")
	wait("cell/acme> ")
	typed("SELECT 1 AS a, NULL AS b;\r")
	wait("a  b\r\n-  ----\r\n1  \x1b[90mNULL\x1b[0m\r\n")
	wait("cell/acme> ")
	typed("SELECT 'half\x03") // a key, not a signal
	wait("^C\r\n")
	wait("cell/acme> ")
	typed("\x04")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if after, err := term.GetState(int(device.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal is left in another state: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(home, "cairn", "sql_history"))
	if err != nil || strings.TrimSpace(string(text)) != "SELECT 1 AS a, NULL AS b;" {
		t.Errorf("history %q %v", text, err)
	}
}
