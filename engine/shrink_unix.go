//go:build unix

package engine

import (
	"os"
	"syscall"
)

// names returns how many names a file has on its disk; 0 if that is unknown.
func names(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 0
}
