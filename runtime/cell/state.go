package cell

import (
	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// MaxState is the largest size in bytes of a cell's state. The state is read with every call; put
// large data, or many values, into the key-value store.
const MaxState = 128 << 10

// A StateInput replaces the state of a cell.
type StateInput struct {
	State Document `json:"state"`
	// Version, if set, must be the state's current version, 0 if the state was never set; otherwise
	// nothing is done.
	Version *uint64 `json:"version,omitempty"`
}

// JSONExample shows an input.
func (StateInput) JSONExample() any {
	return map[string]any{"state": map[string]any{"plan": "pro"}}
}

// A SetStateResult says whether the state was replaced, and its current version.
type SetStateResult struct {
	OK      bool   `json:"ok"`
	Version uint64 `json:"version"`
}

// A StateResult is the state of a cell: null with version 0 if it was never set.
type StateResult struct {
	State Document `json:"state"`
	// Version is the version of the call that set it.
	Version uint64 `json:"version"`
}

func (c *Cell) setState(ctx *actor.Context, in StateInput) (SetStateResult, error) {
	if n := len(in.State); n > MaxState {
		return SetStateResult{}, host.OverLimit("state", MaxState, int64(n)).With("field", "state")
	}
	if in.State == nil {
		return SetStateResult{},
			actor.Errorf(actor.InvalidArgument,
				"the state is missing; a JSON document is expected (null is one)").With("field", "state")
	}
	if in.Version != nil && *in.Version != c.Version {
		return SetStateResult{Version: c.Version}, nil
	}
	c.State, c.Version = in.State, ctx.Version()
	return SetStateResult{OK: true, Version: c.Version}, nil
}

func (c Cell) state(*actor.ReadContext, actor.None) (StateResult, error) {
	return StateResult(c), nil
}
