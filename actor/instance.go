package actor

import (
	"fmt"
	"reflect"
	"strconv"
	"unsafe"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// A program is one type's code in runnable form. States are pointers to the state of a [Type].
// Immutable once compiled.
type program struct {
	core    *core
	version uint64
	state   *codec.Value
	stateOf func(*awake) any
	migrate func(s any, old Stored) error

	create, wake, sleep, destroy func(s any, ctx *Context) error
	// In the order of the behavior's tables. A queue of workers, and an event or a map without a
	// hook, have an empty tie.
	methods, alarms, queues, schedules, events, maps []tie
	connections                                      []tie // the hooks of connecting and of disconnecting

	values map[host.ValueKind][]codec.Described
}

// load replaces the state that s points to by a stored one.
func (p *program) load(s any, version uint64, blob []byte) error {
	reflect.ValueOf(s).Elem().SetZero()
	switch {
	case blob == nil:
		return nil
	case version > p.version:
		return Errorf(StateTooNew,
			"the state was stored by version %d of the code, this is version %d", version, p.version).
			With("stored", strconv.FormatUint(version, 10)).
			With("supported", strconv.FormatUint(p.version, 10))
	case version < p.version && p.migrate != nil:
		if err := p.migrate(s, Stored{version: version, blob: blob, codec: p.core.codec}); err != nil {
			return fmt.Errorf("migrate the state from version %d to %d: %w", version, p.version, err)
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

// decode is host.Behavior.Decode.
func (p *program) decode(version uint64, blob []byte) (any, error) {
	s := p.state.New()
	if err := p.load(s, version, blob); err != nil {
		return nil, err
	}
	return s, nil
}

// query is host.Behavior.Query.
func (p *program) query(r host.Reader, method int, state any, as host.Codec, input, out []byte) ([]byte, error) {
	if method < 0 || method >= len(p.methods) || p.methods[method].query == nil {
		return out, Errorf(UnknownMethod, "actor type %q has no query number %d", p.core.name, method)
	}
	if !p.state.Is(state) {
		return out, Errorf(Internal, "the state handed to a query of actor type %q is of another type", p.core.name)
	}
	b := &p.methods[method]
	in := b.in.New()
	if err := decodeInput(b.decl, b.in, as, input, in); err != nil {
		return out, err
	}
	result, err := b.query(state, newReadContext(r, p.core), in)
	if err != nil {
		return out, err
	}
	return b.output(as, out, result)
}

// An instance is one awake actor: its state and nothing else. Used by one goroutine at a time.
type instance[S any] struct {
	awake awake
	state S
}

// awake is the part of an instance that does not depend on its type, and its first field.
type awake struct{ program *program }

// stateOf returns a pointer to the state of an instance of S.
func stateOf[S any](a *awake) any { return &(*instance[S])(unsafe.Pointer(a)).state }

// State implements host.Instance.
func (a *awake) State() any { return a.program.stateOf(a) }

// Load implements host.Instance.
func (a *awake) Load(version uint64, blob []byte) error {
	return a.program.load(a.State(), version, blob)
}

// Save implements host.Instance.
func (a *awake) Save(dst []byte) ([]byte, error) {
	out, err := a.program.state.Append(host.CBOR, dst, a.State())
	if err != nil {
		return dst, fmt.Errorf("encode the state: %w", err)
	}
	return out, nil
}

// Act implements host.Instance.
func (a *awake) Act(t host.Turn, method int, as host.Codec, input, out []byte) ([]byte, error) {
	b, err := a.bound(a.program.methods, method, "has no action number")
	if err != nil {
		return out, err
	}
	in := b.in.New()
	if err := decodeInput(b.decl, b.in, as, input, in); err != nil {
		return out, err
	}
	result, err := b.turn(a.State(), newContext(t, a.program.core), in)
	if err != nil {
		return out, err
	}
	return b.output(as, out, result)
}

// bound returns the binding with a number of a table, if its handler runs in turns.
func (a *awake) bound(table []tie, number int, otherwise string) (*tie, error) {
	if number < 0 || number >= len(table) || table[number].call == nil {
		return nil, Errorf(UnknownMethod, "actor type %q %s %d", a.program.core.name, otherwise, number)
	}
	return &table[number], nil
}

// Create implements host.Instance.
func (a *awake) Create(t host.Turn) error { return a.hook(a.program.create, t) }

// Wake implements host.Instance.
func (a *awake) Wake(t host.Turn) error { return a.hook(a.program.wake, t) }

// Sleep implements host.Instance.
func (a *awake) Sleep(t host.Turn) error { return a.hook(a.program.sleep, t) }

// Destroy implements host.Instance.
func (a *awake) Destroy(t host.Turn) error { return a.hook(a.program.destroy, t) }

func (a *awake) hook(f func(any, *Context) error, t host.Turn) error {
	if f == nil {
		return nil
	}
	ctx := newContext(t, a.program.core)
	return ctx.end(f(a.State(), ctx))
}
