package kernel

import (
	"errors"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
)

// Arm sets or clears the actor's row at 0 of a kind.
func (c *Core) Arm(kind keyspace.WakeKind, on bool) {
	switch is := c.Standing.Of(kind); {
	case on && is != standing.Armed:
		c.Rows.SetWake(0, kind, "", "")
		c.Standing.Note(kind, standing.Armed)
	case !on && is != standing.Disarmed:
		c.Rows.ClearWake(0, kind, "", "")
		c.Standing.Note(kind, standing.Disarmed)
	}
}

// ErrLeftover is returned by the work of a due row if the actor no longer has what the row is for.
var ErrLeftover = errors.New("a row of the wake index is a leftover")

// Due does the work of a due row of the wake index, and answers w. The row stands until a turn of
// do clears it; a row of another incarnation, and a leftover, are removed here.
func (c *Core) Due(w *Work, row *engine.Wake, do func() error) {
	c.Respond(w, nil, c.DueRow(w, row, do))
}

// DueRow is Due for a caller that answers w itself.
func (c *Core) DueRow(w *Work, row *engine.Wake, do func() error) error {
	if row.ID != c.ID {
		return c.Actor.Kernel.Store.DropWakes([][]byte{row.Row})
	}
	err := do()
	if err == ErrLeftover {
		err = c.System(w, "leftover", func(*Turn) error {
			c.Rows.ClearWake(row.Due, row.Kind, row.Name, row.Instance)
			return nil
		})
	}
	return err
}
