package supervisor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/zeebo/xxh3"
)

// perform runs one item of the mailbox to the point where only its commit is missing.
func (c *core) perform(w *work) {
	c.a.sleepSoon = false
	switch w.kind {
	case workCall:
		c.call(w)
	case workWake:
		err := c.exist(w)
		if err == nil && !c.group.changed {
			c.a.ensureView(c)
		}
		c.respond(w, nil, err)
	case workAlarm:
		c.fireAlarm(w)
	case workDeliver:
		c.receive(w)
	case workSettle:
		c.settle(w)
	case workPin:
		c.pin(w)
	case workRecover:
		c.respond(w, nil, c.recover(w))
	case workPurge:
		c.purge(w)
	case workSleep:
		c.sleep(w)
	case workDestroy:
		c.destroy(w)
	}
}

// respond holds a result until the group is durable.
func (c *core) respond(w *work, out []byte, err error) {
	w.leave()
	if err == errAbandoned || c.gone() {
		w.fail(unavailable("the actor was restarted")) // if the abandonment came between two turns, and could not answer
		return
	}
	r := result{w: w, out: out, version: c.version()}
	if err != nil {
		r.err = c.a.sup.public(c.a, w, err)
	}
	c.held.add(r)
}

// version is that of the last turn that wrote something.
func (c *core) version() engine.Version {
	if c.group.changed {
		return c.group.version
	}
	return c.space.Head().Version
}

// gone reports that the activation was taken away from the goroutine that runs c.
func (c *core) gone() bool { return c.a.epoch.Load() != c.epoch }

// drop answers what the core's group holds and forgets its writes.
func (c *core) drop(err *host.Error) {
	failAll(c.held.take(), err)
	c.group = &group{a: c.a}
}

// call runs an action or a creation.
func (c *core) call(w *work) {
	if w.existing && !c.exists {
		c.respond(w, nil, notFound(c.a.addr))
		return
	}
	if w.idempotencyKey != "" && c.exists {
		if r, replay, err := c.replay(w); replay || err != nil {
			w.leave()
			if err != nil {
				c.respond(w, nil, err)
			} else {
				c.held.add(r)
			}
			return
		}
	}
	if w.create && c.exists {
		c.respond(w, nil, host.Errorf(host.AlreadyExists, "actor %s exists", c.a).With("actor", c.a.String()))
		return
	}
	var out []byte
	err := c.together(func() (err error) {
		out, err = c.invoke(w)
		return err
	})
	c.respond(w, out, err)
}

// together runs the turns of one call or message. If the first of them creates the actor and a later one fails, the
// actor goes with it.
func (c *core) together(turns func() error) error {
	if c.exists {
		return turns()
	}
	before := c.mark()
	c.creating = true
	err := turns()
	c.creating = false
	if err != nil && !c.gone() {
		c.undo(before)
		if c.broken {
			return err
		}
		if lerr := c.reload(); lerr != nil {
			c.broken = true
		}
	}
	return err
}

// invoke runs the turns of a call: the creation, if the actor is new, and the action.
func (c *core) invoke(w *work) (out []byte, err error) {
	t := c.a.typ
	if w.method < 0 || t.Methods[w.method].Kind == host.Creation {
		return c.create(w)
	}
	if err := c.exist(w); err != nil {
		return nil, err
	}
	return c.run(w, t.Methods[w.method].Handler, func(h *turn) ([]byte, error) {
		return c.inst.Act(h, w.method, w.codec, w.input, nil)
	})
}

// exist makes a missing actor in a turn of its own.
func (c *core) exist(w *work) error {
	if c.exists {
		return nil
	}
	if w.existing {
		return notFound(c.a.addr)
	}
	_, err := c.create(&work{kind: workCall, method: -1, ctx: w.ctx, traceparent: w.traceparent, chain: w.chain, of: w})
	return err
}

// create makes the actor: directory entry, create hook, creation method.
func (c *core) create(w *work) ([]byte, error) {
	handler := "OnCreate"
	if w.method >= 0 {
		handler = c.a.typ.Methods[w.method].Handler
	}
	return c.run(w, handler, func(h *turn) (out []byte, err error) {
		if err := c.ws.Create(c.a.sup.identity(c.a.addr)); err != nil {
			return nil, err
		}
		h.wrote = true
		c.exists = true
		h.lifeChange("created", "")
		if err := c.inst.Create(h); err != nil {
			return nil, err
		}
		if err := c.inst.Wake(h); err != nil {
			return nil, err
		}
		if w.method < 0 {
			return nil, nil
		}
		return c.inst.Act(h, w.method, w.codec, w.input, nil)
	})
}

// run runs one handler as one turn: its writes join the group if it succeeds and vanish otherwise. The error is
// errAbandoned if the turn outlived its activation; then nothing of the core may be touched any more.
func (c *core) run(w *work, handler string, fn func(*turn) ([]byte, error)) ([]byte, error) {
	return c.turn(w, handler, true, fn)
}

// internal runs a turn of the runtime's own, which touches no instance.
func (c *core) internal(w *work, name string, fn func(*turn) error) ([]byte, error) {
	return c.turn(w, name, false, func(h *turn) ([]byte, error) { return nil, fn(h) })
}

func (c *core) turn(w *work, handler string, instance bool, fn func(*turn) ([]byte, error)) ([]byte, error) {
	a := c.a
	t := &turn{c: c, a: a, work: w, handler: handler, start: time.Now(), mark: c.mark()}
	t.version = c.ws.Advance(unixMS(t.start))
	t.deadline = t.start.Add(a.typ.limits.TurnTimeout)
	if w.ctx != nil {
		if d, ok := w.ctx.Deadline(); ok && d.Before(t.deadline) {
			t.deadline = d
		}
	}
	t.from = caller{a: a, turn: t, waiter: t, depth: w.chain, traceparent: w.traceparent}
	a.turn.Store(t)
	a.sup.watchdog.watch()
	out, crashed, err := guard(t, fn)
	took := time.Since(t.start)
	a.turn.CompareAndSwap(t, nil)
	t.close()
	if c.gone() {
		return nil, errAbandoned
	}
	if w.kind == workCall && w.method >= 0 {
		updatePace(&a.typ.pace[w.method], took)
	}
	if err == nil {
		if err = c.seal(t, instance, out); err == nil {
			c.group.turns++
			if a.crashes > 0 && instance && w.kind != workWake {
				a.crashes = 0
				a.sup.failures.clear(a)
			}
			a.typ.metrics.turn(took, nil)
			return out, nil
		}
	}
	a.typ.metrics.turn(took, err)
	c.undo(t.mark)
	if !instance {
		return nil, err
	}
	if crashed {
		// The handler left its instance in an unknown state: the actor is rebuilt, once the turns before it are committed.
		c.broken = true
		if c.exists && !c.creating && w.kind != workWake {
			a.sup.failures.crashed(a, err)
		}
		a.sup.publishLife(a, c, "crashed", err.Error())
		return nil, err
	}
	if lerr := c.reload(); lerr != nil {
		c.broken = true
	}
	return nil, err
}

// guard calls a handler and turns a panic, or a handler that ends its goroutine, into an error.
func guard(t *turn, fn func(*turn) ([]byte, error)) (out []byte, crashed bool, err error) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			out, crashed, err = nil, true, t.a.sup.crashed(t.a, t.handler, p)
		} else if !returned {
			// runtime.Goexit cannot be stopped; the turn is undone by a goroutine of its own.
			t.a.sup.task(func() {
				t.a.abandonTurn(t, host.Errorf(host.Crashed, "the handler %s ended its goroutine", t.handler))
			})
		}
	}()
	out, err = fn(t)
	if err == nil && t.destroyed() && !t.a.ghost && !t.c.bare {
		err = t.c.inst.Destroy(t)
	}
	returned = true
	return out, false, err
}

// crashed makes the error for a panic and logs the stack under its id.
func (s *Supervisor) crashed(a *activation, handler string, p any) *host.Error {
	id := newErrorID()
	s.logger.Error("handler panicked", "actor_type", a.addr.Type, "actor_key", a.addr.Key, "handler", handler,
		"error_id", id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return host.Errorf(host.Crashed, "the handler crashed (error %s); nothing of the turn was kept", id).With("error_id", id)
}

// buffers recycles the buffers in which states are encoded.
type buffers struct{ p sync.Pool }

func (b *buffers) get() *[]byte {
	if p, ok := b.p.Get().(*[]byte); ok {
		return p
	}
	return new([]byte)
}

func (b *buffers) put(p *[]byte) {
	if cap(*p) <= 1<<20 {
		*p = (*p)[:0]
		b.p.Put(p)
	}
}

// seal turns what a handler did into writes: the state if it changed, events, messages, the stored reply, the record
// for the outbox.
func (c *core) seal(t *turn, instance bool, out []byte) error {
	if t.destroy {
		return c.sealDestroy(t)
	}
	if instance {
		if err := c.saveState(t); err != nil {
			return err
		}
	}
	if !t.wrote {
		if t.work.idempotencyKey == "" {
			c.ws.Rollback(t.mark.at) // nothing happened; the version stays
			return nil
		}
	}
	if key := t.work.idempotencyKey; key != "" && t.work.kind == workCall {
		if err := c.remember(t, key, out); err != nil {
			return err
		}
	}
	if err := c.writeEvents(t); err != nil {
		return err
	}
	if err := c.writeMessages(t); err != nil {
		return err
	}
	if err := c.writeChanges(t); err != nil {
		return err
	}
	g := c.group
	g.changed = true
	g.version = t.version
	if t.wake != 0 && (g.wake == 0 || t.wake < g.wake) {
		g.wake = t.wake
	}
	return nil
}

// stateKey is the logical key of the state.
var stateKey = keyspace.AppendPersisted(nil)

// saveState writes the state if it differs from what is stored.
func (c *core) saveState(t *turn) error {
	typ := c.a.typ
	buf := c.a.sup.states.get()
	defer c.a.sup.states.put(buf)
	value, err := c.save(*buf)
	if err != nil {
		return err
	}
	*buf = value
	if bytes.Equal(value, c.stored) {
		return nil
	}
	if n := len(value); n > typ.limits.StateBytes {
		return tooLarge("state bytes", int64(typ.limits.StateBytes), int64(n))
	}
	if err := c.ws.Put(stateKey, value, engine.PutOptions{}); err != nil {
		return err
	}
	c.a.sup.memory.resized(c.a, len(value)-len(c.stored))
	c.stored = bytes.Clone(value)
	t.wrote = true
	t.change(engine.ChangeState, "", func() any { return map[string]any{"size": len(value)} })
	return nil
}

// save encodes the state, after the header.
func (c *core) save(dst []byte) (value []byte, err error) {
	defer c.shield("Save", &err)
	return c.inst.Save(appendStateHeader(dst, c.a.typ.StateVersion))
}

// shield turns a panic of the code that encodes, decodes or migrates the state into an error.
func (c *core) shield(what string, err *error) {
	if p := recover(); p != nil {
		*err = c.a.sup.crashed(c.a, c.a.typ.Type+"."+what, p)
	}
}

// reload puts the instance back to the last turn that succeeded.
func (c *core) reload() (err error) {
	defer c.shield("Load", &err)
	if c.stored == nil {
		return c.inst.Load(c.a.typ.StateVersion, nil)
	}
	version, blob, err := splitState(c.stored)
	if err != nil {
		return err
	}
	return c.inst.Load(version, blob)
}

// writeEvents adds a turn's events to the kept history, dropping the oldest.
func (c *core) writeEvents(t *turn) error {
	if len(t.events) == 0 {
		return nil
	}
	if c.events < 0 {
		n, err := lastEvent(c.ws)
		if err != nil {
			return err
		}
		c.events = int64(n)
	}
	// At least one event is kept, so that the sequence goes on after a sleep.
	keep := max(1, int64(c.a.typ.limits.EventHistory))
	for _, e := range t.events {
		c.events++
		ev := host.EmittedEvent{
			Sequence: uint64(c.events), Version: uint64(t.version), Name: c.a.typ.Events[e.event].Name,
			Time: timeMS(unixMS(t.start)), Data: e.data,
		}
		rec, err := encodeRecord(&eventRecord{Name: ev.Name, Version: ev.Version, Time: unixMS(t.start), Data: e.data})
		if err != nil {
			return err
		}
		if err := c.ws.Put(keyspace.AppendEvent(nil, ev.Sequence), rec, engine.PutOptions{New: true}); err != nil {
			return err
		}
		if old := c.events - keep; old > 0 {
			if _, err := c.ws.Delete(keyspace.AppendEvent(nil, uint64(old))); err != nil {
				return err
			}
		}
		c.group.events = append(c.group.events, ev)
	}
	return nil
}

// writeMessages queues a turn's messages to other actors.
func (c *core) writeMessages(t *turn) error {
	for i, m := range t.messages {
		o := outgoing{seq: messageSequence(t.version, i), record: m}
		rec, err := encodeRecord(&m)
		if err != nil {
			return err
		}
		if err := c.ws.Put(keyspace.AppendOutgoing(nil, o.seq), rec, engine.PutOptions{New: true}); err != nil {
			return err
		}
		c.group.messages = append(c.group.messages, o)
	}
	if len(t.messages) > 0 && !c.armed {
		c.ws.SetWake(0, keyspace.WakeSends, "", "")
		c.armed = true
	}
	return nil
}

// messageSequence numbers messages: by the turn that sent them, then by their order in it. It only grows per sender.
func messageSequence(v engine.Version, i int) uint64 { return uint64(v)<<20 | uint64(i) }

// maxMessages is how many messages a turn may send.
const maxMessages = 1 << 20

// writeChanges puts what is to be published into the outbox.
func (c *core) writeChanges(t *turn) error {
	if c.a.sup.options.Changes == nil {
		return nil
	}
	if n := t.kvChanges - maxKVChanges; n > 0 {
		t.change(engine.ChangeKV, "", func() any { return map[string]any{"op": "more", "count": n} })
	}
	set := &engine.ChangeSet{
		ID: c.id, Identity: c.a.sup.identity(c.a.addr), Generation: c.space.Head().Generation, Version: t.version,
		TimeMS: unixMS(t.start), Traceparent: t.from.traceparent, Changes: make([]engine.Change, 0, len(t.events)+len(t.changes)),
	}
	for _, e := range t.events {
		ev := c.a.typ.Events[e.event]
		set.Changes = append(set.Changes, engine.Change{Kind: engine.ChangeEvent, Name: ev.Name, Data: e.data, Durable: ev.Durable})
	}
	set.Changes = append(set.Changes, t.changes...)
	if len(set.Changes) == 0 {
		return nil
	}
	p := &pendingChange{set: set}
	if err := c.ws.Outbox(set.Append(nil), &p.seq); err != nil {
		return err
	}
	c.group.changes = append(c.group.changes, p)
	return nil
}

// fingerprint tells requests apart that come with the same idempotency key.
func (w *work) fingerprint(method string) []byte {
	h := xxh3.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(method)))
	h.Write(n[:])
	h.WriteString(method)
	h.Write([]byte{byte(w.codec)})
	h.Write(w.input)
	s := h.Sum128().Bytes()
	return s[:]
}

// requestName is the name under which a request is fingerprinted.
func (c *core) requestName(w *work) string {
	if w.method < 0 {
		return ""
	}
	return c.a.typ.Methods[w.method].Name
}

// replay returns the stored reply of an earlier request with the same idempotency key.
func (c *core) replay(w *work) (result, bool, error) {
	at := c.ws.Savepoint()
	c.ws.Advance(unixMS(time.Now())) // an expired reply reads as absent from now on
	e, ok, err := c.ws.Get(keyspace.AppendIdempotency(nil, w.idempotencyKey))
	c.ws.Rollback(at)
	if err != nil || !ok {
		return result{}, false, err
	}
	if e.Expire != 0 && e.Expire <= unixMS(time.Now()) {
		return result{}, false, nil // the write set's clock still stands at the last turn
	}
	var r replyRecord
	if err := decodeRecord(e.Value, &r); err != nil {
		return result{}, false, err
	}
	if !bytes.Equal(r.Fingerprint, w.fingerprint(c.requestName(w))) {
		return result{}, false, host.Errorf(host.IdempotencyMismatch,
			"the idempotency key was used before with another method or input")
	}
	return result{w: w, out: r.Output, version: engine.Version(r.Version), replayed: true}, true, nil
}

// remember stores a reply in the turn that made it.
func (c *core) remember(t *turn, key string, out []byte) error {
	rec, err := encodeRecord(&replyRecord{
		Fingerprint: t.work.fingerprint(c.requestName(t.work)), Codec: uint8(t.work.codec), Version: uint64(t.version), Output: out,
	})
	if err != nil {
		return err
	}
	expire := unixMS(t.start.Add(c.a.sup.options.ReplyRetention))
	if err := c.ws.Put(keyspace.AppendIdempotency(nil, key), rec, engine.PutOptions{ExpireAt: expire}); err != nil {
		return err
	}
	t.expireAt(expire)
	return nil
}

// purgeTime is when a key that expires at ms is removed at the latest: at the end of its hour, so that the keys of an
// hour share one purge. It reads as absent from ms on.
func purgeTime(ms int64) int64 {
	const hour = int64(time.Hour / time.Millisecond)
	return (ms/hour + 1) * hour
}

// updatePace folds one run's time into the moving average.
func updatePace(p interface {
	Load() int64
	Store(int64)
}, took time.Duration) {
	n := max(int64(took), 1)
	if old := p.Load(); old > 0 {
		n = old + (n-old)/8
	}
	p.Store(n)
}

func notFound(a host.Address) *host.Error {
	return host.Errorf(host.NotFound, "there is no actor %s", formatAddress(a)).With("actor", formatAddress(a))
}

func unknownMethod(typ, method string) *host.Error {
	return host.Errorf(host.UnknownMethod, "actor type %q has no method %q", typ, method).With("type", typ).With("method", method)
}

// submit posts w and waits for its result; for calls that somebody waits for.
func (s *Supervisor) submit(ctx context.Context, t *actorType, addr host.Address, w *work, from *caller) (*activation, error) {
	a, err := s.submitted(t, addr, w, from)
	if err != nil {
		return nil, err
	}
	if done := ctx.Done(); done != nil {
		select {
		case <-w.done:
		case <-done:
			w.leave()
			if w.claim() {
				return nil, contextError(ctx) // the turn may still run; its result has no taker
			}
			<-w.done
		}
	} else {
		<-w.done
	}
	return a, w.err
}

// submitted posts w with its wait edge.
func (s *Supervisor) submitted(t *actorType, addr host.Address, w *work, from *caller) (*activation, error) {
	for {
		a := s.activation(t, addr)
		if a == nil {
			return nil, unavailable("the node is shutting down")
		}
		if from != nil && from.waiter != nil {
			w.waits = &s.waits
			if err := s.waits.enter(from.waiter.a, a, w); err != nil {
				return nil, err
			}
		}
		err := a.enqueue(w)
		if err == nil {
			return a, nil
		}
		w.leave()
		if !errors.Is(err, errGone) {
			return nil, err
		}
	}
}
