package kernel

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/deadline"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
)

// TurnKey finds the turn or query that a context belongs to.
type TurnKey struct{}

// Caller is the source of a call, from the call's context: the turn or query that makes the call.
type Caller struct {
	Waiter *Turn // the turn that waits for this turn or query to end: itself, or the caller of the query; may be nil
	Span   span.Ref
	Depth  int32 // how many calls deep
	Kind   CallerKind
}

// A CallerKind is the kind of a caller.
type CallerKind uint8

// The kinds of callers.
const (
	// FromTurn: the turn, which is the waiter.
	FromTurn CallerKind = iota
	// FromQuery: a query, which must not write.
	FromQuery
	// FromBeside: a goroutine beside the actor. It may write, and no turn waits for it.
	FromBeside
)

// CallerOf returns the turn or query that ctx belongs to; nil if there is none.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(TurnKey{}).(*Caller)
	return c
}

// A Turn is one handler's run. Its methods may be called from any goroutine until the handler
// returns; afterwards they fail.
//
// As a context it ends with the caller's context, at the turn's deadline, or when the handler has
// returned. It carries no values of the caller's. Its Mu guards what operations of the handler
// change.
type Turn struct {
	deadline.Context
	Host    host.Turn // the handler's view of the turn
	Core    *Core
	Actor   *Actor
	Work    *Work
	Handler string
	AsOf    engine.Version
	mark    mark
	op      *span.Operation // if it is sampled
	From    Caller

	logger *slog.Logger

	// What the handler did, applied when it succeeds.
	Ends      bool
	Untouched bool  // the handler was not given the instance, so there is nothing of it to save or to put back
	Lasting   int32 // how many of the changes, the first ones, are published even if the turn destroys the actor
	Changes   []engine.Change
	After     []Consequence
	parts     []Participant
	few       [2]Participant // the room that parts begins with
	Session   Session        // goroutines of the handler may still use it when the handler has returned; nil if there is none; set under mu
}

// Close ends the handler's use of the turn.
func (t *Turn) Close() {
	t.Mu.Lock()
	t.Closed = true
	session := t.Session
	t.Mu.Unlock()
	if session != nil {
		session.Shut() // before the context ends, which its users may be waiting for
	}
	t.Cancel(&t.Core.timer)
}

// Returned reports whether the handler has returned.
func (t *Turn) Returned() bool {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.Closed
}

// lingers returns the session of a turn whose handler has returned; nil if there is none.
func (t *Turn) lingers() Session {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if !t.Closed {
		return nil
	}
	return t.Session
}

// Enter locks the turn for one operation of the handler.
func (t *Turn) Enter() error {
	t.Mu.Lock()
	if t.Closed {
		t.Mu.Unlock()
		return fault.TurnOver()
	}
	return nil
}

// Lock is Enter for code that may use the turn after its handler has returned.
func (t *Turn) Lock() { t.Mu.Lock() }

// Leave implements call.Scope.
func (t *Turn) Leave() { t.Mu.Unlock() }

// Reader implements call.Scope.
func (t *Turn) Reader() (engine.Reader, error) { return t.Core.Rows, nil }

// ID implements call.Scope.
func (t *Turn) ID() keyspace.ActorID { return t.Core.ID }

// Type implements call.Scope.
func (t *Turn) Type() *Type { return t.Actor.Type }

// Notify gives a signal to the waiters for a topic of the actor, once the turn is durable.
func (t *Turn) Notify(topic string) {
	a := t.Actor
	t.Then(func() { a.Kernel.Signals.Notify(a.Key, topic) })
}

// Then runs f when the turn is durable. f must not block.
func (t *Turn) Then(f func()) { t.After = append(t.After, consequenceFunc(f)) }

// Enlist adds a participant to the turn. REQUIRES: t.Mu, or no handler that runs.
func (t *Turn) Enlist(p Participant) {
	if t.parts == nil {
		t.parts = t.few[:0]
	}
	t.parts = append(t.parts, p)
}

// Participants returns what parts have collected. REQUIRES: t.Mu
func (t *Turn) Participants() []Participant { return t.parts }

// succeeded calls Succeeded of the participants: nothing of the turn can fail now.
func (t *Turn) succeeded() {
	for _, p := range t.parts {
		if p, ok := p.(Finisher); ok {
			p.Succeeded(t)
		}
	}
}

// dropSession undoes what goroutines of the handler did. The turn is closed.
func (t *Turn) dropSession() {
	if t.Session != nil {
		t.Session.Drop()
	}
}

// Changed reports whether the turn has written anything.
func (t *Turn) Changed() bool { return t.Core.Rows.Changed(&t.mark.at) }

// Atomically runs an operation of several writes. None stays if it fails; the handler may go on.
// REQUIRES: t.Mu
func (t *Turn) Atomically(operation func() error) error {
	before := t.Core.Rows.Savepoint()
	err := operation()
	if err != nil {
		t.Core.Rows.Rollback(before)
	}
	return err
}

// Flush commits the turns before this one, because this one is about to wait for another actor.
func (t *Turn) Flush() error {
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Mu.Unlock()
	t.Core.flush(&t.mark)
	return nil
}

// Deadline implements context.Context: the turn's own limit, or the caller's if that is earlier.
func (t *Turn) Deadline() (time.Time, bool) { return t.Latest(), true }

// Done implements context.Context. The first caller is about to block, so the turns before this one
// are committed.
func (t *Turn) Done() <-chan struct{} {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	done, first := t.Wait(t.caller(), &t.Core.timer)
	if first {
		t.Core.flush(&t.mark)
	}
	return done
}

// Err implements context.Context.
func (t *Turn) Err() error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.ErrLocked()
}

// ErrLocked is Err. REQUIRES: t.Mu
func (t *Turn) ErrLocked() error { return t.Cause(t.caller()) }

// caller returns the caller's context; nil if there is none, or the handler has returned: the work
// may belong to another call then. REQUIRES: t.Mu
func (t *Turn) caller() context.Context {
	if t.Closed {
		return nil
	}
	return t.Work.Ctx
}

// Value implements context.Context.
func (t *Turn) Value(key any) any {
	if key == (TurnKey{}) {
		return &t.From
	}
	return span.Value(t.Actor.Spans, t.From.Span.Span(), t.op, key)
}

// Self implements host.Reader.
func (t *Turn) Self() host.Identity { return t.Core.Identity }

// Version implements host.Reader.
func (t *Turn) Version() uint64 { return uint64(t.AsOf) }

// Traceparent implements host.Reader.
func (t *Turn) Traceparent() string { return t.From.Span.Span().String() }

// Now implements host.Turn.
func (t *Turn) Now() time.Time { return t.Start }

// Logger implements host.Reader.
func (t *Turn) Logger() *slog.Logger {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.logger == nil {
		t.logger = t.Actor.Logger(t.Core.ID, uint64(t.AsOf), t.attrs()...)
	}
	return t.logger
}

// attrs are the log attributes of the turn's span.
func (t *Turn) attrs() []slog.Attr { return t.From.Span.Span().Attrs() }

// Logger returns a logger with the attributes of an actor and a version, and more.
func (a *Actor) Logger(id keyspace.ActorID, version uint64, more ...slog.Attr) *slog.Logger {
	list := a.Attrs(slog.String("actor_id", id.String()), slog.Uint64("version", version))
	return slog.New(a.Kernel.Logger.Handler().WithAttrs(append(list, more...)))
}

// DestroySelf implements host.Turn.
func (t *Turn) DestroySelf() {
	if t.Enter() != nil {
		return
	}
	defer t.Mu.Unlock()
	t.Ends = true
}

// Call implements host.Node: a call from inside the turn.
func (t *Turn) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	return t.Actor.Kernel.CallFrom(ctx, r, &t.From)
}

// Destroy implements host.Node.
func (t *Turn) Destroy(ctx context.Context, a host.Address) error {
	return t.Actor.Kernel.DestroyFrom(ctx, a, &t.From)
}

// Operates reports whether an operation of the turn is running: its time is the store's.
func (t *Turn) Operates() bool {
	if t.Mu.TryLock() {
		t.Leave()
		return false
	}
	return true
}
