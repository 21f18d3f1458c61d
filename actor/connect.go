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
	return Binding[S]{tie: tie{decl: c.decl, slot: slotConnect, handler: funcName(handler),
		in: c.params, out: c.state, call: func(s any, ctx *Context, in any) (any, error) {
			one, err := c.load(ctx, ctx.hook.ConnectionState)
			if err != nil {
				return nil, err
			}
			return &one.State, handler(s.(*S), ctx, one, *in.(*P))
		}}}
}

// OnDisconnect binds the hook that runs when a connection has ended: OnDisconnect(Clients,
// (*Room).leave). A connection ends when its client or the actor closes it, or when a lost client
// does not come back in time. It is no longer listed. [Context.DisconnectCause] returns the reason.
func OnDisconnect[S, P, C any](c *Connections[S, P, C], handler func(*S, *Context, *Connection[C]) error) Binding[S] {
	if c == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: c.decl, slot: slotDisconnect, handler: funcName(handler),
		call: func(s any, ctx *Context, _ any) (any, error) {
			one, err := c.load(ctx, ctx.hook.ConnectionState)
			if err != nil {
				return nil, err
			}
			return nil, handler(s.(*S), ctx, one)
		}}}
}

// OnSubscribe binds the hook that runs before a connection is subscribed to an event:
// OnSubscribe(Said, (*Room).maySubscribe). An error refuses the subscription, and the client gets
// the error. [Connections.Get] loads the connection with its state. An event with a hook is
// delivered to connections only, and not to anonymous subscribers.
func OnSubscribe[S, T any](e *Event[T], handler func(*S, *Context, handle.ConnectionInfo) error) Binding[S] {
	if e == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: e.decl, handler: funcName(handler),
		call: func(s any, ctx *Context, _ any) (any, error) {
			return nil, handler(s.(*S), ctx, infoOf(ctx.hook.ConnectionState))
		}}}
}

func infoOf(stored *host.ConnectionState) handle.ConnectionInfo {
	info := handle.ConnectionInfo{ID: stored.ID, Events: slices.Clone(stored.Events),
		Transport: stored.Transport, Connected: stored.Connected}
	if lost := stored.Lost; !lost.IsZero() {
		info.Lost = &lost
	}
	return info
}

// DisconnectCause returns why the connection of a disconnect hook ended. It is nil if the client
// closed the connection, and in other turns.
func (c *Context) DisconnectCause() *Error {
	if c.hook == nil {
		return nil
	}
	return c.hook.cause
}
