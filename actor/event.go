package actor

import (
	"encoding/json"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// An Event is a notification from an actor to clients that are connected now, subscribers over
// HTTP, and NATS. The value is sent as JSON; text in it must be UTF-8. [OnSubscribe] binds a hook
// that admits or refuses subscribers.
type Event[T any] struct {
	_ [0]func(T) // keeps types of other values from being converted into it
	event
}

// An event is an Event with a value of any type.
type event struct {
	decl *declared
	data *codec.Value
}

// An EventConfig declares how an event is delivered. Zero fields have defaults.
type EventConfig struct {
	// Durable makes a turn that emits the event fail while the outbox is full. Otherwise the event
	// is dropped.
	Durable bool
}

// NewEvent declares an event of t. The name has the form that [NewType] describes and is unique
// among the type's events. T must be encodable as JSON.
func NewEvent[T, S any](t *Type[S], name string, cfg EventConfig) *Event[T] {
	c := coreOf(t)
	data := codec.Of[T](c.codec, codec.JSON)
	return &Event[T]{event: event{data: data, decl: c.declare(declared{
		kind: kindEvent, name: name, durable: cfg.Durable, faults: prefixed("value ", data.Faults()),
		values: []codec.Described{data.Describe(host.EventValue)},
	})}}
}

// Emit publishes the event when the turn is durable, in the order of the emits of the actor. The
// value is encoded at once.
//
// If Emit fails, so does the turn, whether or not the handler looks at the error.
func (e *Event[T]) Emit(ctx *Context, value T) error { return e.emit(ctx, &value) }

func (e *event) emit(ctx *Context, value any) error {
	data, err := e.encode(ctx, value)
	if err != nil {
		return ctx.fail(err)
	}
	return ctx.fail(ctx.turn.Emit(e.decl.index, data))
}

// EmitTo sends the event to one connection, whether or not it is subscribed, when the turn is
// durable. A lost client gets it if it comes back in time. A client that is gone does not.
// Otherwise it is like Emit.
func (e *Event[T]) EmitTo(ctx *Context, connection string, value T) error {
	if connection == "" { // to the runtime, "" means all connections
		return ctx.fail(Errorf(InvalidArgument, "%s: EmitTo needs the id of a connection", e.decl))
	}
	return e.emitTo(ctx, &value, connection, nil)
}

func (e *event) emitTo(ctx *Context, value any, connection string, except []string) error {
	data, err := e.encode(ctx, value)
	if err != nil {
		return ctx.fail(err)
	}
	return ctx.fail(ctx.turn.EmitTo(e.decl.index, data, connection, except))
}

// EmitExcept sends the event to its subscribed connections, except the given ids, when the turn is
// durable. Otherwise it is like Emit.
func (e *Event[T]) EmitExcept(ctx *Context, value T, connections ...string) error {
	return e.emitTo(ctx, &value, "", connections)
}

func (e *event) encode(ctx *Context, value any) ([]byte, error) {
	if err := ctx.own(e.decl); err != nil {
		return nil, err
	}
	data, err := e.data.Append(host.JSON, nil, value)
	if err != nil {
		return nil, valueError(e.decl, err)
	}
	if len(data) == 0 {
		data = []byte("null")
	}
	return data, nil
}

// Decode reads the data of an event that a subscription delivered. Unknown fields are ignored, so
// that a subscriber may be older than the actor.
func (e *Event[T]) Decode(data []byte) (v T, err error) {
	if err := json.Unmarshal(data, &v); err != nil {
		return v, Errorf(InvalidArgument, "%s: %s", e.decl, codec.JSONReason(err))
	}
	return v, nil
}
