package usage

import (
	"hash/maphash"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/tally"
)

// TestAMinuteOfACoreThatIsOverLeavesItsSuccessor ends a minute with a core that was looked at
// before its actor was destroyed and made again.
func TestAMinuteOfACoreThatIsOverLeavesItsSuccessor(t *testing.T) {
	p := &Part{seed: maphash.MakeSeed()}
	a := &kernel.Actor{Key: "a"}
	old, next := &kernel.Core{Actor: a, ID: keyspace.ActorID{1}}, &kernel.Core{Actor: a, ID: keyspace.ActorID{2}}
	old.Attached.Ended.Store(true)
	s := p.shelf("a")
	kept := tally.Totals{Calls: 3}
	s.keep(next, kept)
	p.turn(old)
	if got := s.of(next); got != kept {
		t.Errorf("of the successor %+v is kept", got)
	}
	a.Tally.Answer(true, 1)
	p.turn(old)
	if got := a.Tally.Totals().Calls; got != 1 {
		t.Errorf("%d calls of the successor are counted", got)
	}
}
