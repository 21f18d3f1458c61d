package actor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

func TestSchedulesAreSetWithTheirOptions(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	noon := n.now.Add(8 * time.Hour)
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		d.nightly.Set(ctx, actor.Rule{Cron: "0 3 * * *", Zone: "Europe/Zurich", Missed: actor.MissedAll, CatchUp: 10, KeepRuns: 50}, 7)
		d.nightly.Named("often").Set(ctx, actor.Rule{Every: 90 * time.Second, Missed: actor.MissedNone, KeepRuns: -1}, 8)
		d.nightly.Named("once").Set(ctx, actor.Rule{At: noon}, 9)
		d.rest.Named("report").Set(ctx, actor.Rule{Every: time.Hour}, "weekly")
		if tick := ctx.Tick(); tick != (actor.Tick{}) {
			return fmt.Errorf("an action is a run of %v", tick)
		}
		return nil
	})
	set := n.actors["desk/a"].holding.listSchedules("")
	if got := fmt.Sprintf("%+v", set[0]); set[0].Cron != "0 3 * * *" || set[0].Zone != "Europe/Zurich" || set[0].Missed != host.MissedAll ||
		set[0].CatchUp != 10 || set[0].KeepRuns != 50 || set[0].Every != 0 || set[0].At != nil {
		t.Error(got)
	}
	if set[1].Every != 90_000 || set[1].Missed != host.MissedNone || set[1].KeepRuns != -1 || set[1].Instance != "often" {
		t.Errorf("%+v", set[1])
	}
	if set[2].At == nil || !set[2].At.Equal(noon) || set[2].Instance != "once" || set[3].Name != "report" || set[3].Instance != "" {
		t.Errorf("%+v %+v", set[2], set[3])
	}
	look := func(ctx actor.Reader) error {
		list, err := d.nightly.List(ctx)
		if err != nil || len(list) != 3 || list[0].Payload != 7 || list[0].Rule.Cron != "0 3 * * *" || list[0].Rule.Zone != "Europe/Zurich" {
			return fmt.Errorf("list: %+v %w", list, err)
		}
		one, ok, err := d.nightly.Named("often").Get(ctx)
		if err != nil || !ok || one.Payload != 8 || one.Rule.Every != 90*time.Second || one.Rule.Missed != actor.MissedNone {
			return fmt.Errorf("get: %+v %t %w", one, ok, err)
		}
		if _, ok, err := d.nightly.Named("never").Get(ctx); ok || err != nil {
			return fmt.Errorf("get of one that is not set: %t %w", ok, err)
		}
		if own, ok, err := d.nightly.Get(ctx); !ok || err != nil || own.Instance != "" {
			return fmt.Errorf("get of instance \"\": %+v %w", own, err)
		}
		rest, err := d.rest.List(ctx)
		if err != nil || len(rest) != 1 || rest[0].Name != "report" || rest[0].Payload != "weekly" {
			return fmt.Errorf("list of all others: %+v %w", rest, err)
		}
		return nil
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error { return look(ctx) })
	d.read = func(ctx *actor.ReadContext) error { return look(ctx) }
	if _, err := d.log.Call(t.Context(), d.typ.Ref(n, "a"), actor.None{}); err != nil {
		t.Error(err)
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		was, err := d.nightly.Cancel(ctx)
		again, err2 := d.nightly.Cancel(ctx)
		if !was || again || err != nil || err2 != nil {
			return fmt.Errorf("cancel: %t %t %v %v", was, again, err, err2)
		}
		return nil
	})
}

func TestScheduleHandlerSeesItsTick(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		d.nightly.Named("x").Set(ctx, actor.Rule{Every: time.Hour}, 8)
		return d.rest.Named("report").Set(ctx, actor.Rule{Every: time.Hour}, "weekly")
	})
	at := host.Address{Type: "desk", Key: []string{"a"}}
	for _, tick := range []host.Tick{{Name: "nightly", Instance: "x", Run: 3}, {Name: "report", Run: 1}} {
		if err := n.tick(t.Context(), at, tick); err != nil {
			t.Fatal(err)
		}
	}
	d.logged(t, n, `tick "nightly" "x" 3 8`, `tick "report" weekly`)
}

func TestWrongSchedulesAreRefused(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	for want, set := range map[string]func(*actor.Context) error{
		"at least 1s":    func(ctx *actor.Context) error { return d.nightly.Set(ctx, actor.Rule{Every: time.Millisecond}, 1) },
		"interval -1s":   func(ctx *actor.Context) error { return d.nightly.Set(ctx, actor.Rule{Every: -time.Second}, 1) },
		"with Named":     func(ctx *actor.Context) error { return d.rest.Set(ctx, actor.Rule{Every: time.Hour}, "x") },
		"a letter, then": func(ctx *actor.Context) error { return d.rest.Named("a.b").Set(ctx, actor.Rule{Every: time.Hour}, "x") },
		"declared by itse": func(ctx *actor.Context) error {
			return d.rest.Named("nightly").Set(ctx, actor.Rule{Every: time.Hour}, "x")
		},
	} {
		err := d.run(t, n, func(_ *desk, ctx *actor.Context) error { set(ctx); return nil })
		if actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	ref := d.typ.Ref(n, "a")
	if _, err := d.nightly.Of(ref).Set(t.Context(), actor.Rule{Every: time.Hour, Zone: "UTC"}, 1); actor.CodeOf(err) != actor.InvalidArgument {
		t.Errorf("a zone without a cron rule: %v", err)
	}
	if _, err := d.nightly.Of(ref).Set(t.Context(), actor.Rule{}, 1); actor.CodeOf(err) != actor.InvalidArgument {
		t.Errorf("no rule: %v", err)
	}
}

func TestSchedulesAreOperatedFromOutside(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	d.mustRun(t, n, func(*desk, *actor.Context) error { return nil })
	set, err := d.nightly.Of(ref).Set(ctx, actor.Rule{Cron: "@daily", Zone: "Europe/Zurich"}, 5)
	if err != nil || set.Payload != 5 || set.Rule.Cron != "@daily" || set.Rule.Zone != "Europe/Zurich" ||
		!set.Next.Equal(n.now.Add(time.Hour)) {
		t.Errorf("%+v, %v", set, err)
	}
	if _, err := d.nightly.Named("b").Of(ref).Set(ctx, actor.Rule{At: n.now}, 6); err != nil {
		t.Error(err)
	}
	list, err := d.nightly.Of(ref).List(ctx)
	if err != nil || len(list) != 2 || list[1].Instance != "b" || list[1].Rule.String() != "at 2001-01-02T03:04:05.000000006Z" {
		t.Errorf("%+v, %v", list, err)
	}
	if one, ok, err := d.nightly.Of(ref).Get(ctx); err != nil || !ok || one.Payload != 5 {
		t.Errorf("%+v, %t, %v", one, ok, err)
	}
	if _, ok, err := d.nightly.Named("c").Of(ref).Get(ctx); err != nil || ok {
		t.Errorf("%t, %v", ok, err)
	}
	for range 2 {
		if err := d.nightly.Of(ref).Trigger(ctx); err != nil {
			t.Error(err)
		}
	}
	runs, err := d.nightly.Of(ref).Runs(ctx)
	if err != nil || !slices.EqualFunc(runs, []uint64{2, 1}, func(r handle.ScheduleRun, n uint64) bool { return r.Run == n }) {
		t.Errorf("%+v, %v", runs, err)
	}
	for _, want := range []bool{true, false} {
		if was, err := d.nightly.Of(ref).Cancel(ctx); was != want || err != nil {
			t.Errorf("%t, %v", was, err)
		}
	}
	if _, err := d.nightly.Of(d.typ.Ref(n, "nobody")).List(ctx); actor.CodeOf(err) != actor.NotFound {
		t.Error(err)
	}
}

func TestRulesReadWell(t *testing.T) {
	for want, rule := range map[string]actor.Rule{
		"0 3 * * *":               actor.Rule{Cron: "0 3 * * *"},
		"every 1m30s":             actor.Rule{Every: 90 * time.Second},
		"at 2030-01-02T03:04:05Z": actor.Rule{At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)},
	} {
		if got := rule.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
