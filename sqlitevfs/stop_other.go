//go:build !linux && !darwin

package sqlitevfs

import "errors"

// canProtect reports that the memory of an instance cannot be taken away from it. A call that does not end by itself runs
// on. Its connection counts as one in use, so Options.MaxOpen bounds how many there are.
const canProtect = false

// protect takes nothing away.
func protect([]byte) error { return errors.ErrUnsupported }
