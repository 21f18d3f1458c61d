package supervisor

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// recover takes up what was under way when the store was last open, a few actors at a time: the rows of the wake index
// that are due at 0 say of whom.
func (s *Supervisor) recover() {
	slots := make(chan struct{}, s.options.AlarmConcurrency)
	var after []byte
	for {
		rows, err := s.store.Wakes(after, 0, 256)
		if err != nil {
			s.logger.Error("read what was under way", "error", err)
			return
		}
		for _, row := range rows {
			select {
			case slots <- struct{}{}:
			case <-s.life.Done():
				return
			}
			s.recoverRow(row, func() { <-slots })
		}
		if len(rows) < 256 {
			return
		}
		after = rows[len(rows)-1].Row
	}
}

// recoverRow takes up what one row says. done is called when the next may be.
func (s *Supervisor) recoverRow(row engine.Wake, done func()) {
	if p := s.recoverers[row.Kind]; p != nil {
		s.recoverActor(row, done, p.takeUp)
		return
	}
	switch row.Kind {
	case keyspace.WakeSends:
		s.recoverSender(row, done)
	default:
		done() // who is paused was read before anything ran
	}
}

// recoverDuty has an actor that exists do what it was doing when the node stopped.
func (s *Supervisor) recoverDuty(row engine.Wake, done func(), of func(*activation) *duty) {
	s.recoverActor(row, done, func(a *activation) *work {
		return of(a).item(true)
	})
}

// recoverActor has an actor that exists do some work. A row of one that is gone is dropped.
func (s *Supervisor) recoverActor(row engine.Wake, done func(), make func(*activation) *work) {
	ident, _, ok, err := s.store.Identity(row.ID)
	t := s.hosted(ident.Type)
	switch {
	case err != nil:
		s.logger.Error("recover an actor", "actor_id", row.ID.String(), "error", err)
	case !ok:
		if err := s.store.DropWakes([][]byte{row.Row}); err != nil {
			s.logger.Error("drop a leftover index row", "error", err)
		}
	case t == nil:
		s.logger.Warn("work waits for an actor type that this node does not host", "actor_type", ident.Type, "work", row.Kind.String())
	default:
		addr := host.Address{Type: ident.Type, Key: ident.Key}
		a := s.activation(t, addr)
		if a == nil {
			break // the supervisor has closed
		}
		w := make(a)
		finish := w.finish
		w.finish = func(w *work) {
			done()
			finish(w)
		}
		if _, err := s.post(t, addr, w); err != nil {
			w.fail(err)
		}
		return
	}
	done()
}
