package supervisor

import "github.com/cairn-run/cairn/actor/host"

// Go implements host.Turn.
func (t *turn) Go(name string, f func(host.Task) error) error { return errNotYet }
