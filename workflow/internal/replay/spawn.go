package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A ParentClose says how a child is ended if it still runs at the end of the scope that spawned it.
type ParentClose uint8

const (
	// CloseAbandon leaves the child running, and its result is not read. A child within the run
	// cannot be abandoned.
	CloseAbandon ParentClose = 0
	// CloseCancel cancels the child. It is the default. The scope waits for the end of a child
	// within the run. It does not wait for children in other actors.
	CloseCancel ParentClose = 1
	// CloseTerminate ends the child at once. A child within the run is canceled, and results of its
	// steps are dropped, except of steps that may have to be undone.
	CloseTerminate ParentClose = 2
)

// A SpawnOption changes how Spawn starts a child.
type SpawnOption interface{ spawn(*spawnOptions) error }

type spawnOptions struct {
	to    Destination
	close ParentClose
}

type spawnOption func(*spawnOptions) error

func (f spawnOption) spawn(o *spawnOptions) error { return f(o) }

// OnActor runs the child in another actor. Without it, the child runs within the run that spawns
// it.
func OnActor(to Destination) SpawnOption {
	return spawnOption(func(o *spawnOptions) error {
		o.to = to
		if to.Type == "" {
			return errors.New("workflow: At: the destination has no type")
		}
		return nil
	})
}

// OnParentClose sets how the child is ended if the scope that spawned it ends first.
func OnParentClose(p ParentClose) SpawnOption {
	return spawnOption(func(o *spawnOptions) error {
		o.close = p
		if p > CloseTerminate {
			return fmt.Errorf("workflow: OnParentClose(%d): unknown", p)
		}
		return nil
	})
}

// A ChildError says that a child did not complete.
type ChildError struct {
	// Name is that of the Spawn, Program that of the workflow.
	Name, Program string
	// Status says how it ended: Failed, Canceled, or Exhausted if it could not be run at all: its
	// actor refused to start it, or was destroyed.
	Status EntryStatus
	// Err is the child's error, as far as it can be stored.
	Err error
}

func (e *ChildError) Error() string {
	return fmt.Sprintf("workflow: child %q (%s): %v", e.Name, e.Program, e.Err)
}

// Unwrap returns the child's error.
func (e *ChildError) Unwrap() error { return e.Err }

// A Child is a workflow that another one has spawned.
type Child[Out any] struct {
	o       *op
	program *Program
	cancel  *cancellation // of a child within the run; nil for others
}

// Spawn starts a child: a run of another workflow, concurrent to the one that spawns it.
func Spawn[In, Out any](ctx Context, name string, d *Function[In, Out], in In,
	opts ...SpawnOption) (*Child[Out], error) {
	s := ctx.scope()
	p := d.program
	child := &Child[Out]{program: p}
	o, err := s.begin(KindSpawn, name)
	if err != nil {
		return nil, err
	}
	child.o = o
	options := spawnOptions{close: CloseCancel}
	for _, opt := range opts {
		if err := opt.spawn(&options); err != nil {
			return nil, o.refuse(err)
		}
	}
	input, err := p.encode(in)
	switch {
	case err != nil:
		return nil, o.refuse(err)
	case p.err != nil:
		return nil, o.refuse(p.err)
	case options.to.Type == "" && options.close == CloseAbandon:
		return nil, o.refuse(fmt.Errorf("workflow: child %q runs within the run, and cannot be abandoned", name))
	}
	if o.recorded && (o.entry.Program != p.name || !sameDestination(o.entry.Child, options.to)) {
		s.run.diverged(o, describeChild(o.entry.Child, o.entry.Program), describeChild(options.to, p.name), "")
	}
	s.futures = append(s.futures, o)
	if o.ended() && !s.run.obliged(o.loc) {
		return child, nil // it is handed out in its turn
	}
	o.entry.Program, o.entry.Child, o.entry.OnClose = p.name, options.to, uint8(options.close)
	if options.to.Type == "" {
		child.cancel = s.spawnWithin(o, p, input, options.close)
	} else {
		s.spawnAt(o, p, input, options)
	}
	return child, nil
}

// spawnWithin runs a child on a coroutine of the run. Like a run of its own it is a saga.
func (s *scope) spawnWithin(o *op, p *Program, input []byte, onClose ParentClose) *cancellation {
	r := s.run
	if !o.recorded {
		r.put(o)
	}
	x := newCancellation(s.cancel, false)
	o.abandon = func() { x.cancel(errParentEnded, onClose == CloseTerminate) }
	r.addProgram(p)
	inner := s.inside(o, x, nil)
	inner.sealed = s.sealed || o.ended()
	inner.owner = r.spawn(func(*coroutine) {
		output, err := p.invoke(inner, input)
		var wrongIn *inputError
		var wrongOut *outputError
		var again *restartError
		switch {
		case errors.As(err, &wrongIn):
			inner.corrupt(err)
		case errors.As(err, &wrongOut):
			inner.misuse(inner.owner, err.Error())
		case errors.As(err, &again):
			inner.misuse(inner.owner, "a child within the run cannot Restart: use Loop")
		}
		inner.end()
		if o.ended() {
			return // it is handed out in its turn
		}
		failed := err
		if failed == nil {
			failed = inner.Err()
		}
		if failed != nil {
			inner.compensate(o, r.failure(failed), undoOptions{})
		} else {
			inner.undo(undoOptions{}, r.obligations.within(false, o.loc))
		}
		o.settleIn(inner, output, failed)
		x.unlink()
		o.resolve = func() error {
			if o.entry.Status == Completed {
				if err := r.discharge(o.loc); err != nil {
					return err
				}
			}
			return r.collapse(o)
		}
		o.happened()
	})
	return x
}

var (
	errParentEnded = errors.New("the scope that spawned the child has ended")
	errAbandoned   = errors.New("the child was left to itself")
)

// Result waits until the child has ended, and returns its output. If it did not complete, the error
// is a *ChildError. If ctx is canceled first, the error matches ErrCanceled.
func (c *Child[Out]) Result(ctx Context) (Out, error) {
	s := ctx.scope()
	s.own()
	var out Out
	if err := s.waitFor(c.o); err != nil {
		return out, err
	}
	if e := &c.o.entry; e.Status != Completed {
		return out, &ChildError{c.o.name, c.program.name, e.Status, s.run.errorOf(e.Failure)}
	}
	s.decodeInto(c.program, c.o.entry.Output, &out)
	return out, nil
}

// waitFor waits until an operation has ended. Its error is that of a canceled scope.
func (s *scope) waitFor(o *op) error {
	c := s.owner
	for !o.done {
		if err := s.cancel.err(); err != nil {
			return err
		}
		told := &op{s: s, name: o.name}
		told.canceled = func(bool) { s.run.ready(c) }
		told.listen()
		o.waiters = append(o.waiters, c)
		c.waits = o
		c.park()
		c.waits = nil
		told.unwatch()
		if i := slices.Index(o.waiters, c); i >= 0 {
			o.waiters = slices.Delete(o.waiters, i, i+1)
		}
	}
	return nil
}

// Cancel requests that the child cancels itself. It does not wait for the end; Result does.
func (c *Child[Out]) Cancel(ctx Context, reason string) error {
	s := ctx.scope()
	s.own()
	r := s.run
	switch {
	case c.o.done || c.o.ended():
		return nil
	case c.cancel != nil:
		c.cancel.cancel(errors.New(reason), false)
		return nil
	case !r.live && c.o.recorded:
		return nil // it was sent
	}
	return r.tell(c.o, verbCancel, reason)
}

// childID returns the id of the run of a child: the same for the same Spawn of the same epoch.
func childID(run *runRecord, loc journal.Location) []byte {
	h := sha256.New()
	h.Write(run.ID[:])
	h.Write(binary.BigEndian.AppendUint32(nil, run.Epoch))
	h.Write(loc)
	return h.Sum(nil)[:16]
}

// spawnAt starts a child in another actor, or continues to wait for a started one.
func (s *scope) spawnAt(o *op, p *Program, input []byte, options spawnOptions) {
	r := s.run
	if !o.recorded && !r.verify {
		o.entry.State = childID(&r.record, o.loc)
		r.put(o)
		r.must(post(r.turn, options.to, &letter{
			Verb: verbStart, Child: o.entry.State, Parent: r.record.ID[:], Location: o.loc, From: r.options.Self,
			Program: p.name, Input: input, OnClose: uint8(options.close),
		}))
	}
	close := func(err error) {
		o.resolve = func() error {
			o.entry.Status, o.entry.Failure = Canceled, r.failure(err)
			r.forgetChild(o)
			switch options.close {
			case CloseCancel:
				return r.tell(o, verbCancel, errParentEnded.Error())
			case CloseTerminate:
				return r.tell(o, verbTerminate, errParentEnded.Error())
			}
			return nil
		}
		o.happened()
	}
	o.abandon = func() {
		if options.close == CloseAbandon {
			close(&CanceledError{errAbandoned})
		} else {
			close(&CanceledError{errParentEnded})
		}
	}
	o.canceled = func(bool) {
		if options.close != CloseAbandon && (r.live || !o.recorded) {
			r.must(r.tell(o, verbCancel, "the parent was canceled"))
		}
	}
	o.listen()
	r.children = append(r.children, o)
}

func (r *Run) forgetChild(o *op) {
	if i := slices.Index(r.children, o); i >= 0 {
		r.children = slices.Delete(r.children, i, i+1)
	}
}

// tell sends a verb to the child of a spawn.
func (r *Run) tell(o *op, verb, reason string) error {
	return post(r.turn, o.entry.Child, &letter{
		Verb: verb, Child: o.entry.State, Parent: r.record.ID[:], Location: o.loc, Reason: reason, From: r.options.Self,
	})
}

// askChildren asks children in other actors, started before, how they ended. A child sends its
// result when it ends, and the host delivers that. A result that was lost, for example because an
// operator skipped it, is sent again.
func (r *Run) askChildren() error {
	for _, o := range r.children {
		if !o.recorded {
			continue
		}
		if err := r.tell(o, verbAsk, ""); err != nil {
			return err
		}
	}
	return nil
}

// closeChild sends verb to the child whose Spawn is e at loc, because its parent has ended.
func closeChild(t Turn, run *runRecord, loc journal.Location, e *Entry, verb string) error {
	return post(t, e.Child,
		&letter{Verb: verb, Child: e.State, Parent: run.ID[:], Location: loc, Reason: errParentEnded.Error()})
}

// A message is the result of a child in another actor. It waits in the inbox.
type message struct {
	number   uint64
	location journal.Location // of the Spawn
	child    [16]byte         // id of the child's run
	status   EntryStatus
	output   []byte
	failure  *Failure
}

// A messageRow is the value of a row of the inbox.
type messageRow struct {
	Location []byte   `cbor:"1,keyasint"`
	Child    []byte   `cbor:"2,keyasint"`
	Status   uint8    `cbor:"3,keyasint"`
	Output   []byte   `cbor:"4,keyasint"`
	Failure  *Failure `cbor:"5,keyasint,omitempty"`
}

func putMessage(j Journal, m *message) error {
	value, err := appendRow(nil, &messageRow{m.location, m.child[:], uint8(m.status), m.output, m.failure})
	if err != nil {
		return err
	}
	return j.Put(inboxKey(nil, m.number), value)
}

func decodeMessage(row numbered) (*message, error) {
	key := inboxKey(nil, row.n)
	var m messageRow
	if err := decodeRow(key, row.value, &m); err != nil {
		return nil, err
	}
	child, err := sixteen(key, m.Child)
	if err != nil {
		return nil, err
	}
	if m.Status > uint8(journal.StatusLast) {
		return nil, journal.Corrupt(key, journal.Newer("status %d", m.Status))
	}
	return &message{row.n, m.Location, child, EntryStatus(m.Status), m.Output, m.Failure}, nil
}

// pollChildren takes results of children out of the inbox.
func (r *Run) pollChildren() error {
	if len(r.children) == 0 {
		return nil
	}
	inbox, err := loadInbox(r.turn)
	if err != nil {
		return err
	}
	for _, row := range inbox {
		m, err := decodeMessage(row)
		if err != nil {
			return err
		}
		known := false
		for _, o := range r.children {
			if !bytes.Equal(o.loc, m.location) || !bytes.Equal(o.entry.State, m.child[:]) {
				continue
			}
			o.resolve = func() error {
				o.entry.Status, o.entry.Output, o.entry.Failure = m.status, m.output, m.failure
				r.forgetChild(o)
				return r.turn.Delete(inboxKey(nil, m.number))
			}
			o.happened()
			known = true
			break
		}
		if !known { // the Spawn was given up in the meantime
			r.touched()
			if err := r.turn.Delete(inboxKey(nil, m.number)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ErrLetter is wrapped by errors of Deliver about a malformed body.
var ErrLetter = errors.New("workflow: no message of a run")

// Destroyed reports to the parent, if it waits, that the actor of the run is being destroyed.
func Destroyed(t Turn) error {
	f, err := loadFields(t)
	if err != nil || f.run.ID == [16]byte{} || f.state.Over() {
		return err
	}
	// The parent first: an error in the history must not keep the result from it.
	if err := report(t, &f.run, Exhausted, nil, &Failure{Message: "the child's actor was destroyed"}); err != nil {
		return err
	}
	return closeChildren(t, &f.run)
}

// reportEnd sends the result of a run to its parent.
func reportEnd(t Turn, run *runRecord, state State, output []byte, f *Failure) error {
	status := Failed
	switch state {
	case StateCompleted:
		status = Completed
	case StateCancelled, StateTerminated:
		status = Canceled
	}
	if status != Completed && f == nil {
		f = &Failure{Message: "the child was " + string(state), Reason: reasonCanceled}
	}
	return report(t, run, status, output, f)
}

func report(t Turn, run *runRecord, status EntryStatus, output []byte, f *Failure) error {
	p := run.Parent
	if p == nil {
		return nil
	}
	return post(t, p.To, &letter{
		Verb: verbResult, Child: run.ID[:], Parent: p.Run[:], Location: p.Location,
		Status: uint8(status), Output: output, Failure: f,
	})
}

// atEnd runs in the last transaction of a run.
func (r *Run) atEnd(state State, output []byte, f *Failure) error {
	if !r.record.Kept {
		if err := r.discharge(journal.Location{}); err != nil {
			return err
		}
	}
	return reportEnd(r.turn, &r.record, state, output, f)
}

func sameDestination(a, b Destination) bool {
	return a.Type == b.Type && slices.Equal(a.Key, b.Key)
}

// describeChild returns the program and the actor of a child, for people.
func describeChild(d Destination, program string) string {
	if d.Type == "" {
		return fmt.Sprintf("child %q", program)
	}
	return fmt.Sprintf("child %q at %s %q", program, d.Type, d.Key)
}
