//go:build !unix

package work

import "os/exec"

// apart does nothing: where there are no process groups, an interrupt reaches the command too.
func apart(*exec.Cmd) {}
