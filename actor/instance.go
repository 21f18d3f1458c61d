package actor

import (
	"fmt"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// A program is one type's code in the form in which it runs. Immutable once compiled.
type program[S any] struct {
	core  *core
	spec  Spec[S]
	state *codec.Value
	// In the order of the behavior's tables. A queue of workers, and an event or a map without a
	// hook, have an empty Binding.
	methods, alarms, queues, schedules, events, maps []Binding[S]

	connect    func(s *S, t host.Turn, c *host.ConnectionState, params []byte) error
	disconnect func(s *S, t host.Turn, c *host.ConnectionState, cause *host.Error) error
	values     map[host.ValueKind][]codec.Described
}

// load replaces s by a stored state.
func (p *program[S]) load(s *S, version uint64, blob []byte) error {
	var zero S
	*s = zero
	switch {
	case blob == nil:
		return nil
	case version > p.spec.Version:
		return Errorf(StateTooNew, "the state was stored by version %d of the code, this is version %d", version, p.spec.Version).
			With("stored", strconv.FormatUint(version, 10)).
			With("supported", strconv.FormatUint(p.spec.Version, 10))
	case version < p.spec.Version && p.spec.Migrate != nil:
		if err := p.spec.Migrate(s, Stored{version: version, blob: blob, codec: p.core.codec}); err != nil {
			return fmt.Errorf("migrate the state from version %d to %d: %w", version, p.spec.Version, err)
		}
		return nil
	}
	if p.state.IsNone() {
		return nil
	}
	if err := p.core.codec.DecodeCBOR(blob, s); err != nil {
		return fmt.Errorf("decode the state of version %d: %w", version, err)
	}
	return nil
}

// decode is host.Behavior.Decode. The state is a *S.
func (p *program[S]) decode(version uint64, blob []byte) (any, error) {
	s := new(S)
	if err := p.load(s, version, blob); err != nil {
		return nil, err
	}
	return s, nil
}

// query is host.Behavior.Query.
func (p *program[S]) query(r host.Reader, method int, state any, as host.Codec, input, out []byte) ([]byte, error) {
	if method < 0 || method >= len(p.methods) || p.methods[method].query == nil {
		return out, Errorf(UnknownMethod, "actor type %q has no query number %d", p.core.name, method)
	}
	s, ok := state.(*S)
	if !ok {
		return out, Errorf(Internal, "the state handed to a query of actor type %q is of another type", p.core.name)
	}
	return p.methods[method].query(s, r, as, input, out)
}

// An instance is one awake actor: its state and nothing else. Used by one goroutine at a time.
type instance[S any] struct {
	program *program[S]
	state   S
}

// Load implements host.Instance.
func (i *instance[S]) Load(version uint64, blob []byte) error {
	return i.program.load(&i.state, version, blob)
}

// Save implements host.Instance.
func (i *instance[S]) Save(dst []byte) ([]byte, error) {
	out, err := i.program.state.Append(host.CBOR, dst, &i.state)
	if err != nil {
		return dst, fmt.Errorf("encode the state: %w", err)
	}
	return out, nil
}

// Act implements host.Instance.
func (i *instance[S]) Act(t host.Turn, method int, as host.Codec, input, out []byte) ([]byte, error) {
	if method < 0 || method >= len(i.program.methods) || i.program.methods[method].act == nil {
		return out, Errorf(UnknownMethod, "actor type %q has no action number %d", i.program.core.name, method)
	}
	return i.program.methods[method].act(&i.state, t, as, input, out)
}

// Alarm implements host.Instance.
func (i *instance[S]) Alarm(t host.Turn, alarm int, instance string, payload []byte) error {
	if alarm < 0 || alarm >= len(i.program.alarms) {
		return Errorf(UnknownMethod, "actor type %q has no alarm number %d", i.program.core.name, alarm)
	}
	return i.program.alarms[alarm].alarm(&i.state, t, instance, payload)
}

// Create implements host.Instance.
func (i *instance[S]) Create(t host.Turn) error { return i.hook(i.program.spec.OnCreate, t) }

// Wake implements host.Instance.
func (i *instance[S]) Wake(t host.Turn) error { return i.hook(i.program.spec.OnWake, t) }

// Sleep implements host.Instance.
func (i *instance[S]) Sleep(t host.Turn) error { return i.hook(i.program.spec.OnSleep, t) }

// Destroy implements host.Instance.
func (i *instance[S]) Destroy(t host.Turn) error { return i.hook(i.program.spec.OnDestroy, t) }

func (i *instance[S]) hook(f func(*S, *Context) error, t host.Turn) error {
	if f == nil {
		return nil
	}
	ctx := newContext(t, i.program.core)
	return ctx.end(f(&i.state, ctx))
}
