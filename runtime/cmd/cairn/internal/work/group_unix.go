//go:build unix

package work

import (
	"os/exec"
	"syscall"
)

// apart puts a command into a process group of its own, so that Ctrl-C on the terminal reaches only
// this process, which lets the command finish; and asks the whole group to end when the command has
// to.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}
