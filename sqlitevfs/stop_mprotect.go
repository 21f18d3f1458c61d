//go:build linux || darwin

package sqlitevfs

import "syscall"

// canProtect is true because the library maps the memory of an instance apart from Go's heap, so
// protect can remove access to it.
const canProtect = true

// protect removes all access to a memory.
func protect(memory []byte) error { return syscall.Mprotect(memory, syscall.PROT_NONE) }
