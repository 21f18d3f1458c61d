package run

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
	"github.com/cairn-run/cairn/runtime/internal/part/queue"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A RunRows is a turn for a workflow run, as wfhost.Turn.
type RunRows struct {
	H *kernel.Turn
	// exempt: writes count towards the actor's quota, but are not refused for it.
	exempt bool
	// sealed: the handler has returned, and further writes belong to the end of the turn.
	sealed bool
}

// enter locks the turn for one operation.
func (t *RunRows) enter() error {
	if t.sealed {
		t.H.Lock()
		return nil
	}
	return t.H.Enter()
}

var _ wfhost.Turn = (*RunRows)(nil)

// Get implements wfhost.Reader.
func (t *RunRows) Get(key []byte) ([]byte, bool, error) {
	if err := t.enter(); err != nil {
		return nil, false, err
	}
	defer t.H.Leave()
	e, ok, err := t.H.Core.Rows.Get(key)
	return e.Value, ok, err
}

// Scan implements wfhost.Reader.
func (t *RunRows) Scan(start, end []byte, visit func(key, value []byte) error) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.H.Leave()
	f := &flowOf(t.H.Core).fields
	if !bytes.Equal(start, fieldsStart) || !bytes.Equal(end, fieldsEnd) {
		return scanRows(t.H.Core.Rows, start, end, visit)
	}
	f.begin()
	err := scanRows(t.H.Core.Rows, start, end, func(key, value []byte) error {
		if field, ok := fieldOf(key); ok {
			f.bytes[field] = int32(len(value))
		}
		return visit(key, value)
	})
	f.known = err == nil
	return err
}

// A scanner visits rows in order: a write set or a snapshot.
type scanner interface {
	Scan(start, end []byte, f func(key, value []byte) bool) error
}

// scanRows visits rows a part at a time, because visit may read others meanwhile; a scan of the
// store does not allow that.
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
			if buf == nil {
				buf, ends = make([]byte, 0, 512), make([]int, 0, 16)
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

// storedRows is the rows of a run in the actor's write set, outside of a turn, as wfhost.Reader.
type storedRows struct{ *engine.WriteSet }

// Get implements wfhost.Reader.
func (s storedRows) Get(key []byte) ([]byte, bool, error) {
	e, ok, err := s.WriteSet.Get(key)
	return e.Value, ok, err
}

// Scan implements wfhost.Reader.
func (s storedRows) Scan(start, end []byte, visit func(key, value []byte) error) error {
	return scanRows(s.WriteSet, start, end, visit)
}

// storedRun is the rows of a run in a snapshot, as wfhost.Reader.
type storedRun struct{ *engine.Snapshot }

// Get implements wfhost.Reader.
func (s storedRun) Get(key []byte) ([]byte, bool, error) {
	e, ok, err := s.Snapshot.Get(key)
	return e.Value, ok, err
}

// Scan implements wfhost.Reader.
func (s storedRun) Scan(start, end []byte, visit func(key, value []byte) error) error {
	return scanRows(s.Snapshot, start, end, visit)
}

// Put implements wfhost.Journal.
func (t *RunRows) Put(key, value []byte) error { return t.put(key, value, false) }

// PutNew implements wfhost.NewPutter.
func (t *RunRows) PutNew(key, value []byte) error { return t.put(key, value, true) }

func (t *RunRows) put(key, value []byte, isNew bool) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.H.Leave()
	t.wrote(true)
	o, rows := engine.PutOptions{New: isNew, Exempt: t.exempt}, t.H.Core.Rows
	field, ok := fieldOf(key)
	if !ok {
		return rows.Put(key, value, o)
	}
	if field == keyspace.FieldState {
		flowOf(t.H.Core).writes = RunOf(t.H.Actor).known.wrote(wfhost.State(value))
	}
	f := &flowOf(t.H.Core).fields
	err := rows.Put(key, value, f.options(field, o))
	if err == nil {
		f.wrote(field, len(value), rows.Version())
	}
	return err
}

// Delete implements wfhost.Journal.
func (t *RunRows) Delete(key []byte) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.H.Leave()
	rows := t.H.Core.Rows
	field, isField := fieldOf(key)
	f := &flowOf(t.H.Core).fields
	if isField && f.known && f.bytes[field] < 0 {
		return nil
	}
	var ok bool
	var err error
	if isField && f.known {
		ok, err = rows.DeleteKnown(key, int(f.bytes[field]))
	} else {
		ok, err = rows.Delete(key)
	}
	t.wrote(ok)
	if isField && err == nil {
		f.wrote(field, -1, rows.Version())
	}
	if field == keyspace.FieldState {
		RunOf(t.H.Actor).known.forget()
	}
	return err
}

// DeleteRange implements wfhost.Journal.
func (t *RunRows) DeleteRange(start, end []byte) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.H.Leave()
	n, err := t.H.Core.Rows.DeleteRange(start, end)
	t.wrote(n > 0)
	flowOf(t.H.Core).fields.cleared(start, end, t.H.Core.Rows.Version())
	if bytes.Compare(start, runStateKey) <= 0 && bytes.Compare(runStateKey, end) < 0 {
		RunOf(t.H.Actor).known.forget()
	}
	return err
}

// wrote records that rows of the run were written, if changed. A turn publishes that once.
//
// REQUIRES: t.h.mu
func (t *RunRows) wrote(changed bool) {
	known := func(c engine.Change) bool { return c.Kind == engine.ChangeWorkflow }
	if changed && !slices.ContainsFunc(t.H.Changes, known) {
		t.H.Change(engine.ChangeWorkflow, "", func() any { return map[string]any{"op": "write"} })
	}
}

// Now implements wfhost.Turn.
func (t *RunRows) Now() time.Time { return t.H.Start }

// Value implements wfhost.Turn: a host.RunTurn.
func (t *RunRows) Value() any { return t.H.Host }

// Instance implements host.RunTurn.
func (h *Turn) Instance() host.Instance {
	h.K.Untouched = false
	return h.K.Core.Instance
}

// View implements host.RunTurn.
func (h *Turn) View() host.Instance { return h.K.Core.Instance }

// Answer implements host.RunTurn.
func (h *Turn) Answer(name string, id uint64, reply []byte, failure *host.Error) error {
	if err := h.K.Enter(); err != nil {
		return err
	}
	defer h.K.Leave()
	return queue.SetOf(h.K).Answer(name, id, reply, failure)
}

// Receive implements wfhost.Turn.
func (t *RunRows) Receive(queues []string, limit int) (all []wfhost.Delivery, err error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.H.Leave()
	h := t.H
	for _, name := range queues {
		if !queue.ByRun(h.Actor.Type, name) {
			continue // the type no longer has such a queue, or not for runs: nothing comes
		}
		for len(all) < limit {
			m, ok, err := queue.SetOf(h).Take(name)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			queue.Queueing(h.Actor.Type).Lag.Observe(h.Start.Sub(m.Sent).Seconds())
			queue.QueueChange(h, "done", name, func(d map[string]any) { d["id"] = m.ID })
			flowOf(h.Core).asked = flowOf(h.Core).asked || m.WantReply
			all = append(all,
				wfhost.Delivery{Queue: name, ID: m.ID, Body: m.Body, Sent: m.Sent, WantReply: m.WantReply})
		}
	}
	return all, nil
}

// Return implements wfhost.Turn. The last message goes back first, so that the first is the next.
func (t *RunRows) Return(messages []wfhost.Delivery) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.H.Leave()
	for i := len(messages) - 1; i >= 0; i-- {
		d := &messages[i]
		m := host.Received{ID: d.ID, Queue: d.Queue, Body: d.Body, Sent: d.Sent, WantReply: d.WantReply}
		if err := queue.SetOf(t.H).Return(&m); err != nil {
			return err
		}
		queue.QueueChange(t.H, "returned", d.Queue, func(c map[string]any) { c["id"] = d.ID })
	}
	return nil
}

// Reply implements wfhost.Turn.
func (t *RunRows) Reply(d *wfhost.Delivery, reply []byte, failure *wfhost.Failure) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.H.Leave()
	var e *host.Error
	if failure != nil {
		e = publicFailure(failure)
	}
	return queue.SetOf(t.H).Answer(d.Queue, d.ID, reply, e)
}

// publicFailure makes the public error of a failure in a run.
func publicFailure(f *wfhost.Failure) *host.Error {
	code := host.Code(f.Code)
	if !code.Known() {
		code = host.FailedPrecondition
	}
	return &host.Error{Code: code, Message: cmp.Or(f.Own, f.Message), Metadata: f.Metadata}
}

// Send implements wfhost.Turn. A message that cannot be sent, because the node has no such
// actors, must not stop the run: the run gets an error for a child that cannot be started, and
// other messages are dropped.
func (t *RunRows) Send(m *wfhost.Outgoing) error {
	h := t.H
	addr := host.Address{Type: m.To.Type, Key: m.To.Key}
	if addr.Type == "" {
		addr = h.Actor.Address
	}
	method := runTell
	switch m.Verb {
	case "start":
		method = runDeliver
	case "ask":
		method = runAsk
	}
	// The hosted types are unknown offline. A node has started the run, so it hosts the target's
	// type.
	if _, err := h.Actor.Kernel.TypeOf(addr); err != nil && !h.Actor.Kernel.Offline {
		if method != runDeliver {
			return nil
		}
		if err := wfhost.Undeliverable(t, m, err); err != nil {
			return err
		}
		runNews(h.Core, h)
		return nil
	}
	if method == runAsk {
		// Most children live and report by themselves. These are not woken.
		if lives, err := childLives(h.Actor.Kernel, addr, m); err != nil || lives {
			return err
		}
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer h.Leave()
	return mail.MailOf(h).Post(addr, method, m.Body)
}

// childLives reports whether the child lives, without waking it.
func childLives(s *kernel.Kernel, addr host.Address, m *wfhost.Outgoing) (bool, error) {
	id, ok, err := s.Store.Lookup(s.Identity(addr))
	if err != nil || !ok {
		return false, err
	}
	snap := s.Store.Snapshot(id)
	defer snap.Close()
	lives, err := m.AsksLiving(storedRun{snap})
	if _, ok := errors.AsType[*wfhost.CorruptError](err); ok {
		return false, nil // its actor says so
	}
	return lives, err
}

// StartRun implements host.Turn.
func (h *Turn) StartRun(s host.RunStart) (host.RunStarted, error) {
	t := h.K
	if t.Returned() {
		return host.RunStarted{}, fault.TurnOver()
	}
	return startRun(t.Core, t, s)
}

// ControlRun implements host.Turn.
func (h *Turn) ControlRun(c host.RunControl) error {
	t := h.K
	if t.Returned() {
		return fault.TurnOver()
	}
	return controlRun(t.Core, t, c)
}
