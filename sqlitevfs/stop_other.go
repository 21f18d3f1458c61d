//go:build !linux && !darwin

package sqlitevfs

import "errors"

// canProtect is false: the memory of an instance cannot be protected, so a call that does not end
// by itself keeps running. Its connection counts as one in use, so Options.MaxOpen bounds the
// number of such calls.
const canProtect = false

// protect does nothing.
func protect([]byte) error { return errors.ErrUnsupported }
