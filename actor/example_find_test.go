package actor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
)

type shop struct{}

type booking struct {
	Plan string
	Paid time.Time
}

var (
	shops    = actor.NewType[shop]("shop")
	tier     = actor.NewAttribute[string](shops, "tier")
	paid     = actor.NewAttribute[time.Time](shops, "paid")
	seats    = actor.NewAttribute[int](shops, "seats")
	trial    = actor.NewAttribute[bool](shops, "trial")
	book     = actor.NewAction[booking, bool](shops, "book")
	describe = actor.NewQuery[actor.None, string](shops, "describe")
)

func (*shop) book(ctx *actor.Context, o booking) (bool, error) {
	_, old, err := tier.Get(ctx)
	if err != nil {
		return false, err
	}
	_ = paid.Set(ctx, o.Paid) // an error fails the turn
	_ = seats.Set(ctx, len(ctx.Key()[0]))
	_ = trial.Set(ctx, o.Plan == "free")
	if o.Plan == "" {
		return tier.Clear(ctx)
	}
	return old, tier.Set(ctx, o.Plan)
}

func (shop) describe(ctx *actor.ReadContext, _ actor.None) (string, error) {
	p, has, err := tier.Get(ctx)
	at, _, _ := paid.Get(ctx)
	free, _, _ := trial.Get(ctx)
	return fmt.Sprintf("%q %v, paid %s, trial %v", p, has, at.Format(time.DateOnly), free), err
}

func ExampleNewAttribute() {
	node, stop := open(actor.Define(shops, actor.Spec[shop]{},
		actor.On(book, (*shop).book), actor.OnQuery(describe, shop.describe)))
	defer stop()
	ctx := context.Background()
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	for i, key := range []string{"ada", "bob", "cleo", "dan"} {
		p := []string{"free", "pro"}[i%2]
		must(book.Call(ctx, shops.Ref(node, key), booking{p, day.AddDate(0, i, 0)}))
	}
	for _, q := range []handle.FindQuery{
		{Where: []string{tier.Is("pro")}},
		{Where: []string{trial.Is(true), "paid>2026-02-01"}},
		{Where: []string{paid.Is(day), seats.Is(3)}, Prefix: []string{"ada"}},
		{Sort: "-seats"},
		{Where: []string{"state=awake"}, Sort: "key"},
	} {
		var found []string
		for ref, err := range shops.Find(ctx, node, q) {
			if err != nil {
				panic(err)
			}
			found = append(found, ref.Key()...)
		}
		fmt.Println(found)
	}
	fmt.Println(must(book.Call(ctx, shops.Ref(node, "ada"), booking{})), must(describe.Call(ctx, shops.Ref(node, "ada"), actor.None{})))
	fmt.Println(must(describe.Call(ctx, shops.Ref(node, "dan"), actor.None{})))
	for _, err := range shops.Find(ctx, node, handle.FindQuery{Where: []string{"tier~pro"}}) {
		fmt.Println(err)
	}
	// Output:
	// [bob dan]
	// [cleo]
	// [ada]
	// [cleo dan bob ada]
	// [ada bob cleo dan]
	// true "" false, paid 0001-01-01, trial false
	// "pro" true, paid 2026-05-01, trial false
	// invalid_argument: condition "tier~pro": want a field, one of = != < <= > >=, and a value
}
