package supervisor

import (
	"errors"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// standing is what a core knows of its actor's rows at 0 of the wake index, by their kind. A start of the node finds such
// a row: it says that work of the actor is under way that nothing else would take up again.
type standing [keyspace.WakeListed + 1]tristate

// A tristate is what is known of a row at 0.
type tristate uint8

const (
	unsure tristate = iota
	disarmed
	armed
)

// arm sets or clears the actor's row at 0 of a kind.
func (c *core) arm(kind keyspace.WakeKind, on bool) {
	switch at := &c.standing[kind]; {
	case on && *at != armed:
		c.ws.SetWake(0, kind, "", "")
		*at = armed
	case !on && *at != disarmed:
		c.ws.ClearWake(0, kind, "", "")
		*at = disarmed
	}
}

// errLeftover is what the work of a due row returns if the actor no longer has what the row is for.
var errLeftover = errors.New("a row of the wake index is a leftover")

// due does what a row of the wake index asks for whose time has come, and answers w. The row stands until a turn of do clears it; one of
// another incarnation, and one that is a leftover, are removed here.
func (c *core) due(w *work, row *engine.Wake, do func() error) {
	c.respond(w, nil, c.dueRow(w, row, do))
}

// dueRow is due for one who answers.
func (c *core) dueRow(w *work, row *engine.Wake, do func() error) error {
	if row.ID != c.id {
		return c.a.sup.store.DropWakes([][]byte{row.Row})
	}
	err := do()
	if err == errLeftover {
		_, err = c.internal(w, "leftover", func(*turn) error {
			c.ws.ClearWake(row.Due, row.Kind, row.Name, row.Instance)
			return nil
		})
	}
	return err
}
