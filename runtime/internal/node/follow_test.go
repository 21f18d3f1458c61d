package node

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/changes"
)

// A node without NATS tells of the changes of all actors while they are followed, and writes no outbox for it.
func TestChangesOfAllActorsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, nil, &puppetType{name: "p"}, &puppetType{name: "q"})
		g.must("a", add(1)) // before
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var told []string
		done := make(chan error, 1)
		go func() {
			done <- g.FollowChanges(ctx, changes.Query{Type: "p", Kinds: []string{"state", "life", "audit"}}, func(r *changes.Record) error {
				for _, c := range r.Changes {
					told = append(told, fmt.Sprintf("%s %s %s@%d", r.Key[0], c.Kind, c.Name, r.Version))
				}
				return nil
			})
		}()
		synctest.Wait()
		g.must("a", add(1))
		g.must("b", add(2))
		g.mustVerb("b", host.ActorPause, nil, nil)
		if err := g.doAt(host.Address{Type: "q", Key: []string{"a"}}, add(1)); err != nil {
			t.Fatal(err)
		}
		if err := g.Destroy(t.Context(), host.Address{Type: "p", Key: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{"a state @3", "b life created@1", "b state @1", "b state @2", "b life paused@3", "b audit actor.pause@3", "a audit actor.destroy@4", "a life destroyed@4"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q", told)
		}
		cancel()
		if err := <-done; host.CodeOf(err) != host.Canceled {
			t.Error(err)
		}
	})
}
