package actor_test

import (
	"errors"
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
			errorIf(r, ctx.Tick() != actor.Tick{}, "an action is a run of %v", ctx.Tick())
			return nil
		})
		r.look(func(ctx actor.Reader) error {
			list, err := r.nightly.List(ctx)
			errorIf(r, err != nil || len(list) != 3 || list[0].Payload != 7 || list[0].Rule != cron || list[1].Instance != "often" ||
				list[1].Rule != often || list[2].Instance != "once" || !list[2].Rule.At.Equal(noon), "list: %+v %v", list, err)
			one, ok, err := r.nightly.Named("often").Get(ctx)
			errorIf(r, err != nil || !ok || one.Payload != 8 || one.Rule != often, "get: %+v %t %v", one, ok, err)
			own, ok, err := r.nightly.Get(ctx)
			errorIf(r, !ok || err != nil || own.Instance != "", "get of instance \"\": %+v %v", own, err)
			rest, err := r.rest.List(ctx)
			errorIf(r, err != nil || len(rest) != 1 || rest[0].Name != "report" || rest[0].Instance != "" || rest[0].Payload != "weekly",
				"list of all others: %+v %v", rest, err)
			return nil
		})
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			was, err := r.nightly.Cancel(ctx)
			again, err2 := r.nightly.Cancel(ctx)
			errorIf(r, !was || again, "cancel: %t, then %t", was, again)
			return errors.Join(err, err2, second(r.nightly.Named("often").Cancel(ctx)))
		})
		time.Sleep(13 * time.Hour)
		r.h.Settle()
		r.mustTurn(func(s *desk, _ *actor.Context) error {
			wrong := len(s.Log) != 15 || s.Log[1] != `tick "report" weekly` || !slices.Contains(s.Log, `tick "nightly" "once" 1 9`)
			errorIf(r, wrong, "%q", s.Log)
			return nil
		})
	})
}

func TestSchedulesOfEachNameAreListedFromOutside(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx, nightly := r.Context(), r.nightly.Of(r.ref)
		hasCode(r, "no actor", second(nightly.List(ctx)), actor.NotFound)
		check(r, r.ref.Create(ctx))
		hasCode(r, "no rule", second(nightly.Set(ctx, actor.Rule{}, 1)), actor.InvalidArgument)
		later := time.Now().Add(time.Hour)
		check(r, second(r.nightly.Named("b").Of(r.ref).Set(ctx, actor.Rule{At: later}, 6)),
			second(r.rest.Named("report").Of(r.ref).Set(ctx, actor.Rule{Every: time.Hour}, "x")))
		list, err := nightly.List(ctx)
		errorIf(r, err != nil || len(list) != 1 || list[0].Instance != "b" || !list[0].Rule.At.Equal(later), "%+v, %v", list, err)
		rest, err := r.rest.Of(r.ref).List(ctx)
		errorIf(r, err != nil || len(rest) != 1 || rest[0].Name != "report", "%+v, %v", rest, err)
		for name, want := range map[string]bool{"b": true, "c": false} {
			one, ok, err := r.nightly.Named(name).Of(r.ref).Get(ctx)
			errorIf(r, err != nil || ok != want || ok && one.Payload != 6, "%s: %+v, %t, %v", name, one, ok, err)
		}
	})
	at := actor.Rule{At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	errorIf(t, fmt.Sprint(at) != "at 2030-01-02T03:04:05Z", "%s", at)
}
