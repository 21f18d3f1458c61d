package guides_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/kv"
)

var (
	Studios = actor.NewType[Studio]("studio")
	Rename  = actor.NewAction[renaming, actor.None](Studios, "rename")
	Songs   = actor.NewMap[string, Song](Studios, "songs", actor.MapConfig{MaxKeys: 10_000, Log: true})
)

type Song struct{ Title, Singer string }

func (s *Studio) rename(ctx *actor.Context, in renaming) (actor.None, error) {
	song, _, err := Songs.Get(ctx, in.ID)
	if err != nil {
		return actor.None{}, err
	}
	song.Title = in.Title
	return actor.None{}, Songs.Put(ctx, in.ID, song)
}

var removed = actor.NewQuery[actor.None, int](Studios, "removed")

type Studio struct{ Removed int }

type renaming struct{ ID, Title string }

func (s *Studio) changed(ctx *actor.Context, c actor.MapChange[string, Song]) error {
	if c.Removed {
		s.Removed++
	}
	return nil
}

func (s Studio) removed(*actor.ReadContext, actor.None) (int, error) { return s.Removed, nil }

func studio() actor.Definition {
	return actor.Define(Studios, actor.Spec[Studio]{OpenKV: true}, actor.On(Rename, (*Studio).rename), actor.OnQuery(removed, Studio.removed),
		actor.OnChange(Songs, (*Studio).changed))
}

func TestKV(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actortest.Harness) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()

		store := Studios.Ref(node, "mine").KV()
		plan, seats := kv.Key{"settings", "plan"}, kv.Key{"settings", "seats"}
		r, err := store.Commit(ctx, kv.Commit{
			Checks: []kv.Check{kv.Absent(plan)}, // otherwise r.Failed says which one failed
			Mutations: []kv.Mutation{
				kv.Put(plan, kv.JSON([]byte(`{"name":"free"}`))),
				kv.Sum(seats, kv.JSON([]byte("3"))).Within(kv.Value{}, kv.JSON([]byte("5")), false),
				kv.Put(kv.Key{"session", "x"}, kv.Text("open")).For(time.Hour),
			},
		})
		if err != nil || r.Failed != nil || string(r.Results[1].Value.Data) != "3" {
			t.Fatalf("%+v %v", r, err)
		}
		_, err = store.Update(ctx, func(tx *kv.Tx) error {
			e, _, err := tx.Get(ctx, plan)
			if err != nil {
				return err
			}
			return tx.Do(kv.Put(kv.Key{"settings", "plan-before"}, e.Value))
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.SetScope(ctx, kv.Key{"settings"}, kv.Policy{MaxBytes: 1 << 20, KeepVersions: 16})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Rename.Call(ctx, Studios.Ref(node, "mine"), renaming{"1", "Blue"}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Delete(kv.Key{"songs", "1"})}}); err != nil {
			t.Fatal(err)
		}

		if err := branches(ctx, store, plan); err != nil {
			t.Fatal(err)
		}
		e, _, err := store.Get(ctx, plan)
		if err != nil || string(e.Value.Data) != `{"name":"pro"}` {
			t.Errorf("%s %v", e.Value.Data, err)
		}

		var copied []kv.Key
		time.AfterFunc(time.Minute, stop)

		var last kv.Position // what the reader has already
		for e, err := range store.Feed(ctx, kv.FeedConfig{From: last}) {
			if err != nil {
				break // ctx ended, or the actor is gone; a *kv.GapError says that events are no longer kept, and the loop goes on
			}
			copied = append(copied, e.Key)
			last = e.Position()
		}

		if len(copied) != 2 || copied[0][1] != "1" || last.After != 2 {
			t.Errorf("%v, %+v", copied, last)
		}
		if n, err := removed.Call(t.Context(), Studios.Ref(node, "mine"), actor.None{}); n != 1 || err != nil {
			t.Error(n, err)
		}
	}, studio())
}

func branches(ctx context.Context, store kv.Store, plan kv.Key) error {
	draft, err := store.Fork(ctx, "draft")
	if err != nil {
		return err
	}
	if _, err := draft.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(plan, kv.JSON([]byte(`{"name":"pro"}`)))}}); err != nil {
		return err
	}
	merged, err := store.Merge(ctx, kv.MergeConfig{Source: kv.Point{Branch: "draft"}})
	if err == nil && !merged.OK {
		panic("there is no conflict")
	}
	return err
}
