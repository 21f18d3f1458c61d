package actor

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// Message implements host.Instance.
func (i *instance[S]) Message(t host.Turn, queue int, m *host.Received, out []byte) ([]byte, error) {
	if queue < 0 || queue >= len(i.program.queues) || i.program.queues[queue].message == nil {
		return out, Errorf(UnknownMethod, "actor type %q handles no queue number %d", i.program.core.name, queue)
	}
	return i.program.queues[queue].message(&i.state, t, m, out)
}

// Schedule implements host.Instance.
func (i *instance[S]) Schedule(t host.Turn, schedule int, tick *host.Tick, payload []byte) error {
	if schedule < 0 || schedule >= len(i.program.schedules) {
		return Errorf(UnknownMethod, "actor type %q has no schedule number %d", i.program.core.name, schedule)
	}
	return i.program.schedules[schedule].schedule(&i.state, t, tick, payload)
}

// Connect implements host.Instance.
func (i *instance[S]) Connect(t host.Turn, c *host.ConnectionState, params []byte) error {
	if i.program.connect == nil {
		return nil
	}
	return i.program.connect(&i.state, t, c, params)
}

// Disconnect implements host.Instance.
func (i *instance[S]) Disconnect(t host.Turn, c *host.ConnectionState, cause *host.Error) error {
	if i.program.disconnect == nil {
		return nil
	}
	return i.program.disconnect(&i.state, t, c, cause)
}

// Subscribe implements host.Instance.
func (i *instance[S]) Subscribe(t host.Turn, event int, c *host.ConnectionState) error {
	if event < 0 || event >= len(i.program.events) {
		return Errorf(UnknownMethod, "actor type %q has no event number %d", i.program.core.name, event)
	}
	if i.program.events[event].subscribe == nil {
		return nil
	}
	return i.program.events[event].subscribe(&i.state, t, c)
}

// State implements host.Instance.
func (i *instance[S]) State() any { return &i.state }

// convert is host.Behavior.Convert.
func (p *program[S]) convert(
	kind host.ValueKind, index int, from host.Codec, data []byte, to host.Codec, out []byte,
) ([]byte, error) {
	v, ok := p.value(kind, index)
	if !ok {
		return out, &codec.ValueError{Reason: "there is no such value"}
	}
	return v.Convert(from, data, to, out)
}

func (p *program[S]) value(kind host.ValueKind, index int) (codec.Described, bool) {
	if index < 0 || index >= len(p.values[kind]) {
		return codec.Described{}, false
	}
	return p.values[kind][index], true
}

// schema implements host.Behavior.Schema. What only the actor writes is described as written; what
// clients may write, too, as it is read.
func (p *program[S]) schema(kind host.ValueKind, index int) []byte {
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
