package actor_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
)

func TestSchedulesAreSetWithTheirOptions(t *testing.T) {
	onNode(t, func(r *rig) {
		noon := time.Now().Add(12 * time.Hour)
		cron := actor.Rule{Cron: "0 3 * * *", Zone: "Europe/Zurich", Missed: actor.MissedAll, CatchUp: 10, KeepRuns: 50}
		often := actor.Rule{Every: 90 * time.Second, Missed: actor.MissedNone, KeepRuns: -1}
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			r.nightly.Set(ctx, cron, 7)
			r.nightly.Named("often").Set(ctx, often, 8)
			r.nightly.Named("once").Set(ctx, actor.Rule{At: noon}, 9)
			r.rest.Named("report").Set(ctx, actor.Rule{Every: time.Hour}, "weekly")
			if tick := ctx.Tick(); tick != (actor.Tick{}) {
				t.Errorf("an action is a run of %v", tick)
			}
			return nil
		})
		r.look(func(ctx actor.Reader) error {
			list, err := r.nightly.List(ctx)
			if err != nil || len(list) != 3 || list[0].Payload != 7 || list[0].Rule != cron || list[1].Instance != "often" || list[1].Rule != often ||
				list[2].Instance != "once" || !list[2].Rule.At.Equal(noon) {
				t.Errorf("list: %+v %v", list, err)
			}
			one, ok, err := r.nightly.Named("often").Get(ctx)
			if err != nil || !ok || one.Payload != 8 || one.Rule != often {
				t.Errorf("get: %+v %t %v", one, ok, err)
			}
			if _, ok, err := r.nightly.Named("never").Get(ctx); ok || err != nil {
				t.Errorf("get of one that is not set: %t %v", ok, err)
			}
			if own, ok, err := r.nightly.Get(ctx); !ok || err != nil || own.Instance != "" {
				t.Errorf("get of instance \"\": %+v %v", own, err)
			}
			rest, err := r.rest.List(ctx)
			if err != nil || len(rest) != 1 || rest[0].Name != "report" || rest[0].Instance != "" || rest[0].Payload != "weekly" {
				t.Errorf("list of all others: %+v %v", rest, err)
			}
			return nil
		})
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			was, err := r.nightly.Cancel(ctx)
			again, err2 := r.nightly.Cancel(ctx)
			if !was || again || err != nil || err2 != nil {
				t.Errorf("cancel: %t %t %v %v", was, again, err, err2)
			}
			return second(r.nightly.Named("often").Cancel(ctx))
		})
		time.Sleep(13 * time.Hour)
		r.h.Settle()
		r.mustTurn(func(s *desk, _ *actor.Context) error {
			if len(s.Log) != 15 || s.Log[1] != `tick "report" weekly` || !slices.Contains(s.Log, `tick "nightly" "once" 1 9`) {
				t.Errorf("%q", s.Log)
			}
			return nil
		})
	})
}

func TestSchedulesOfEachNameAreListedFromOutside(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx, nightly := r.Context(), r.nightly.Of(r.ref)
		if _, err := nightly.List(ctx); actor.CodeOf(err) != actor.NotFound {
			t.Error(err)
		}
		if err := r.ref.Create(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := nightly.Set(ctx, actor.Rule{}, 1); actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("no rule: %v", err)
		}
		later := time.Now().Add(time.Hour)
		if _, err := r.nightly.Named("b").Of(r.ref).Set(ctx, actor.Rule{At: later}, 6); err != nil {
			t.Error(err)
		}
		if _, err := r.rest.Named("report").Of(r.ref).Set(ctx, actor.Rule{Every: time.Hour}, "x"); err != nil {
			t.Error(err)
		}
		if list, err := nightly.List(ctx); err != nil || len(list) != 1 || list[0].Instance != "b" || !list[0].Rule.At.Equal(later) {
			t.Errorf("%+v, %v", list, err)
		}
		if rest, err := r.rest.Of(r.ref).List(ctx); err != nil || len(rest) != 1 || rest[0].Name != "report" {
			t.Errorf("%+v, %v", rest, err)
		}
		for name, want := range map[string]bool{"b": true, "c": false} {
			if one, ok, err := r.nightly.Named(name).Of(r.ref).Get(ctx); err != nil || ok != want || ok && one.Payload != 6 {
				t.Errorf("%s: %+v, %t, %v", name, one, ok, err)
			}
		}
	})
}

func TestRulesReadWell(t *testing.T) {
	for want, rule := range map[string]actor.Rule{
		"0 3 * * *":               {Cron: "0 3 * * *"},
		"every 1m30s":             {Every: 90 * time.Second},
		"at 2030-01-02T03:04:05Z": {At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)},
	} {
		if got := fmt.Sprint(rule); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
