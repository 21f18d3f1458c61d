package actor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
)

// A clerk files letters in named queues, plans reports, and keeps a diary in streams by season.
var (
	clerks  = actor.NewType[clerk]("clerk")
	work    = actor.NewAction[string, string](clerks, "work")
	plan    = actor.NewAction[actor.None, []string](clerks, "plan")
	write   = actor.NewAction[string, actor.None](clerks, "write")
	read    = actor.NewQuery[string, []string](clerks, "read")
	inbox   = actor.NewQueue[string](clerks, "*", actor.QueueConfig{})
	reports = actor.NewSchedule[string](clerks, "report")
	diary   = actor.NewStream[string](clerks, "*", actor.StreamConfig{})
)

type clerk struct{}

func (*clerk) work(ctx *actor.Context, other string) (string, error) {
	inbox.Named("paper").PutAll(ctx, []string{"a", "b"}, actor.Delay(time.Hour), actor.MessageTTL(24*time.Hour))
	inbox.Named("paper").Post(ctx, clerks.Ref(ctx, other), "c")
	inbox.Named("paper").PostAll(ctx, clerks.Ref(ctx, other), []string{"d", "e"})
	stats, err := inbox.Named("paper").Stats(ctx)
	return fmt.Sprint(stats.Delayed, " of ", stats.Sent, " wait"), err
}

func (*clerk) file(ctx *actor.Context, text string) error {
	_, err := diary.Named("mail").Append(ctx, ctx.Message().Queue+" "+text)
	return err
}

func (*clerk) plan(ctx *actor.Context, _ actor.None) ([]string, error) {
	for name, missed := range map[string]actor.Missed{"all": actor.MissedAll, "once": actor.MissedOnce, "none": actor.MissedNone} {
		reports.Named(name).Set(ctx, actor.Rule{Every: time.Hour, Missed: missed}, "sales")
	}
	if _, err := reports.Named("none").Cancel(ctx); err != nil {
		return nil, err
	}
	_, found, err := reports.Named("none").Get(ctx)
	out := []string{fmt.Sprint("none is set: ", found)}
	if err != nil {
		return nil, err
	}
	set, err := reports.List(ctx)
	for _, s := range set {
		out = append(out, fmt.Sprint(s.Instance, " ", s.Rule, ", missed: ", s.Rule.Missed))
	}
	return out, err
}

func (*clerk) report(*actor.Context, string) error { return nil }

func (*clerk) write(ctx *actor.Context, season string) (actor.None, error) {
	return actor.None{}, ctx.Go("writer", func(t *actor.Task) error { // goes on beside the turns
		t.Log().Info("writing", "id", t.ID())
		_, err := diary.Named(season).Append(t, fmt.Sprint(t.Type(), t.Key(), " wrote"))
		return err
	})
}

func (clerk) read(ctx *actor.ReadContext, season string) ([]string, error) {
	info, err := diary.Named(season).Info(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{fmt.Sprint(info.First, " to ", info.Last)}
	for item, err := range diary.Named(season).Range(ctx, 0) {
		if err != nil {
			return nil, err
		}
		out = append(out, item.Value)
	}
	return out, nil
}

func Example_named() {
	node, stop := open(actor.Define(clerks, actor.Spec[clerk]{}, actor.On(work, (*clerk).work), actor.On(plan, (*clerk).plan),
		actor.On(write, (*clerk).write), actor.OnQuery(read, clerk.read), actor.OnMessage(inbox, (*clerk).file),
		actor.OnSchedule(reports, (*clerk).report)))
	defer stop()
	ctx, ada, bob := context.Background(), clerks.Ref(node, "ada"), clerks.Ref(node, "bob")
	fmt.Println(must(work.Call(ctx, ada, "bob")))
	must(write.Call(ctx, bob, "spring"))
	for item, err := range diary.Named("mail").Of(bob).Follow(ctx, handle.Position{}) {
		fmt.Println(item.Value, err)
		if item.Sequence == 3 {
			break
		}
	}
	for item, err := range diary.Named("spring").Of(bob).Follow(ctx, handle.Position{}) {
		fmt.Println(item.Value, err)
		break
	}
	fmt.Println(must(read.Call(ctx, bob, "mail")))
	for _, line := range must(plan.Call(ctx, ada, actor.None{})) {
		fmt.Println(line)
	}
	for dead, err := range ada.DeadLetters().List(ctx) { // none: both were delivered
		fmt.Println(dead.Method, err)
	}
	// Output:
	// 2 of 2 wait
	// paper c <nil>
	// paper d <nil>
	// paper e <nil>
	// clerk[bob] wrote <nil>
	// [1 to 3 paper c paper d paper e]
	// none is set: false
	// all every 1h0m0s, missed: all
	// once every 1h0m0s, missed: once
}
