package duty

import (
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// Recover continues the work that was under way when the store was last open, a few actors at a
// time. The rows of the wake index that are due at 0 name the actors.
func Recover(s *kernel.Kernel) {
	slots := make(chan struct{}, s.Options.AlarmConcurrency)
	var after []byte
	for {
		rows, err := s.Store.Wakes(after, 0, 256)
		if err != nil {
			s.Logger.Error("read what was under way", "error", err)
			return
		}
		for _, row := range rows {
			select {
			case slots <- struct{}{}:
			case <-s.Life.Done():
				return
			}
			done := func() { <-slots }
			if p := s.Recoverers[row.Kind]; p != nil {
				_, outlives := p.(kernel.Remainder)
				RecoverActor(s, row, done, p.TakeUp, outlives)
			} else {
				done() // it belongs to operators, and was read before anything ran
			}
		}
		if len(rows) < 256 {
			return
		}
		after = rows[len(rows)-1].Row
	}
}

// RecoverActor posts the work that take makes to an actor, or, if the row outlives its actor, to
// the remains of a destroyed one. The row of an actor that is gone is dropped. done is called when
// the next row may be taken up.
func RecoverActor(s *kernel.Kernel, row engine.Wake, done func(),
	take func(*kernel.Actor) *kernel.Work, outlives bool) {
	done = sync.OnceFunc(done) // work that is tried again is finished more than once
	ident, _, ok, err := s.Store.Identity(row.ID)
	var remains keyspace.ActorID
	if err == nil && !ok && outlives {
		var dead engine.Tombstone
		if dead, ok, err = s.Store.Tombstone(row.ID); ok {
			ident, remains = dead.Identity, row.ID
		}
	}
	t := s.Types[ident.Type]
	switch {
	case err != nil:
		s.Logger.Error("recover an actor", "actor_id", row.ID.String(), "error", err)
	case !ok:
		if err := s.Store.DropWakes([][]byte{row.Row}); err != nil {
			s.Logger.Error("drop a leftover index row", "error", err)
		}
	case t == nil || t.Retired && remains.IsZero():
		s.Logger.Warn("work waits for an actor type that this node does not host", "actor_type",
			ident.Type, "work", row.Kind.String())
	default:
		if s.TakeUpOf(t, host.Address{Type: ident.Type, Key: ident.Key}, remains, func(a *kernel.Actor) *kernel.Work {
			w := take(a)
			finish := w.Finish
			w.Finish = func(w *kernel.Work) {
				done()
				finish(w)
			}
			return w
		}) {
			return
		}
	}
	done()
}
