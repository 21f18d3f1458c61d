package actor

import (
	"slices"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

// OnConnect binds the hook that runs when a client connects: OnConnect(Clients, (*Room).join). If
// the hook returns an error, the client is refused and gets the error. Otherwise the connection is
// stored with the state that the hook has set. Parameters that the client did not send are the zero
// value. The hook does not run again when a lost client comes back.
func OnConnect[S, P, C any](c *Connections[S, P, C], handler func(*S, *Context, *Connection[C], P) error) Binding[S] {
	if c == nil {
		return Binding[S]{}
	}
	b := Binding[S]{tie: tie{decl: c.decl, slot: slotConnect, handler: funcName(handler)}}
	b.connect = func(s *S, t host.Turn, stored *host.ConnectionState, params []byte) error {
		var p P
		if err := c.decodeParams(params, &p); err != nil {
			return Errorf(InvalidArgument, "parameters of the connection: %s", err)
		}
		ctx := newContext(t, c.decl.core)
		ctx.hook = &hookConnection{ConnectionState: stored, during: connecting}
		one, err := c.load(ctx, stored)
		if err != nil {
			return err
		}
		if err := ctx.end(handler(s, ctx, one, p)); err != nil {
			return err
		}
		data, err := c.encodeState(&one.State)
		if err != nil {
			return valueError(c.decl, err)
		}
		stored.State = data
		return nil
	}
	return b
}

// OnDisconnect binds the hook that runs when a connection has ended: OnDisconnect(Clients,
// (*Room).leave). A connection ends when its client or the actor closes it, or when a lost client
// does not come back in time. It is no longer listed. [Context.DisconnectCause] returns the reason.
func OnDisconnect[S, P, C any](c *Connections[S, P, C], handler func(*S, *Context, *Connection[C]) error) Binding[S] {
	if c == nil {
		return Binding[S]{}
	}
	b := Binding[S]{tie: tie{decl: c.decl, slot: slotDisconnect, handler: funcName(handler)}}
	b.disconnect = func(s *S, t host.Turn, stored *host.ConnectionState, cause *host.Error) error {
		hook := &hookConnection{ConnectionState: stored, during: disconnected, cause: cause}
		ctx := newContext(t, c.decl.core)
		ctx.hook = hook
		one, err := c.load(ctx, stored)
		if err != nil {
			return err
		}
		return ctx.end(handler(s, ctx, one))
	}
	return b
}

// OnSubscribe binds the hook that runs before a connection is subscribed to an event:
// OnSubscribe(Said, (*Room).maySubscribe). An error refuses the subscription, and the client gets
// the error. [Connections.Get] loads the connection with its state. An event with a hook is
// delivered to connections only, and not to anonymous subscribers.
func OnSubscribe[S, T any](e *Event[T], handler func(*S, *Context, handle.ConnectionInfo) error) Binding[S] {
	if e == nil {
		return Binding[S]{}
	}
	core := e.decl.core
	b := Binding[S]{tie: tie{decl: e.decl, handler: funcName(handler)}}
	b.subscribe = func(s *S, t host.Turn, stored *host.ConnectionState) error {
		ctx := newContext(t, core)
		ctx.hook = &hookConnection{ConnectionState: stored, during: subscribing}
		return ctx.end(handler(s, ctx, infoOf(stored)))
	}
	return b
}

func infoOf(stored *host.ConnectionState) handle.ConnectionInfo {
	info := handle.ConnectionInfo{ID: stored.ID, Events: slices.Clone(stored.Events), Transport: stored.Transport, Connected: stored.Connected}
	if lost := stored.Lost; !lost.IsZero() {
		info.Lost = &lost
	}
	return info
}

// DisconnectCause returns the reason of a disconnect hook: why the connection ended. It is nil if
// the client closed the connection, and in other turns.
func (c *Context) DisconnectCause() *Error {
	if c.hook == nil {
		return nil
	}
	return c.hook.cause
}
