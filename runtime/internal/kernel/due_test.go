package kernel

import (
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
)

func TestRowThatNoPartHasIsNotPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		k, err := New(options.Options{Store: store, Behaviors: []*host.Behavior{{Type: "p"}}}, Composition{})
		if err != nil {
			t.Fatal(err)
		}
		addr := host.Address{Type: "p", Key: []string{"a"}}
		space, err := store.OpenSpace(k.NewID(addr))
		if err != nil {
			t.Fatal(err)
		}
		defer space.Close()
		space.Writes().Advance(1)
		if err := space.Writes().Create(k.Identity(addr)); err != nil {
			t.Fatal(err)
		}
		if _, err := space.Commit(func(error) {}); err != nil {
			t.Fatal(err)
		}
		id, ok, err := store.Lookup(k.Identity(addr))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if posted, paused, err := k.fire(&clock.Firing{Row: engine.Wake{ID: id, Due: 1, Kind: keyspace.WakePaused}}); posted || paused != nil || err == nil {
			t.Error(posted, paused, err)
		}
	})
}
