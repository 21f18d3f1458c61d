// Package state is the part for the state of an actor: operators read and replace it, as JSON or
// CBOR.
package state

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// Part is the part for states.
type Part struct{}

var _ interface {
	call.Server
	kernel.Opener
} = (*Part)(nil)

// Name implements kernel.Part.
func (*Part) Name() string { return "state" }

// Open implements kernel.Opener.
func (*Part) Open(*kernel.Kernel) error { return errors.Join(decodingFault, encodingFault) }

// Close implements kernel.Opener.
func (*Part) Close(*kernel.Kernel) error { return nil }

// Methods implements call.Server.
func (*Part) Methods() []*call.Method {
	return []*call.Method{
		call.Unwoken(call.Ask(method.StateGet, get)),
		call.Run(method.StateReplace, replace),
	}
}

// key is the logical key of the state.
var key = keyspace.Persisted.Append(nil)

// read returns the stored state; its State is CBOR.
func read(rows engine.Reader) (out host.StateOutput, err error) {
	e, ok, err := rows.Get(key)
	if err != nil || !ok {
		return out, err
	}
	form, blob, err := kernel.SplitState(e.Value)
	return host.StateOutput{State: blob, Version: uint64(e.Version), Form: form}, err
}

// present encodes the state of an output for a caller.
func present(out *host.StateOutput, codec host.Codec) error {
	if codec != host.JSON || len(out.State) == 0 {
		return nil
	}
	text, err := toJSON(out.State)
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "the stored state is not CBOR")
	}
	out.State = text
	return nil
}

// get implements state.get.
func get(q *call.Query, codec host.Codec, _ *method.None) (host.StateOutput, error) {
	rows, done, err := q.Rows()
	if err != nil {
		return host.StateOutput{}, err
	}
	defer done()
	out, err := read(rows)
	if err != nil {
		return out, err
	}
	return out, present(&out, codec)
}

// replace implements state.replace. The code decodes the new state before it counts, so an actor
// never has a state that its code refuses. It works on an actor that does not wake, for example
// because its state does not decode.
func replace(c *kernel.Core, w *kernel.Work, in *host.StateReplaceInput,
	reply func(host.StateOutput) ([]byte, error)) ([]byte, error) {
	if in.Version == nil {
		return nil, host.Errorf(host.InvalidArgument, "version: it is missing; state.get has it").
			With("field", "version")
	}
	given, blob, err := decode(w.Codec, in.State)
	if err != nil {
		return nil, err
	}
	return c.RunTurn(w, host.StateReplace, !c.Bare, func(h *kernel.Turn) ([]byte, error) {
		entry := audit.Of(w.Ctx)
		entry.Join(h)
		before, err := read(c.Rows)
		if err != nil {
			return nil, err
		}
		if before.Version != *in.Version {
			return nil, host.Errorf(host.FailedPrecondition,
				"the state is of version %d by now, and not of %d", before.Version, *in.Version).
				With("version", fmt.Sprint(before.Version))
		}
		instance := c.Instance
		if c.Bare {
			instance = c.Actor.Type.New()
		}
		if err := instance.Load(c.Actor.Type.StateVersion, blob); err != nil {
			return nil, unfit(given, err)
		}
		made, err := instance.Save(nil)
		if err != nil {
			return nil, unfit(given, err)
		}
		var saved any
		if err := decoding.Unmarshal(made, &saved); err != nil {
			return nil, err
		}
		if at := lost(given, saved, ""); at != "" {
			return nil, host.Errorf(host.InvalidArgument,
				"state.%s: the state of the type has no such member", at).With("field", "state."+at)
		}
		if present(&before, host.JSON) == nil && before.Version != 0 {
			entry.Before(json.RawMessage(before.State))
		}
		if c.Bare {
			if err := c.Rows.Put(key,
				append(binary.AppendUvarint(nil, c.Actor.Type.StateVersion),
					made...), engine.PutOptions{}); err != nil {
				return nil, err
			}
		}
		out := host.StateOutput{State: made, Version: uint64(h.AsOf), Form: c.Actor.Type.StateVersion}
		shown := out
		if err := present(&shown, host.JSON); err != nil {
			return nil, err
		}
		entry.After(json.RawMessage(shown.State))
		if w.Codec == host.JSON {
			out = shown
		}
		return reply(out)
	})
}

// decode returns a state of an input as a value, and as CBOR.
func decode(codec host.Codec, state []byte) (v any, blob []byte, err error) {
	if len(state) == 0 {
		return nil, nil, host.Errorf(host.InvalidArgument, "state: it is missing").With("field", "state")
	}
	if codec != host.JSON {
		if err := decoding.Unmarshal(state, &v); err != nil {
			return nil, nil,
				host.Errorf(host.InvalidArgument, "state: it is not CBOR that a state can be").With("field", "state")
		}
		return v, state, nil
	}
	if err := host.CheckJSON(state, nil); err != nil {
		return nil, nil, host.WithMember(host.Errorf(host.InvalidArgument, "state: %s", err), "state", err)
	}
	if v, err = fromJSON(state); err != nil {
		field := "state"
		if f, is := errors.AsType[*fault](err); is && f.path != "" {
			field += "." + f.path
		}
		return nil, nil, host.Errorf(host.InvalidArgument, "state: %s", err).With("field", field)
	}
	if blob, err = encoding.Marshal(v); err != nil {
		return nil, nil, host.Errorf(host.InvalidArgument, "state: it cannot be encoded").With("field", "state")
	}
	return v, blob, nil
}

// unfit is the error for a state that the code refuses. It names the place if only one member can
// be meant.
func unfit(given any, err error) error {
	if e, is := errors.AsType[*host.Error](err); is {
		return e
	}
	field, text := "state", err.Error()
	if _, rest, found := strings.Cut(text, `field "`); found { // as package actor says it
		name, reason, _ := strings.Cut(rest, `"`)
		if places := named(nil, given, name, ""); len(places) == 1 {
			field += "." + places[0]
			return host.Errorf(host.InvalidArgument, "%s%s", field, host.Clip(reason)).With("field", field)
		}
	}
	return host.Errorf(host.InvalidArgument, "state: %s", host.Clip(text)).With("field", field)
}
