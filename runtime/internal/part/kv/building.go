package kv

import (
	"slices"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// building is the row of an index under construction, on its way through its actor's mailbox.
type building engine.Wake

// Traits implements kernel.Job.
func (*building) Traits(*kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "index", Quick: true}
}

// Run implements kernel.Job.
func (d *building) Run(c *kernel.Core, w *kernel.Work) {
	row := (*engine.Wake)(d)
	c.Due(w, row, func() error {
		list, err := indexesOf(c)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list,
			func(ix *kvrows.Index) bool { return ix.Behind && ix.Due == row.Due && ix.Name() == row.Name })
		if i < 0 {
			return kernel.ErrLeftover
		}
		return c.System(w, "index", func(t *kernel.Turn) error {
			// first, because building may arm the same time again
			c.Rows.ClearWake(row.Due, keyspace.WakeIndex, row.Name, "")
			TurnOf(t).indexes().build = list[i].ID
			return nil
		})
	})
}

// Imported rebuilds all indexes of an actor, because its database was replaced.
func Imported(t *kernel.Turn) error {
	list, err := indexesOf(t.Core)
	if err != nil {
		return err
	}
	x := TurnOf(t).indexes()
	x.clear = true
	memoryOf(t.Core).indexes = indexes{}
	for _, ix := range list {
		ix.Renew(max(t.Start.UnixMilli(), 1))
		if err := ix.Put(t.Core.Rows); err != nil {
			return err
		}
	}
	return nil
}
