package actor

import (
	"context"
	"database/sql"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Reader is the reading part of *Context and *ReadContext. Only they implement it.
type Reader interface {
	context.Context
	Node
	reader() host.Reader
	own(*declared) error
	connection() *hookConnection
}

var (
	_ Reader = (*Context)(nil)
	_ Reader = (*ReadContext)(nil)
)

// A Context is for turns. All writes of a handler through it become one commit when the handler
// returns nil, and are dropped otherwise.
//
//  1. It is the context.Context of the turn. It ends when the caller's context ends or when the
//     turn's time is up. Pass it to calls of other actors, HTTP requests and the like.
//  2. It is valid until the handler returns; using it afterwards is an error.
//  3. Goroutines of a handler may use it as a context.Context and as a Node. The other methods are
//     for the handler's own goroutine.
//  4. A failed Emit, Send, Put, Append, Save and so on, or a failed call of an alarm or schedule,
//     fails the turn, even if the handler ignores the error and returns nil. So no requested effect
//     is silently missing from a commit. Only writes to the key-value store are left to the
//     handler.
type Context struct {
	context.Context
	Node
	turn   host.Turn
	core   *core
	failed atomic.Pointer[error] // also set by goroutines of the handler, which may use the context in calls

	// The cause of the turn, for the methods that return it to the handler.
	instance string
	message  *host.Received
	tick     *host.Tick
	hook     *hookConnection
}

// own returns an error if d belongs to another actor type than the running turn. The turn then
// fails, whether or not the handler looks at the error, because the intended write is lost.
func (c *Context) own(d *declared) error { return c.fail(own(c.core, d)) }

func (c *Context) reader() host.Reader { return c.turn }

func (c *Context) connection() *hookConnection { return c.hook }

// fail remembers the first failed write and returns err.
func (c *Context) fail(err error) error {
	if err != nil {
		first := err
		c.failed.CompareAndSwap(nil, &first)
	}
	return err
}

// end returns the turn's outcome, given what the handler returned.
func (c *Context) end(err error) error {
	if first := c.failed.Load(); err == nil && first != nil {
		return *first
	}
	return err
}

// newContext returns the Context of a turn.
func newContext(t host.Turn, c *core) *Context {
	return &Context{Context: t, Node: t, turn: t, core: c}
}

// Value returns a value of the turn's context.
func (c *Context) Value(key any) any {
	if key == (site.InsideKey{}) {
		return &site.Inside{Fail: c.fail}
	}
	if key == (site.ScopeKey{}) {
		return (*turnScope)(c)
	}
	return c.turn.Value(key)
}

// Type returns the name of the actor's type.
func (c *Context) Type() string { return c.turn.Self().Type }

// Key returns the parts of the actor's key, which must not be changed.
func (c *Context) Key() []string { return c.turn.Self().Key }

// ID returns the UUID that the actor has from creation to destruction.
func (c *Context) ID() string { return c.turn.Self().ID }

// Version returns the version that the turn will commit.
func (c *Context) Version() uint64 { return c.turn.Version() }

// Now returns the turn's time, the same throughout the turn. It is in UTC or local time, as the
// node chooses.
func (c *Context) Now() time.Time { return c.turn.Now() }

// Log returns a logger with the actor's type, key and version as attributes.
func (c *Context) Log() *slog.Logger { return c.turn.Logger() }

// Traceparent returns the W3C trace context that the call came with, or "".
func (c *Context) Traceparent() string { return c.turn.Traceparent() }

// AlarmInstance returns the instance name of the alarm whose handler is running, and "" in other
// turns.
func (c *Context) AlarmInstance() string { return c.instance }

// KV returns the actor's key-value store.
func (c *Context) KV() KV { return KV{ReadKV: ReadKV{r: c.turn}, turn: c.turn, ctx: c} }

// SQL returns a handle of the actor's SQLite database, the same throughout the turn. It works with
// every library for database/sql.
//
//  1. The turn is one transaction: rows are committed together with the state and everything else
//     when the handler returns nil, and vanish otherwise. BeginTx, and BEGIN in SQL, set savepoints
//     inside it, which must end before the handler returns.
//  2. All connections that the handle gives out are that one transaction: rows can be iterated
//     while other statements run.
//  3. Pass the Context to every statement; in any case they are interrupted when the turn's time is
//     up.
//  4. An error because room, memory or time ran out usually ends the transaction. Then every later
//     statement fails, and so does the turn, even if the handler returns nil.
//  5. After the turn the handle is closed.
//
// The first statement that writes creates the database; an actor that does not use it has none.
// Keep the schema in [Spec.Migrations].
func (c *Context) SQL() *sql.DB { return c.turn.SQL() }

// DestroySelf removes the actor and everything that it stored when the turn commits. Events and
// messages of the turn still go out.
func (c *Context) DestroySelf() { c.turn.DestroySelf() }

// A ReadContext is for queries. A query reads the actor's last committed state and store, and calls
// queries of other actors. It is the context.Context of the query, and is valid until the handler
// returns.
type ReadContext struct {
	context.Context
	Node
	r    host.Reader
	core *core
}

func newReadContext(r host.Reader, c *core) *ReadContext {
	return &ReadContext{Context: r, Node: r, r: r, core: c}
}

func (c *ReadContext) own(d *declared) error { return own(c.core, d) }

func (c *ReadContext) reader() host.Reader { return c.r }

func (c *ReadContext) connection() *hookConnection { return nil }

// Value returns a value of the query's context.
func (c *ReadContext) Value(key any) any {
	if key == (site.InsideKey{}) {
		return new(site.Inside)
	}
	if key == (site.ScopeKey{}) {
		return (*queryScope)(c)
	}
	return c.r.Value(key)
}

// Type returns the name of the actor's type.
func (c *ReadContext) Type() string { return c.r.Self().Type }

// Key returns the parts of the actor's key, which must not be changed.
func (c *ReadContext) Key() []string { return c.r.Self().Key }

// ID returns the UUID that the actor has from creation to destruction.
func (c *ReadContext) ID() string { return c.r.Self().ID }

// Version returns the version of the state that the query reads.
func (c *ReadContext) Version() uint64 { return c.r.Version() }

// Log returns a logger with the actor's type, key and version as attributes.
func (c *ReadContext) Log() *slog.Logger { return c.r.Logger() }

// Traceparent returns the W3C trace context that the call came with, or "".
func (c *ReadContext) Traceparent() string { return c.r.Traceparent() }

// KV returns the actor's key-value store, as it was at the query's version.
func (c *ReadContext) KV() ReadKV { return ReadKV{r: c.r} }

// SQL returns a handle of the actor's SQLite database as it was at the query's version. It only
// reads. Queries run beside each other and beside the actor's turns. After the query the handle is
// closed.
func (c *ReadContext) SQL() *sql.DB { return c.r.SQL() }

func own(running *core, d *declared) error {
	if running == d.core {
		return nil
	}
	return Errorf(Internal, "%s belongs to actor type %q and was used by an actor of type %q", d,
		d.core.name, running.name)
}

// valueError says that a value of a contract does not encode or decode.
func valueError(d *declared, err error) error {
	return Errorf(Internal, "%s: %s", d, err)
}
