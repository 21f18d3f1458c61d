package kernel

import (
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// fire puts a due row into its actor's mailbox, or drops a row whose actor is gone. It returns the
// address of an actor that is paused, for which the row must wait.
func (s *Kernel) fire(f *clock.Firing) (posted bool, paused *host.Address, err error) {
	row := &f.Row
	ident, _, ok, err := s.Store.Identity(row.ID)
	if err != nil {
		return false, nil, err
	}
	if !ok {
		return false, nil, s.Store.DropWakes([][]byte{row.Row})
	}
	t := s.hosted(ident.Type)
	if t == nil || ident.Namespace != s.Options.Namespace {
		return false, nil, fault.UnknownType(ident.Type)
	}
	addr := host.Address{Type: ident.Type, Key: ident.Key}
	done := func(w *Work) {
		if w.Paused {
			f.Paused(addr)
		} else {
			f.Done(w.Err)
		}
	}
	var w *Work
	switch p := s.wakers[row.Kind]; {
	case p == nil && row.Kind == keyspace.WakeExpiry:
		w = &Work{Job: (*purge)(row)}
	case p == nil:
		return false, nil, fmt.Errorf("kernel: no part has rows of the kind %s", row.Kind)
	case s.Pauses.At(addr) != nil:
		return false, &addr, nil
	default:
		if w, err = s.due(p, t, addr, row, done); err != nil {
			return false, nil, err
		}
	}
	w.Existing = true
	if w.Finish == nil {
		w.Finish = done
	}
	_, err = s.Post(t, addr, w, nil)
	return err == nil, nil, err
}

// due returns a part's work for a row. A panic becomes an error; then the row is tried again.
func (s *Kernel) due(p Waker, t *Type, addr host.Address, row *engine.Wake, done func(*Work)) (w *Work, err error) {
	defer s.Contain(addr, "Due", p, &err)
	return p.Due(s, t, addr, row, done), nil
}
