package supervisor

import (
	"cmp"
	"errors"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/workflow"
)

// A runRows is a turn as a workflow run sees it, as workflow.Turn.
type runRows struct {
	h *turn
	// exempt: what is written counts, but is not refused for the actor's quota.
	exempt bool
	// sealed: the handler has returned, and what is done belongs to the end of the turn.
	sealed bool
}

// enter locks the turn for one operation.
func (t *runRows) enter() error {
	if t.sealed {
		t.h.lock()
		return nil
	}
	return t.h.enter()
}

var _ workflow.Turn = (*runRows)(nil)

// Get implements workflow.Reader.
func (t *runRows) Get(key []byte) ([]byte, bool, error) {
	if err := t.enter(); err != nil {
		return nil, false, err
	}
	defer t.h.leave()
	e, ok, err := t.h.c.ws.Get(key)
	return e.Value, ok, err
}

// Scan implements workflow.Reader.
func (t *runRows) Scan(start, end []byte, visit func(key, value []byte) error) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.h.leave()
	return scanRows(t.h.c.ws, start, end, visit)
}

// A scanner visits rows in order: a write set or a snapshot.
type scanner interface {
	Scan(start, end []byte, f func(key, value []byte) bool) error
}

// scanRows visits rows a part at a time, because visit may read others meanwhile, which a scan of the store does not allow.
func scanRows(rows scanner, start, end []byte, visit func(key, value []byte) error) error {
	const most, mostBytes = 512, 1 << 20
	var buf []byte
	var ends []int // of a key and of its value, in turn
	for {
		buf, ends = buf[:0], ends[:0]
		more := false
		err := rows.Scan(start, end, func(key, value []byte) bool {
			if more = len(ends) >= 2*most || len(buf) >= mostBytes; more {
				return false
			}
			buf = append(buf, key...)
			ends = append(ends, len(buf))
			buf = append(buf, value...)
			ends = append(ends, len(buf))
			return true
		})
		if err != nil {
			return err
		}
		at := 0
		var key []byte
		for i := 0; i < len(ends); i += 2 {
			key = buf[at:ends[i]:ends[i]]
			if err := visit(key, buf[ends[i]:ends[i+1]:ends[i+1]]); err != nil {
				return err
			}
			at = ends[i+1]
		}
		if !more {
			return nil
		}
		start = append(append([]byte(nil), key...), 0)
	}
}

// storedRows is the rows of a run as the actor's write set has them, outside of a turn, as workflow.Reader.
type storedRows struct{ *engine.WriteSet }

// Get implements workflow.Reader.
func (s storedRows) Get(key []byte) ([]byte, bool, error) {
	e, ok, err := s.WriteSet.Get(key)
	return e.Value, ok, err
}

// Scan implements workflow.Reader.
func (s storedRows) Scan(start, end []byte, visit func(key, value []byte) error) error {
	return scanRows(s.WriteSet, start, end, visit)
}

// storedRun is the rows of a run as of a snapshot, as workflow.Reader.
type storedRun struct{ *engine.Snapshot }

// Get implements workflow.Reader.
func (s storedRun) Get(key []byte) ([]byte, bool, error) {
	e, ok, err := s.Snapshot.Get(key)
	return e.Value, ok, err
}

// Scan implements workflow.Reader.
func (s storedRun) Scan(start, end []byte, visit func(key, value []byte) error) error {
	return scanRows(s.Snapshot, start, end, visit)
}

// Put implements workflow.Journal.
func (t *runRows) Put(key, value []byte) error { return t.put(key, value, false) }

// PutNew implements workflow.NewPutter.
func (t *runRows) PutNew(key, value []byte) error { return t.put(key, value, true) }

func (t *runRows) put(key, value []byte, isNew bool) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.h.leave()
	t.wrote(true)
	return t.h.c.ws.Put(key, value, engine.PutOptions{New: isNew, Exempt: t.exempt})
}

// Delete implements workflow.Journal.
func (t *runRows) Delete(key []byte) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.h.leave()
	ok, err := t.h.c.ws.Delete(key)
	t.wrote(ok)
	return err
}

// DeleteRange implements workflow.Journal.
func (t *runRows) DeleteRange(start, end []byte) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.h.leave()
	n, err := t.h.c.ws.DeleteRange(start, end)
	t.wrote(n > 0)
	return err
}

// wrote notes that rows of the run were written, if they were. A turn publishes that once.
//
// REQUIRES: t.h.mu
func (t *runRows) wrote(changed bool) {
	if !changed {
		return
	}
	if h := runTurnOf(t.h); !h.wrote {
		h.wrote = true
		t.h.change(engine.ChangeWorkflow, "", func() any { return map[string]any{"op": "write"} })
	}
}

// Now implements workflow.Turn.
func (t *runRows) Now() time.Time { return t.h.start }

// Value implements workflow.Turn: a host.RunTurn.
func (t *runRows) Value() any { return t.h.host }

// Instance implements host.RunTurn.
func (h *runTurn) Instance() host.Instance {
	h.t.untouched = false
	return h.t.c.inst
}

// View implements host.RunTurn.
func (h *runTurn) View() host.Instance { return h.t.c.inst }

// Answer implements host.RunTurn.
func (h *runTurn) Answer(name string, id uint64, reply []byte, failure *host.Error) error {
	if err := h.t.enter(); err != nil {
		return err
	}
	defer h.t.leave()
	return h.t.queueSet().Answer(name, id, reply, failure)
}

// Receive implements workflow.Turn.
func (t *runRows) Receive(queues []string, limit int) (all []workflow.Delivery, err error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.h.leave()
	h := t.h
	for _, name := range queues {
		if !h.a.typ.byRun(name) {
			continue // the type has no such queue any more, or not for runs: nothing comes
		}
		for len(all) < limit {
			m, ok, err := h.queueSet().Take(name)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			h.a.typ.queueing().lag.Observe(h.start.Sub(m.Sent).Seconds())
			h.queueChange("done", name, func(d map[string]any) { d["id"] = m.ID })
			h.c.flow().asked = h.c.flow().asked || m.WantReply
			all = append(all, workflow.Delivery{Queue: name, ID: m.ID, Body: m.Body, Sent: m.Sent, WantReply: m.WantReply})
		}
	}
	return all, nil
}

// Return implements workflow.Turn. The last message goes back first, so that the first is the next.
func (t *runRows) Return(messages []workflow.Delivery) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.h.leave()
	for i := len(messages) - 1; i >= 0; i-- {
		d := &messages[i]
		m := host.Received{ID: d.ID, Queue: d.Queue, Body: d.Body, Sent: d.Sent, WantReply: d.WantReply}
		if err := t.h.queueSet().Return(&m); err != nil {
			return err
		}
		t.h.queueChange("returned", d.Queue, func(c map[string]any) { c["id"] = d.ID })
	}
	return nil
}

// Reply implements workflow.Turn.
func (t *runRows) Reply(d *workflow.Delivery, reply []byte, failure *workflow.Failure) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.h.leave()
	var e *host.Error
	if failure != nil {
		e = publicFailure(failure)
	}
	return t.h.queueSet().Answer(d.Queue, d.ID, reply, e)
}

// publicFailure makes an error for somebody outside of why something in a run failed.
func publicFailure(f *workflow.Failure) *host.Error {
	code := host.Code(f.Code)
	if !code.Known() {
		code = host.FailedPrecondition
	}
	return &host.Error{Code: code, Message: cmp.Or(f.Own, f.Message), Metadata: f.Metadata}
}

// Send implements workflow.Turn. What cannot be sent at all, because the node has no such actors, must not stop the run: it
// learns of a child that cannot be started, and what concerns nobody is dropped.
func (t *runRows) Send(m *workflow.Outgoing) error {
	h := t.h
	addr := host.Address{Type: m.To.Type, Key: m.To.Key}
	if addr.Type == "" {
		addr = h.a.addr
	}
	method := runTell
	switch m.Verb {
	case "start":
		method = runDeliver
	case "ask":
		method = runAsk
	}
	// Which types the node hosts is not known offline. The target belongs to a run that a node has
	// started, and so does its type.
	if _, err := h.a.sup.typeOf(addr); err != nil && !h.a.sup.offline {
		if method != runDeliver {
			return nil
		}
		if err := workflow.Undeliverable(t, m, err); err != nil {
			return err
		}
		h.c.runNews(h)
		return nil
	}
	if method == runAsk {
		// Most children live and answer by themselves. Those are not woken to say so.
		if lives, err := h.a.sup.childLives(addr, m); err != nil || lives {
			return err
		}
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer h.leave()
	return mailOf(h).send(addr, method, m.Body)
}

// childLives reports whether the run lives that a run asks for its result. Nothing is woken.
func (s *Supervisor) childLives(addr host.Address, m *workflow.Outgoing) (bool, error) {
	id, ok, err := s.store.Lookup(s.identity(addr))
	if err != nil || !ok {
		return false, err
	}
	snap := s.store.Snapshot(id)
	defer snap.Close()
	lives, err := m.AsksLiving(storedRun{snap})
	if _, ok := errors.AsType[*workflow.CorruptError](err); ok {
		return false, nil // its actor says so
	}
	return lives, err
}

// StartRun implements host.Turn.
func (h *runTurn) StartRun(s host.RunStart) (host.RunStarted, error) {
	t := h.t
	if t.returned() {
		return host.RunStarted{}, errTurnOver()
	}
	return t.c.startRun(t, s)
}

// ControlRun implements host.Turn.
func (h *runTurn) ControlRun(c host.RunControl) error {
	t := h.t
	if t.returned() {
		return errTurnOver()
	}
	return t.c.controlRun(t, c)
}
