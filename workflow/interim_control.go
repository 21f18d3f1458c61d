package workflow

import "errors"

// ErrExists and what follows stand in until the control functions are merged.
var ErrExists = errors.New("workflow: a run is there")

// ErrNoRun is returned where there is no run.
var ErrNoRun = errors.New("workflow: no run")

// Terminate ends a run.
func Terminate(t Turn, _ string) error { return putState(t, StateTerminated) }

// Resume ends a pause.
func Resume(t Turn) error { return deletePause(t) }
