package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/queue"
)

// turnKey finds the turn or query that a context belongs to.
type turnKey struct{}

// caller is what a call learns from the context that it comes with: the turn or query that makes it.
type caller struct {
	a           *activation
	turn        *turn // nil for a query or a task
	task        *task // nil for a turn or a query
	waiter      *turn // the turn that waits for this turn or query to end: itself, or the one that asked the query; may be nil
	depth       int
	traceparent string
}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(turnKey{}).(*caller)
	return c
}

// A turn is one handler's run, as host.Turn. Its methods may be called from any goroutine until the handler returns;
// afterwards they fail.
//
// As a context it ends with the caller's context, at the turn's deadline, or when the handler has returned. It carries
// no values of the caller's. The timer behind Done is set when Done is first asked for, because most turns never block;
// asking also flushes the turns before this one, because a handler that asks is about to block.
type turn struct {
	reads
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
	again     bool // messages were given up before, and take the room that they had
	destroy   bool
	durable   bool // an event that must not be dropped was emitted
	untouched bool // the handler has not been given the instance, so there is nothing of it to save or to put back
	stepped   bool // who watches the run is told, as notify of runTopic would, which costs each step more
	runWrote  bool // rows of the run were written, which is published already
	closed    bool // no method works any more; guarded by mu
	events    []emitted
	messages  []messageRecord
	changes   []engine.Change
	kvChanges int
	after     []func() // see group.after
	queues    *queue.Set
	sql       *sqlTurn
	asked     int64    // tasks to start
	early     []func() // run as soon as the turn has succeeded
	// run is the workflow run that advances in the turn, while it does.
	run     atomic.Pointer[advancing]
	goodFor int64 // until when the reply is worth to be repeated, in Unix ms; 0 for as long as all replies, -1 never
}

type emitted struct {
	event  int
	data   []byte
	to     string
	except []string
}

// close ends the handler's use of the turn.
func (t *turn) close() {
	t.mu.Lock()
	t.closed = true
	asked, sql := t.done != nil, t.sql
	t.mu.Unlock()
	if sql != nil {
		sql.session.Shut() // before the context ends, at which package database/sql rolls open transactions back
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

// enter locks the turn for one operation of the handler.
func (t *turn) enter() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return errTurnOver()
	}
	return nil
}

// leave implements scope.
func (t *turn) leave() { t.mu.Unlock() }

// reader implements scope.
func (t *turn) reader() (engine.Reader, error) { return t.c.ws, nil }

// now implements scope.
func (t *turn) now() time.Time { return t.start }

// id implements scope.
func (t *turn) id() keyspace.ActorID { return t.c.id }

func errTurnOver() error {
	return host.Errorf(host.FailedPrecondition, "the turn is over: a handler's context must not be used after it returned")
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

// KVPut implements host.Turn.
func (t *turn) KVPut(key, value []byte, expire time.Time) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	var o engine.PutOptions
	if !expire.IsZero() {
		o.ExpireAt = unixMS(expire)
		if o.ExpireAt <= unixMS(t.start) {
			return host.Errorf(host.InvalidArgument, "the entry would expire at %s, which is not in the future", expire.Format(time.RFC3339))
		}
	}
	if err := t.c.ws.Put(keyspace.AppendUserKV(nil, key), value, o); err != nil {
		return limitFault(err)
	}
	if o.ExpireAt != 0 {
		t.expireAt(o.ExpireAt)
	}
	t.kvChange("put", key, value)
	return nil
}

// KVDelete implements host.Turn.
func (t *turn) KVDelete(key []byte) (bool, error) {
	if err := t.enter(); err != nil {
		return false, err
	}
	defer t.mu.Unlock()
	ok, err := t.c.ws.Delete(keyspace.AppendUserKV(nil, key))
	if ok && err == nil {
		t.kvChange("delete", key, nil)
	}
	return ok, limitFault(err)
}

// limitFault gives an error of the keyspace about a limit the code that a handler can tell it by.
func limitFault(err error) error {
	if errors.Is(err, &engine.LimitError{}) || errors.Is(err, &engine.QuotaError{}) {
		e, _ := publicError(err)
		return e
	}
	return err
}

// KVDeleteRange implements host.Turn.
func (t *turn) KVDeleteRange(start, end []byte) (int64, error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.mu.Unlock()
	from, to := kvBounds(start, end)
	n, err := t.c.ws.DeleteRange(from, to)
	if n > 0 && err == nil {
		t.rangeChange(start, end, n)
	}
	return n, limitFault(err)
}

// Emit implements host.Turn.
func (t *turn) Emit(event int, data []byte) error { return t.EmitTo(event, data, "", nil) }

// EmitTo implements host.Turn.
func (t *turn) EmitTo(event int, data []byte, to string, except []string) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	if event < 0 || event >= len(t.a.typ.Events) {
		return host.Errorf(host.InvalidArgument, "actor type %q has no event %d: it was declared after the type was defined", t.a.addr.Type, event)
	}
	if to != "" {
		if len(except) > 0 {
			return host.Errorf(host.InvalidArgument, "an event for one connection cannot except others")
		}
		if _, ok, err := readConnection(t.c.ws, to); err != nil {
			return err
		} else if !ok {
			return noConnection(to)
		}
	}
	if t.a.typ.Events[event].Durable && to == "" {
		if sink := t.a.sup.options.Changes; sink != nil {
			if err := sink.Refuse(); err != nil {
				return err
			}
		}
		t.durable = true
	}
	t.events = append(t.events, emitted{event: event, data: data, to: to, except: except})
	return nil
}

// Send implements host.Turn.
func (t *turn) Send(m *host.Message) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	addr := host.Address{Type: m.Type, Key: m.Key}
	target, err := t.a.sup.typeOf(addr)
	if err != nil {
		return err
	}
	if m.Method == host.QueueSend {
		var in host.QueueSendInput
		if err := decodeInput(m.Method, host.CBOR, m.Input, &in); err != nil {
			return err
		}
		// What the queue would never take is found now, and not when the message is given up.
		messages, q, err := target.enqueues(host.CBOR, &in)
		if err == nil {
			err = queue.Check(q, messages)
		}
		if err != nil {
			return err
		}
		return t.send(addr, m.Method, m.Input)
	}
	i, ok := target.methods[m.Method]
	if !ok || target.Methods[i].Kind != host.Action {
		return unknownMethod(m.Type, m.Method)
	}
	return t.send(addr, m.Method, m.Input)
}

// send queues a message to another actor.
//
// REQUIRES: t.mu; the address was checked.
func (t *turn) send(addr host.Address, method string, input []byte) error {
	if len(t.messages) >= maxMessages {
		return host.OverLimit("messages of one turn", maxMessages, int64(len(t.messages))+1)
	}
	// The messages of earlier lives of the actor go before the first one of this life.
	if err := t.a.sender.load(t.c); err != nil {
		return err
	}
	id, err := t.a.sender.incarnation(addr)
	if err != nil {
		return err
	}
	r := messageRecord{
		Type: addr.Type, Key: addr.Key, Method: method, Input: input, Sent: unixMS(t.start), Traceparent: t.from.traceparent,
	}
	if !id.IsZero() {
		r.Target = id[:]
	}
	t.messages = append(t.messages, r)
	return nil
}

// SetAlarm implements host.Turn.
func (t *turn) SetAlarm(al host.Alarm) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	if _, ok := t.a.typ.alarms[al.Name]; !ok {
		return host.Errorf(host.InvalidArgument, "actor type %q has no alarm %q", t.a.addr.Type, al.Name)
	}
	due := unixMS(al.Due)
	if due < 1 {
		due = 1 // rows due at 0 mean something else, and a moment before 1970 is overdue all the same
	}
	if err := t.atomically(func() error {
		return t.c.setAlarm(al.Name, al.Instance, alarmRecord{Due: due, Payload: al.Payload}, engine.PutOptions{})
	}); err != nil {
		return err
	}
	t.change(engine.ChangeAlarm, al.Name, func() any {
		return map[string]any{"op": "set", "name": al.Name, "instance": al.Instance, "due": timeMS(due).UTC()}
	})
	return nil
}

// CancelAlarm implements host.Turn.
func (t *turn) CancelAlarm(name, instance string) (bool, error) {
	if err := t.enter(); err != nil {
		return false, err
	}
	defer t.mu.Unlock()
	var ok bool
	err := t.atomically(func() (err error) {
		ok, err = t.c.clearAlarm(name, instance)
		return err
	})
	if ok && err == nil {
		t.change(engine.ChangeAlarm, name, func() any {
			return map[string]any{"op": "cancel", "name": name, "instance": instance}
		})
	}
	return ok, err
}

// Alarms implements host.Turn.
func (t *turn) Alarms(name string) ([]host.Alarm, error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	return listAlarms(t.c.ws, name)
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

// expireAt arms the purge of the keys that expire at ms. One purge serves all keys of the same hour.
//
// REQUIRES: t.mu
func (t *turn) expireAt(ms int64) {
	t.c.ws.SetWake(purgeTime(ms), keyspace.WakeExpiry, "", "")
}
