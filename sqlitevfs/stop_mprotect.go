//go:build linux || darwin

package sqlitevfs

import "syscall"

// canProtect reports that the memory of an instance can be taken away from it: the library maps it apart from Go's heap.
const canProtect = true

// protect takes away all access to a memory.
func protect(memory []byte) error { return syscall.Mprotect(memory, syscall.PROT_NONE) }
