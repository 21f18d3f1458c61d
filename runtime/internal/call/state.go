package call

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/view"
)

// errDecoder is made once, because the first query of each view begins with it.
var errDecoder = host.Errorf(host.Crashed, "the state's decoder did not return")

// stateOf returns the decoded state of a view for a query of type t.
func stateOf(v *view.View, t *kernel.Type) (any, error) {
	if !t.SharedState {
		return decodeState(t, v.Stored)
	}
	v.Once.Do(func() {
		v.Err = errDecoder // unless it returns
		v.Decoded, v.Err = decodeState(t, v.Stored)
	})
	return v.Decoded, v.Err
}

func decodeState(t *kernel.Type, stored []byte) (any, error) {
	if stored == nil {
		return t.Decode(t.StateVersion, nil)
	}
	version, blob, err := kernel.SplitState(stored)
	if err != nil {
		return nil, err
	}
	return t.Decode(version, blob)
}
