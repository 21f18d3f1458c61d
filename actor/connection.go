package actor

import (
	"bytes"
	"iter"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// Connections are the clients of an actor, over WebSocket or server-sent events. Each connection
// has parameters of type P, which the client sent when it connected, and a state of type C, which
// the actor keeps. A lost client may come back within the grace that the type's limits allow. Until
// then its connection stays, even while the actor sleeps.
//
// Bind [OnConnect] to accept or refuse clients, and [OnDisconnect] to run code when a connection
// ends. Neither is required. Without hooks, and for types that declare no Connections, each client
// that the node admits may connect.
type Connections[S, P, C any] struct {
	_      [0]func(S, P, C) // keeps types of other values from being converted into it
	decl   *declared
	params *codec.Value
	state  *codec.Value
}

// NewConnections declares the connections of t: the type of the parameters and of the state. A type
// has at most one. P must be encodable as JSON, C as CBOR; both may be [None].
func NewConnections[P, C, S any](t *Type[S]) *Connections[S, P, C] {
	core := coreOf(t)
	c := &Connections[S, P, C]{params: codec.Of[P](core.codec, codec.JSON), state: codec.Of[C](core.codec, codec.CBOR)}
	c.decl = core.declare(declared{
		kind: kindConnections, values: []codec.Described{c.params.Describe(host.ConnectParams)},
		faults: append(prefixed("parameters ", c.params.Faults()), prefixed("state ", c.state.Faults())...),
	})
	return c
}

// A Connection is one connection of an actor with its state at the time of loading. It belongs to
// the turn or query that loaded it.
type Connection[C any] struct {
	// ConnectionInfo describes the connection. Its ID is unique; [Event.EmitTo] takes it.
	handle.ConnectionInfo
	// State is the actor's state for the client: the zero value before the first Save.
	State C

	stored host.ConnectionState
	decl   *declared
	states *codec.Value
	// hook is set if the hook of this connection is running.
	hook *hookConnection
}

// A hookConnection is the connection whose hook is running.
type hookConnection struct {
	*host.ConnectionState
	during hookKind
	cause  *Error // why it was disconnected
	// loaded is the *Connection that the hook was given, or that was loaded first.
	loaded any
}

type hookKind uint8

const (
	connecting hookKind = iota + 1
	disconnected
	subscribing
)

// ForgetParams keeps the parameters from being stored. It works in the connect hook only; elsewhere
// the error code is FailedPrecondition.
func (c *Connection[C]) ForgetParams() error {
	if c.hook == nil || c.hook.during != connecting {
		return Errorf(FailedPrecondition, "parameters are stored when the connect hook returns; forget them in it")
	}
	c.hook.Params, c.stored.Params = nil, nil
	return nil
}

// Save stores State as part of the turn's commit. In the connect and disconnect hooks Save does
// nothing: a new connection is stored when the connect hook returns, and an ended one is gone.
//
// If Save fails, so does the turn, whether or not the handler looks at the error. The error code is
// NotFound if the connection is gone.
func (c *Connection[C]) Save(ctx *Context) error {
	if err := ctx.own(c.decl); err != nil {
		return ctx.fail(err)
	}
	data, err := c.states.Append(host.CBOR, nil, &c.State)
	if err != nil {
		return ctx.fail(valueError(c.decl, err))
	}
	if c.hook != nil {
		if c.hook.during != subscribing {
			return nil
		}
		c.hook.State = data // which replaces what is stored, if the client is only just connecting
	}
	return ctx.fail(ctx.turn.SetConnectionState(c.ID, data))
}

// Close ends the connection and reports whether there was one. The client gets the reason; a nil
// reason says only that the actor closed it. The disconnect hook runs in this turn.
//
// If Close fails, so does the turn, whether or not the handler looks at the error.
func (c *Connection[C]) Close(ctx *Context, reason *Error) (bool, error) {
	if err := ctx.own(c.decl); err != nil {
		return false, ctx.fail(err)
	}
	was, err := ctx.turn.CloseConnection(c.ID, reason)
	return was, ctx.fail(err)
}

// Params decodes the parameters that the client sent when it connected. They are the zero value if
// they were not kept ([Connection.ForgetParams]).
func (c *Connections[S, P, C]) Params(connection *Connection[C]) (P, error) {
	var p P
	if err := decodeParams(c.params, connection.stored.Params, &p); err != nil {
		return p, valueError(c.decl, err)
	}
	return p, nil
}

// decodeParams decodes parameters like method inputs, except that absent ones are the zero value.
func decodeParams(w *codec.Value, data []byte, p any) error {
	if data = bytes.Trim(data, " \t\r\n"); len(data) == 0 || string(data) == "null" {
		return nil
	}
	return w.Decode(host.JSON, data, p)
}

// All ranges over the actor's connections in the order of their ids, including lost ones that may
// come back. It works in a turn and in a query, and reads page by page. An error ends it.
func (c *Connections[S, P, C]) All(ctx Reader) iter.Seq2[*Connection[C], error] {
	return func(yield func(*Connection[C], error) bool) {
		if err := ctx.own(c.decl); err != nil {
			yield(nil, err)
			return
		}
		for after := ""; ; {
			page, err := ctx.reader().Connections(after, pageEntries)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				after = page[i].ID
				one, err := c.load(ctx, &page[i])
				if !yield(one, err) || err != nil {
					return
				}
			}
			if len(page) < pageEntries {
				return
			}
		}
	}
}

// Get returns the connection of an id; false means that there is none. It works in a turn and in a
// query, and in the hook of the connection itself.
func (c *Connections[S, P, C]) Get(ctx Reader, id string) (*Connection[C], bool, error) {
	if err := ctx.own(c.decl); err != nil {
		return nil, false, err
	}
	stored, ok, err := ctx.reader().Connection(id)
	if hook := ctx.connection(); hook != nil && hook.ID == id {
		stored, ok, err = *hook.ConnectionState, true, nil
	}
	if err != nil || !ok {
		return nil, false, err
	}
	one, err := c.load(ctx, &stored)
	return one, err == nil, err
}

// Caller returns the connection of the call; false means that the call came over no connection, or
// that the connection is gone. It works in a turn and in a query.
func (c *Connections[S, P, C]) Caller(ctx Reader) (*Connection[C], bool, error) {
	id := ctx.reader().Caller()
	if id == "" {
		return nil, false, ctx.own(c.decl)
	}
	return c.Get(ctx, id)
}

// load makes a Connection of a stored one. A hook loads its own only once.
func (c *Connections[S, P, C]) load(ctx Reader, stored *host.ConnectionState) (*Connection[C], error) {
	hook := ctx.connection()
	if hook == nil || hook.ID != stored.ID {
		return c.decode(stored)
	}
	if one, ok := hook.loaded.(*Connection[C]); ok {
		return one, nil
	}
	one, err := c.decode(hook.ConnectionState)
	if err == nil {
		one.hook, hook.loaded = hook, one
	}
	return one, err
}

func (c *Connections[S, P, C]) decode(stored *host.ConnectionState) (*Connection[C], error) {
	one := &Connection[C]{ConnectionInfo: infoOf(stored), stored: *stored, decl: c.decl, states: c.state}
	if len(stored.State) > 0 {
		if err := c.state.Decode(host.CBOR, stored.State, &one.State); err != nil {
			return nil, valueError(c.decl, err)
		}
	}
	return one, nil
}

// Of returns the connections of an actor, for operators.
func (c *Connections[S, P, C]) Of(ref Ref[S]) handle.Connections {
	return handle.NewConnections(ref.ref.site(label{decl: c.decl}))
}

// Caller returns the id of the connection that the call came over, or "". [Connections.Caller]
// loads it.
func (c *Context) Caller() string { return c.turn.Caller() }

// Caller returns the id of the connection that the call came over, or "". [Connections.Caller]
// loads it.
func (c *ReadContext) Caller() string { return c.r.Caller() }
