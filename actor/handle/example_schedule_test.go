package handle_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
)

var (
	shops   = actor.NewType[shop]("shop")
	reports = actor.NewSchedule[string](shops, "report")
	printed = actor.NewStream[string](shops, "printed", actor.StreamConfig{})
)

type shop struct{}

func (*shop) report(ctx *actor.Context, what string) error {
	_, err := printed.Append(ctx, what)
	return err
}

func ExampleSchedule() {
	node, stop := open(actor.Define(shops, actor.Spec[shop]{}, actor.OnSchedule(reports, (*shop).report)))
	defer stop()
	ctx, corner := context.Background(), shops.Ref(node, "corner")
	yearly := reports.Named("yearly").Of(corner)
	set := must(yearly.Set(ctx, actor.Rule{Cron: "0 3 1 1 *", Zone: "Europe/Zurich", KeepRuns: 10}, "sales"))
	fmt.Println(set.Instance, set.Rule, set.Rule.Zone, set.Next.After(time.Now()))

	fmt.Println(yearly.Trigger(ctx)) // now, besides its ticks
	for item, err := range printed.Of(corner).Follow(ctx, handle.Position{}) {
		fmt.Println(item.Value, err)
		break
	}
	for _, run := range must(yearly.Runs(ctx)) {
		fmt.Println(run.Run, run.Result, run.Attempt)
	}
	list := must(reports.Of(corner).List(ctx))
	fmt.Println(len(list), list[0].Instance, list[0].LastResult)
	fmt.Println(yearly.Cancel(ctx))
	// Output:
	// yearly 0 3 1 1 * Europe/Zurich true
	// <nil>
	// sales <nil>
	// 1 ok 1
	// 1 yearly ok
	// true <nil>
}
