package main

import (
	"fmt"
	"syscall"
	"testing"
)

// reserve returns an address on which nothing listens, and which the system gives to nothing that asks for any free port: a
// node that is started there again finds it free. It is bound for as long as the test runs, in a way that does not keep a
// listener away.
func reserve(t *testing.T) string {
	t.Helper()
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { syscall.Close(s) })
	must(t, syscall.SetsockoptInt(s, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	must(t, syscall.Bind(s, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(s)
	must(t, err)
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}
