package admin

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/part/admin/control"
)

// put writes the settings of operators, and the row at 0 of the wake index that a start of the node
// finds.
func put(c *kernel.Core, rec *control.Record) error {
	c.Arm(keyspace.WakePaused, !rec.Empty())
	return rec.Write(c.Rows)
}

// Start implements kernel.Runner: it reads which actors are paused or have limits of their own.
func (*Part) Start(s *kernel.Kernel) {
	var after []byte
	for {
		rows, err := s.Store.Wakes(after, 0, 1024)
		if err != nil {
			s.Logger.Error("read which actors are paused", "error", err)
			return
		}
		for _, row := range rows {
			if row.Kind == keyspace.WakePaused {
				if err := load(s, row); err != nil {
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

// Stop implements kernel.Runner.
func (*Part) Stop(*kernel.Kernel) {}

// load reads the settings of operators for the actor of a row.
func load(s *kernel.Kernel, row engine.Wake) error {
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

// Report implements survey.Reporter.
func (*Part) Report(rows *engine.Snapshot, st *host.Status) error {
	rec, err := control.Read(rows)
	if err != nil {
		return err
	}
	if st.Pause = rec.Pause(); st.Pause != nil {
		st.State = host.Paused
	}
	if set := rec.Override(); !set.Empty() {
		st.Limits = &set
	}
	return nil
}

// Destroy implements kernel.Destroyer: the settings of operators end with the actor.
func (*Part) Destroy(t *kernel.Turn) error {
	rec, err := control.Read(t.Core.Rows)
	if err != nil {
		return err
	}
	t.Core.Arm(keyspace.WakePaused, false)
	a := t.Actor
	if rec.Since != 0 {
		t.Then(func() { a.Kernel.Unpause(a.Key) })
	}
	if len(rec.Limits) > 0 {
		t.Then(func() { a.Kernel.Override(a, nil) })
	}
	return nil
}
