package kernel

import "errors"

var (
	// errGone: the Actor has left memory; look the actor up again.
	errGone = errors.New("kernel: activation is gone")
	// ErrAbandoned: the turn outlived its deadline and grace, and its Actor was given up.
	ErrAbandoned = errors.New("kernel: turn was abandoned")
)
