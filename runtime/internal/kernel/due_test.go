package kernel

import (
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/internal/testutil"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
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

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
