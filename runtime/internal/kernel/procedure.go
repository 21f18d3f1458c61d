package kernel

import (
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
)

// A Procedure is work that a part does in turns of an actor on request: a built-in method that
// writes, or work that no call can name.
type Procedure struct {
	Row method.Row
	// Run runs the turns that it needs, in an actor that exists.
	Run func(c *Core, w *Work) ([]byte, error)
	// Instance: its turns use the instance.
	Instance bool
	// Bare: it does not wake the actor.
	Bare bool
	// Operates: it runs even if the actor is paused, and on an actor that does not wake.
	Operates bool
	// Pace is the time that its turns take; nil if that is not known.
	Pace *pace.Average
}

// NewProcedure makes a procedure that no call can name, which may use the instance.
func NewProcedure(name string, run func(c *Core, w *Work) error) *Procedure {
	return &Procedure{
		Row: method.Row{Name: name, Caller: method.Anyone}, Instance: true,
		Run: func(c *Core, w *Work) ([]byte, error) { return nil, run(c, w) },
	}
}

// operators reports whether only operators may run it on actors of a type.
func (p *Procedure) operators(t *Type) bool { return p.Row.By(t.Open()) == method.Operators }
