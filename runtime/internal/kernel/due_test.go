package kernel

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/kernel/view"
)

func TestRowThatNoPartHasIsNotPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
		must(t, err)
		defer store.Close()
		k, err := New(options.Options{Store: store, Behaviors: []*host.Behavior{{Type: "p"}}}, Composition{})
		must(t, err)
		addr := host.Address{Type: "p", Key: []string{"a"}}
		space, err := store.OpenSpace(k.NewID(addr))
		must(t, err)
		defer space.Close()
		space.Writes().Advance(1)
		must(t, space.Writes().Create(k.Identity(addr)))
		_, err = space.Commit(func(error) {})
		must(t, err)
		id, ok, err := store.Lookup(k.Identity(addr))
		fatalIf(t, err != nil || !ok, "%v %v", ok, err)
		posted, paused, err := k.fire(&clock.Firing{Row: engine.Wake{ID: id, Due: 1, Kind: keyspace.WakePaused}})
		errorIf(t, posted || paused != nil || err == nil, "%v %v %v", posted, paused, err)
	})
}

func TestAnswerDoesNotWaitForACommitThatIsDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Actor{Kernel: &Kernel{Life: t.Context()}}
		w := &Work{Done: make(chan struct{}, 1)}
		want := errors.New("what w is told")
		a.Apply(true, func(uint64) (*view.View, bool) {
			go a.tell(w, want)
			for range 1000 {
				runtime.Gosched() // until it would have seen the number of this commit; it waits for a mutex now
			}
			return nil, false
		})
		synctest.Wait()
		errorIf(t, !w.settled.Load() || !errors.Is(w.Err, want), "w is settled: %v, with %v", w.settled.Load(), w.Err)
	})
}

func TestOneSleepEndsOneWaking(t *testing.T) {
	now, slept, lost := new(Core), new(Core), new(Core)
	slept.asleep.Store(true)
	for _, c := range []struct {
		what string
		core *Core
		job  Sleeping
		away bool
	}{
		{"any waking", now, Sleeping{Force: true}, false},
		{"this waking", now, Sleeping{Force: true, Waking: now}, false},
		{"one that has ended in sleep", now, Sleeping{Force: true, Waking: slept}, true},
		{"one that was lost in a crash", now, Sleeping{Force: true, Waking: lost}, false},
		{"any, of an actor that sleeps", nil, Sleeping{Force: true}, true},
		{"one that was lost, of an actor that sleeps", nil, Sleeping{Force: true, Waking: lost}, true},
	} {
		w := &Work{Done: make(chan struct{}, 1)}
		away := c.job.TurnedAway(c.core, w)
		errorIf(t, away != c.away || w.Err != nil, "%s: turned away: %v, with %v", c.what, away, w.Err)
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
