package guides_test

import (
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

var (
	Accounts = actor.NewType[Account]("account")
	Open     = actor.NewAction[string, actor.None](Accounts, "open")
	Reports  = actor.NewQuery[actor.None, int](Accounts, "reports")
	Nightly  = actor.NewSchedule[string](Accounts, "nightly")
)

type Account struct{ Reports int }

func (a *Account) open(ctx *actor.Context, zone string) (actor.None, error) {
	err := Nightly.Set(ctx, actor.Rule{Cron: "0 3 * * *", Zone: zone, KeepRuns: 30}, "daily")
	return actor.None{}, err
}

func (a *Account) nightly(ctx *actor.Context, kind string) error {
	ctx.Log().Info("report", "kind", kind, "for", ctx.Tick().Due, "missed", ctx.Tick().Missed)
	a.Reports++
	return nil // the run is done with this commit
}

func (a Account) reports(*actor.ReadContext, actor.None) (int, error) { return a.Reports, nil }

func account() actor.Definition {
	return actor.Define(Accounts, actor.Spec[Account]{},
		actor.On(Open, (*Account).open),
		actor.OnQuery(Reports, Account.reports),
		actor.OnSchedule(Nightly, (*Account).nightly),
	)
}

func TestSchedules(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		acme := Accounts.Ref(h, "acme")
		if _, err := Open.Call(ctx, acme, "Europe/Zurich"); err != nil {
			t.Fatal(err)
		}
		count := func(want int) {
			t.Helper()
			h.Settle()
			if n, err := Reports.Call(ctx, acme, actor.None{}); err != nil || n != want {
				t.Errorf("%d reports, want %d: %v", n, want, err)
			}
		}
		time.Sleep(49 * time.Hour)
		count(2)
		h.Crash()
		count(2)

		set, err := Nightly.Of(acme).Set(ctx, actor.Rule{Every: time.Hour, Missed: actor.MissedAll, CatchUp: 24}, "hourly")
		if err != nil || set.Next.IsZero() {
			t.Fatal(set, err)
		}
		time.Sleep(2*time.Hour + time.Minute)
		count(4)
		if err := Nightly.Of(acme).Trigger(ctx); err != nil {
			t.Error(err)
		}
		count(5)
		runs, err := Nightly.Of(acme).Runs(ctx) // the latest first
		if err != nil || len(runs) == 0 || runs[0].Result != "ok" {
			t.Errorf("%+v %v", runs, err)
		}
		if was, err := Nightly.Of(acme).Cancel(ctx); err != nil || !was {
			t.Error(was, err)
		}
	}, account())
}
