package actor

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// Alarm implements host.Instance.
func (a *awake) Alarm(t host.Turn, alarm int, instance string, payload []byte) error {
	b, err := a.bound(a.program.alarms, alarm, "has no alarm number")
	if err != nil {
		return err
	}
	ctx := newContext(t, a.program.core)
	ctx.instance = instance
	_, err = a.given(b, ctx, payload)
	return err
}

// given runs the handler of a stored value.
func (a *awake) given(b *tie, ctx *Context, stored []byte) (out any, err error) {
	in := b.in.New()
	if err := b.in.Decode(host.CBOR, stored, in); err != nil {
		return nil, valueError(b.decl, err)
	}
	return b.turn(a.State(), ctx, in)
}

// Message implements host.Instance.
func (a *awake) Message(t host.Turn, queue int, m *host.Received, out []byte) ([]byte, error) {
	b, err := a.bound(a.program.queues, queue, "handles no queue number")
	if err != nil {
		return out, err
	}
	ctx := newContext(t, a.program.core)
	ctx.message = m
	reply, err := a.given(b, ctx, m.Body)
	if err != nil {
		return out, err
	}
	return b.output(host.CBOR, out, reply)
}

// Schedule implements host.Instance.
func (a *awake) Schedule(t host.Turn, schedule int, tick *host.Tick, payload []byte) error {
	b, err := a.bound(a.program.schedules, schedule, "has no schedule number")
	if err != nil {
		return err
	}
	ctx := newContext(t, a.program.core)
	ctx.tick = tick
	_, err = a.given(b, ctx, payload)
	return err
}

// Change implements host.Instance.
func (a *awake) Change(t host.Turn, kvMap int, c *host.KVChange) error {
	b, err := a.bound(a.program.maps, kvMap, "handles no changes of map number")
	if err != nil {
		return err
	}
	_, err = b.turn(a.State(), newContext(t, a.program.core), c)
	return err
}

// Connect implements host.Instance.
func (a *awake) Connect(t host.Turn, c *host.ConnectionState, params []byte) error {
	b := &a.program.connections[0]
	if b.call == nil {
		return nil
	}
	in := b.in.New()
	if err := decodeParams(b.in, params, in); err != nil {
		return Errorf(InvalidArgument, "parameters of the connection: %s", err)
	}
	state, err := b.turn(a.State(), a.hooked(t, hookConnection{ConnectionState: c, during: connecting}), in)
	if err != nil {
		return err
	}
	data, err := b.out.Append(host.CBOR, nil, state)
	if err != nil {
		return valueError(b.decl, err)
	}
	c.State = data
	return nil
}

// hooked returns the context of the hook of a connection.
func (a *awake) hooked(t host.Turn, h hookConnection) *Context {
	ctx := newContext(t, a.program.core)
	ctx.hook = &h
	return ctx
}

// Disconnect implements host.Instance.
func (a *awake) Disconnect(t host.Turn, c *host.ConnectionState, cause *host.Error) error {
	b := &a.program.connections[1]
	if b.call == nil {
		return nil
	}
	_, err := b.turn(a.State(),
		a.hooked(t, hookConnection{ConnectionState: c, during: disconnected, cause: cause}), nil)
	return err
}

// Subscribe implements host.Instance.
func (a *awake) Subscribe(t host.Turn, event int, c *host.ConnectionState) error {
	if event < 0 || event >= len(a.program.events) {
		return Errorf(UnknownMethod, "actor type %q has no event number %d", a.program.core.name, event)
	}
	b := &a.program.events[event]
	if b.call == nil {
		return nil
	}
	_, err := b.turn(a.State(), a.hooked(t, hookConnection{ConnectionState: c, during: subscribing}), nil)
	return err
}

// convert is host.Behavior.Convert.
func (p *program) convert(
	kind host.ValueKind, index int, from host.Codec, data []byte, to host.Codec, out []byte,
) ([]byte, error) {
	v, ok := p.value(kind, index)
	if !ok {
		return out, &codec.ValueError{Reason: "there is no such value"}
	}
	return v.Convert(from, data, to, out)
}

func (p *program) value(kind host.ValueKind, index int) (codec.Described, bool) {
	if index < 0 || index >= len(p.values[kind]) {
		return codec.Described{}, false
	}
	return p.values[kind][index], true
}

// schema is host.Behavior.Schema. Values that only the actor writes are described as written,
// values that clients may also write, as read.
func (p *program) schema(kind host.ValueKind, index int) []byte {
	v, ok := p.value(kind, index)
	if !ok {
		return nil
	}
	use := codec.ReadSchema
	if kind == host.MethodOutput || kind == host.EventValue {
		use = codec.WrittenSchema
	}
	return codec.Schema(v.Type, use)
}
