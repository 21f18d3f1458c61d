package guides_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
)

var (
	Tenants = actor.NewType[Tenant]("tenant")
	Plan    = actor.NewAttribute[string](Tenants, "plan")
	Paid    = actor.NewAttribute[time.Time](Tenants, "paid")
	Pay     = actor.NewAction[string, actor.None](Tenants, "pay")
)

type Tenant struct{ Payments int }

func (t *Tenant) pay(ctx *actor.Context, plan string) (actor.None, error) {
	t.Payments++
	_ = Paid.Set(ctx, ctx.Now()) // an error fails the turn
	return actor.None{}, Plan.Set(ctx, plan)
}

func dunning(ctx context.Context, node actor.Node) error {
	for tenant, err := range Tenants.Find(ctx, node, handle.FindQuery{Where: []string{Plan.Is("pro"), "paid<2026-01-31"}}) {
		if err != nil {
			return err
		}
		fmt.Println(tenant.Key())
	}
	return nil
}

func TestTenantsAreFoundByPlan(t *testing.T) {
	d := actor.Define(Tenants, actor.Spec[Tenant]{}, actor.On(Pay, (*Tenant).pay))
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		for key, plan := range map[string]string{"a": "pro", "b": "free"} {
			if _, err := Pay.Call(t.Context(), Tenants.Ref(h, key), plan); err != nil {
				t.Fatal(err)
			}
		}
		if err := dunning(t.Context(), h); err != nil {
			t.Error(err)
		}
		for tenant, err := range Tenants.Find(t.Context(), h, handle.FindQuery{Sort: "-plan"}) {
			if err != nil || tenant.Key()[0] != "a" {
				t.Errorf("%v %v", tenant.Key(), err)
			}
			break
		}
	}, d)
}
