package kernel

import (
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
)

// crowd is a company of nobody.
type crowd struct {
	Facet
	name string
}

func (*crowd) Size() int                       { return 0 }
func (*crowd) Ask(*host.Error) <-chan struct{} { return nil }
func (*crowd) End(*host.Error)                 {}
func (*crowd) Retire() bool                    { return true }

func TestActorThatIsAwakeAgainIsNotPutToSleepForTheCompanyOfBefore(t *testing.T) {
	company := &crowd{name: "of this waking"}
	awake, alone := &Core{}, &Core{}
	attach.Make(&awake.Attached, func() Company { return company })
	before := &crowd{name: "of the waking before"}
	for _, c := range []struct {
		what string
		core *Core
		job  Sleeping
		away bool
	}{
		{"its own company has left", awake, Sleeping{Force: true, After: company}, false},
		{"no company had to leave", awake, Sleeping{Force: true}, false},
		{"the company of before has left", awake, Sleeping{Force: true, After: before}, true},
		{"the company of before has left, and it has none", alone, Sleeping{Force: true, After: before}, true},
		{"it sleeps", nil, Sleeping{Force: true}, true},
	} {
		w := &Work{Done: make(chan struct{}, 1)}
		if away := c.job.TurnedAway(c.core, w); away != c.away || w.Err != nil {
			t.Errorf("%s: turned away: %v, with %v", c.what, away, w.Err)
		}
	}
}
