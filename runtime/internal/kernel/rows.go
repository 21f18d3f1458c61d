package kernel

import (
	"errors"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// standing is what a core knows of its actor's rows at 0 of the wake index: two bits for each kind. A start of the node finds such
// a row: it says that work of the actor is under way that nothing else would take up again.
type standing uint32

// maxWakeKinds bounds the kinds of rows of the wake index. There is room for kinds that a part from outside adds.
const maxWakeKinds = 16

// A tristate is what is known of a row at 0.
type tristate uint8

const (
	// Unsure: the row may stand or not.
	Unsure tristate = iota
	disarmed
	// Armed: the row stands.
	Armed
)

// Of returns what is known of the row of a kind.
func (s standing) Of(kind keyspace.WakeKind) tristate { return tristate(s >> (2 * kind) & 3) }

// Note notes what is known of the row of a kind.
func (s *standing) Note(kind keyspace.WakeKind, is tristate) {
	*s = *s&^(3<<(2*kind)) | standing(is)<<(2*kind)
}

// Arm sets or clears the actor's row at 0 of a kind.
func (c *Core) Arm(kind keyspace.WakeKind, on bool) {
	switch is := c.Standing.Of(kind); {
	case on && is != Armed:
		c.Rows.SetWake(0, kind, "", "")
		c.Standing.Note(kind, Armed)
	case !on && is != disarmed:
		c.Rows.ClearWake(0, kind, "", "")
		c.Standing.Note(kind, disarmed)
	}
}

// ErrLeftover is what the work of a due row returns if the actor no longer has what the row is for.
var ErrLeftover = errors.New("a row of the wake index is a leftover")

// Due does what a row of the wake index asks for whose time has come, and answers w. The row stands until a turn of do clears it; one of
// another incarnation, and one that is a leftover, are removed here.
func (c *Core) Due(w *Work, row *engine.Wake, do func() error) {
	c.Respond(w, nil, c.DueRow(w, row, do))
}

// DueRow is due for one who answers.
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
