//go:build !linux

package main

import (
	"net"
	"testing"
)

// reserve returns an address on which nothing listens. Another process may be given it.
func reserve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}
