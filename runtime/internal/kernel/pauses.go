package kernel

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/control"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
)

// unpause lets an actor go on. It does not block.
func (s *Kernel) unpause(key string) {
	if parked := s.Pauses.Resume(key); len(parked) > 0 {
		s.Go(func() {
			for _, f := range parked {
				f()
			}
		})
	}
}

// loadPauses reads which actors are paused. It runs before anything else does.
func (s *Kernel) loadPauses() {
	var after []byte
	for {
		rows, err := s.Store.Wakes(after, 0, 1024)
		if err != nil {
			s.Logger.Error("read which actors are paused", "error", err)
			return
		}
		for _, row := range rows {
			if row.Kind == keyspace.WakePaused {
				if err := s.loadPause(row); err != nil {
					s.Logger.Error("read why an actor is paused", "actor_id", row.ID.String(), "error", err)
				}
			}
		}
		if len(rows) < 1024 {
			return
		}
		after = rows[len(rows)-1].Row
	}
}

func (s *Kernel) loadPause(row engine.Wake) error {
	ident, _, ok, err := s.Store.Identity(row.ID)
	if err != nil {
		return err
	}
	snap := s.Store.Snapshot(row.ID)
	defer snap.Close()
	rec, err := control.Read(snap)
	if err != nil {
		return err
	}
	if !ok || rec.Empty() {
		return s.Store.DropWakes([][]byte{row.Row}) // nothing stands behind it
	}
	if ident.Namespace != s.Options.Namespace {
		return nil
	}
	key := string(address.Append(nil, host.Address{Type: ident.Type, Key: ident.Key}))
	if pause := rec.Pause(); pause != nil {
		s.Pauses.Pause(key, *pause)
	}
	if t := s.Types[ident.Type]; t != nil {
		l, err := limit.Override(t.Base.Limits, rec.Override(), t.Hooks.Limiters)
		if err != nil {
			return err
		}
		s.Overrides.Put(key, l)
	}
	return nil
}

// staysQuiet reports that an actor is not to be woken with its hook for w, because it is paused.
func (a *Actor) staysQuiet(w *Work) bool {
	return !w.destroys() && a.Kernel.Pauses.Of(a.Key) != nil
}

// TurnedAway answers work that is not to run now, and reports that it did.
func (a *Actor) TurnedAway(c *Core, w *Work) bool {
	if j, ok := w.Job.(early); ok && j.TurnedAway(c, w) {
		return true
	}
	if a.Kernel.Pauses.Len() == 0 || !w.Job.Traits(a).Code {
		return false
	}
	p := a.Kernel.Pauses.Of(a.Key)
	if p == nil {
		return false
	}
	w.Paused = true
	w.Fail(park.Refusal(a.Address, p))
	return true
}

// ClearPause removes an actor's pause, if it has one.
func (c *Core) ClearPause(h *Turn) (bool, error) {
	rec, err := control.Read(c.Rows)
	if err != nil || rec.Since == 0 {
		return false, err
	}
	rec.SetPause(nil)
	if err := c.PutControl(&rec); err != nil {
		return false, err
	}
	a := c.Actor
	h.Then(func() { a.Kernel.unpause(a.Key) })
	return true, nil
}
