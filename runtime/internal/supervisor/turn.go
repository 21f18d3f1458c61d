package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// turnKey finds the turn or query that a context belongs to.
type turnKey struct{}

// caller is what a call learns from the context that it comes with: the turn or query that makes it.
type caller struct {
	a           *activation
	turn        *turn // nil for a query or a goroutine beside the actor
	beside      bool  // a goroutine beside the actor: it may write, and no turn waits for it
	waiter      *turn // the turn that waits for this turn or query to end: itself, or the one that asked the query; may be nil
	depth       int
	traceparent string
}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(turnKey{}).(*caller)
	return c
}

// A turn is one handler's run. Its methods may be called from any goroutine until the handler returns;
// afterwards they fail.
//
// As a context it ends with the caller's context, at the turn's deadline, or when the handler has returned. It carries
// no values of the caller's. The timer behind Done is set when Done is first asked for, because most turns never block;
// asking also flushes the turns before this one, because a handler that asks is about to block.
type turn struct {
	host    host.Turn // what the handler is handed
	c       *core
	a       *activation
	work    *work
	handler string
	start   time.Time
	version engine.Version
	mark    mark
	from    caller

	mu       sync.Mutex
	done     chan struct{} // nil until it is asked for
	ended    error         // why done is closed
	unlink   func() bool   // from the caller's context, if that can end
	deadline time.Time
	logger   *slog.Logger

	// What the handler did, applied when it succeeds.
	destroy   bool
	untouched bool // the handler has not been given the instance, so there is nothing of it to save or to put back
	closed    bool // no method works any more; guarded by mu
	changes   []engine.Change
	ahead     []engine.Change // to publish before changes, and also when the turn destroys the actor
	after     []consequence
	parts     []participant
	few       [2]participant // the room that parts begins with
	session   session        // what goroutines of the handler may still use when it has returned; nil if there is none; set under mu
	goodFor   int64          // until when the reply is worth to be repeated, in Unix ms; 0 for as long as all replies, -1 never
}

// close ends the handler's use of the turn.
func (t *turn) close() {
	t.mu.Lock()
	t.closed = true
	asked, session := t.done != nil, t.session
	t.mu.Unlock()
	if session != nil {
		session.shut() // before the context ends, which what uses it may be waiting for
	}
	if asked {
		t.end(context.Canceled)
		t.c.timer.stop(t)
	}
}

// end closes done, which was asked for.
func (t *turn) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return
	}
	t.ended = err
	close(t.done)
	if t.unlink != nil {
		t.unlink()
	}
}

// returned reports that the handler has returned.
func (t *turn) returned() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// lingers returns what goroutines of a handler that has returned still use; nil if it has not, or there is nothing.
func (t *turn) lingers() session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		return nil
	}
	return t.session
}

// enter locks the turn for one operation of the handler.
func (t *turn) enter() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return errTurnOver()
	}
	return nil
}

// lock is enter for what may use the turn though its handler has returned.
func (t *turn) lock() { t.mu.Lock() }

// leave implements scope.
func (t *turn) leave() { t.mu.Unlock() }

// reader implements scope.
func (t *turn) reader() (engine.Reader, error) { return t.c.ws, nil }

// id implements scope.
func (t *turn) id() keyspace.ActorID { return t.c.id }

// actorType implements scope.
func (t *turn) actorType() *actorType { return t.a.typ }

func errTurnOver() error {
	return host.Errorf(host.FailedPrecondition, "the turn is over: a handler's context must not be used after it returned")
}

// then has f run when the turn is durable. f must not block.
func (t *turn) then(f func()) { t.after = append(t.after, consequenceFunc(f)) }

// enlist has a part take part in the turn.
//
// REQUIRES: t.mu, or no handler that runs.
func (t *turn) enlist(p participant) {
	if t.parts == nil {
		t.parts = t.few[:0]
	}
	t.parts = append(t.parts, p)
}

// succeeded tells the participants that nothing of the turn can fail any more.
func (t *turn) succeeded() {
	for _, p := range t.parts {
		if p, ok := p.(finisher); ok {
			p.succeeded(t)
		}
	}
}

// dropSession undoes what goroutines of the handler did. The turn is closed.
func (t *turn) dropSession() {
	if t.session != nil {
		t.session.drop()
	}
}

// changed reports whether the turn has written anything.
func (t *turn) changed() bool { return t.c.ws.Changed(&t.mark.at) }

// atomically runs an operation of several writes, of which nothing stays if it fails: the handler may go on.
//
// REQUIRES: t.mu
func (t *turn) atomically(operation func() error) error {
	before := t.c.ws.Savepoint()
	err := operation()
	if err != nil {
		t.c.ws.Rollback(before)
	}
	return err
}

// flush commits the turns before this one, because this one is about to wait for somebody else.
func (t *turn) flush() error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	t.mark = t.c.flush(t.mark)
	return nil
}

// Deadline implements context.Context: the earlier of the turn's own limit and the caller's deadline.
func (t *turn) Deadline() (time.Time, bool) { return t.deadline, true }

// Done implements context.Context.
func (t *turn) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil {
		err := t.over()
		t.done = make(chan struct{})
		if err != nil {
			t.ended = err
			close(t.done)
			return t.done
		}
		if from := t.work.ctx; from != nil && from.Done() != nil {
			t.unlink = context.AfterFunc(from, func() { t.end(from.Err()) })
		}
		t.c.timer.start(t)
		t.mark = t.c.flush(t.mark)
	}
	return t.done
}

// Err implements context.Context.
func (t *turn) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err()
}

// err is Err. REQUIRES: t.mu
func (t *turn) err() error {
	if t.done != nil {
		return t.ended
	}
	return t.over()
}

// over returns why the context has ended, as far as can be told without Done.
//
// REQUIRES: t.mu
func (t *turn) over() error {
	switch {
	case t.closed: // the work may be somebody else's by now
		return context.Canceled
	case t.work.ctx != nil && t.work.ctx.Err() != nil:
		return t.work.ctx.Err()
	case !time.Now().Before(t.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (t *turn) Value(key any) any {
	if key == (turnKey{}) {
		return &t.from
	}
	return nil
}

// Self implements host.Reader.
func (t *turn) Self() host.Identity { return t.c.ident }

// Version implements host.Reader.
func (t *turn) Version() uint64 { return uint64(t.version) }

// Traceparent implements host.Reader.
func (t *turn) Traceparent() string { return t.from.traceparent }

// Now implements host.Turn.
func (t *turn) Now() time.Time { return t.start }

// Logger implements host.Reader.
func (t *turn) Logger() *slog.Logger {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.logger == nil {
		t.logger = t.a.logger(t.c.id, uint64(t.version))
	}
	return t.logger
}

func (a *activation) logger(id keyspace.ActorID, version uint64) *slog.Logger {
	return a.sup.logger.With(slog.String("actor_type", a.addr.Type), slog.Any("actor_key", a.addr.Key),
		slog.String("actor_id", id.String()), slog.Uint64("version", version))
}

// limitFault gives an error of the keyspace about a limit the code that a handler can tell it by.
func limitFault(err error) error {
	if errors.Is(err, &engine.LimitError{}) || errors.Is(err, &engine.QuotaError{}) {
		e, _ := publicError(err, nil)
		return e
	}
	return err
}

// destroyed reports that the handler asked for the actor's end.
func (t *turn) destroyed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.destroy
}

// DestroySelf implements host.Turn.
func (t *turn) DestroySelf() {
	if t.enter() != nil {
		return
	}
	defer t.mu.Unlock()
	t.destroy = true
}

// Call implements host.Node: a call from inside the turn.
func (t *turn) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	return t.a.sup.call(ctx, r, &t.from)
}

// Lookup implements host.Node.
func (t *turn) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	return t.a.sup.Lookup(ctx, a)
}

// List implements host.Node.
func (t *turn) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return t.a.sup.List(ctx, q)
}

// Destroy implements host.Node.
func (t *turn) Destroy(ctx context.Context, a host.Address) error {
	return t.a.sup.destroy(ctx, a, &t.from)
}

// operates reports that an operation of the turn goes on. What it takes is the store's time: no function can help that.
func (t *turn) operates() bool {
	if t.mu.TryLock() {
		t.leave()
		return false
	}
	return true
}
