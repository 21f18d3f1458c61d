package replay

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// Verbs of the messages between runs.
const (
	verbStart     = "start"
	verbCancel    = "cancel"
	verbTerminate = "terminate"
	verbResult    = "result"
	verbAsk       = "ask" // by a parent, each time that it runs again
)

// A letter is the body of a message between runs.
type letter struct {
	Verb string `cbor:"1,keyasint"`
	// Child is the id of the child's run, Parent that of the parent's, and Location the Spawn in
	// the parent's history.
	Child    []byte `cbor:"2,keyasint"`
	Parent   []byte `cbor:"3,keyasint"`
	Location []byte `cbor:"4,keyasint"`

	// From is the parent, for start and ask. The next three are for start.
	From    Destination `cbor:"5,keyasint"`
	Program string      `cbor:"6,keyasint,omitempty"`
	Input   []byte      `cbor:"7,keyasint,omitempty"`
	OnClose uint8       `cbor:"8,keyasint,omitempty"`
	// For cancel and terminate.
	Reason string `cbor:"9,keyasint,omitempty"`
	// For result.
	Status  uint8    `cbor:"10,keyasint,omitempty"`
	Output  []byte   `cbor:"11,keyasint,omitempty"`
	Failure *Failure `cbor:"12,keyasint,omitempty"`
}

// post sends a letter.
func post(t Turn, to Destination, l *letter) error {
	body, err := rowEncoding.Marshal(l)
	if err != nil {
		return fmt.Errorf("workflow: letter %s: %w", l.Verb, err)
	}
	return t.Send(&Outgoing{To: to, Verb: l.Verb, Body: body})
}

// AsksLiving reports whether a message of a run asks a child that lives. A host that can read the
// child's rows at once need not deliver such a message. child has the rows of the actor that m goes
// to.
func (m *Outgoing) AsksLiving(child Reader) (bool, error) {
	var l letter
	if m.Verb != verbAsk {
		return false, nil
	}
	if err := rowDecoding.Unmarshal(m.Body, &l); err != nil {
		return false, fmt.Errorf("%w: %w", ErrLetter, err)
	}
	f, err := loadFields(child)
	if err != nil {
		return false, err
	}
	return bytes.Equal(f.run.ID[:], l.Child) && !f.state.Over(), nil
}

// Deliver handles a message from a run of another actor: start, cancel or terminate a child, or
// the result of a child.
func Deliver(t Turn, programs func(name string) *Program, body []byte) error {
	var l letter
	if err := rowDecoding.Unmarshal(body, &l); err != nil {
		return fmt.Errorf("%w: %w", ErrLetter, err)
	}
	if len(l.Child) != 16 || len(l.Parent) != 16 {
		return fmt.Errorf("%w: ids of %d and %d bytes", ErrLetter, len(l.Child), len(l.Parent))
	}
	f, err := loadFields(t)
	if err != nil {
		return err
	}
	mine := bytes.Equal(f.run.ID[:], l.Child)
	switch l.Verb {
	case verbStart:
		return l.start(t, f, mine, programs)
	case verbAsk:
		return l.answer(t, f, mine)
	case verbCancel, verbTerminate:
		if !mine || f.state.Over() {
			return nil
		}
		if l.Verb == verbCancel {
			return Cancel(t, l.Reason)
		}
		return Terminate(t, l.Reason)
	case verbResult:
		if f.run.ID == [16]byte{} || f.state.Over() || !bytes.Equal(f.run.ID[:], l.Parent) {
			return nil
		}
		if s := EntryStatus(l.Status); s > journal.StatusLast || !s.Over() {
			return fmt.Errorf("%w: a result of status %d", ErrLetter, l.Status)
		}
		if waits, err := l.awaited(t); err != nil || !waits {
			return err
		}
		inbox, err := loadInbox(t)
		if err != nil {
			return err
		}
		for _, row := range inbox {
			m, err := decodeMessage(row)
			if err != nil {
				return err
			}
			if bytes.Equal(m.location, l.Location) && bytes.Equal(m.child[:], l.Child) {
				return nil // the same result, sent again after a question
			}
		}
		number := uint64(1)
		if n := len(inbox); n > 0 {
			number = inbox[n-1].n + 1
		}
		return putMessage(t,
			&message{number, l.Location, [16]byte(l.Child), EntryStatus(l.Status), l.Output, l.Failure})
	}
	return fmt.Errorf("%w: verb %q", ErrLetter, l.Verb)
}

// awaited reports whether the history has the Spawn of a result, and it has not ended. Another
// result would stay in the inbox.
func (l *letter) awaited(t Turn) (bool, error) {
	key := journal.HistoryKey(nil, l.Location)
	value, ok, err := t.Get(key)
	if err != nil || !ok {
		return false, err
	}
	e, err := decodeEntry(key, value)
	if err != nil {
		return false, err
	}
	return e.Kind == KindSpawn && !e.Status.Over() && bytes.Equal(e.State, l.Child), nil
}

// answer answers a parent's question how a run ended. A living run sends its result by itself when
// it ends.
func (l *letter) answer(t Turn, f *fields, mine bool) error {
	switch {
	case !mine:
		return post(t, l.From, &letter{
			Verb: verbResult, Child: l.Child, Parent: l.Parent, Location: l.Location, Status: uint8(Exhausted),
			Failure: &Failure{Message: "the child's actor does not have its run any more, and its result is lost"},
		})
	case !f.state.Over():
		return nil
	}
	return reportEnd(t, &f.run, f.state, f.output, f.failure)
}

// start begins the run of a child.
func (l *letter) start(t Turn, f *fields, mine bool, programs func(name string) *Program) error {
	parent := &parentRef{To: l.From, Run: [16]byte(l.Parent), Location: l.Location, Policy: l.OnClose}
	if mine {
		if !f.state.Over() {
			return nil
		}
		return reportEnd(t, &f.run, f.state, f.output, f.failure)
	}
	p := programs(l.Program)
	var refused error
	switch {
	case p == nil:
		refused = fmt.Errorf("the actor has no workflow %q", l.Program)
	case p.err != nil:
		refused = p.err
	default:
		// A run of an earlier epoch, left behind by the parent, is replaced once it has ended.
		replace := f.run.Parent != nil && f.run.Parent.Run == parent.Run && f.state.Over()
		_, err := Start(t, p, l.Input, StartOptions{ID: [16]byte(l.Child), parent: parent, Replace: replace})
		if err == nil || !errors.Is(err, ErrExists) && !errors.Is(err, ErrTooLarge) {
			return err
		}
		refused = err
	}
	return post(t, l.From, &letter{
		Verb: verbResult, Child: l.Child, Parent: l.Parent, Location: l.Location,
		Status: uint8(Exhausted), Failure: &Failure{Message: "refused: " + refused.Error()},
	})
}

// Undeliverable reports to a run that its message could not be delivered, for example because the
// destination does not exist.
func Undeliverable(t Turn, m *Outgoing, reason error) error {
	var l letter
	if err := rowDecoding.Unmarshal(m.Body, &l); err != nil {
		return fmt.Errorf("%w: %w", ErrLetter, err)
	}
	if l.Verb != verbStart && l.Verb != verbAsk {
		return nil // the parent of the child knows already, or the parent is gone
	}
	l.Verb, l.Status, l.Failure = verbResult, uint8(Exhausted), &Failure{Message: reason.Error()}
	body, err := rowEncoding.Marshal(&l)
	if err != nil {
		return err
	}
	return Deliver(t, func(string) *Program { return nil }, body)
}
