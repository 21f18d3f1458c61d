package guides_test

import (
	"fmt"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
)

var (
	Imports = actor.NewType[Import]("import")
	Start   = actor.NewAction[int, actor.None](Imports, "start")
	Done    = actor.NewQuery[actor.None, int](Imports, "done")
	Log     = actor.NewStream[string](Imports, "log", actor.StreamConfig{})
)

type Import struct{ Running, Done int }

func (i *Import) start(ctx *actor.Context, rows int) (actor.None, error) {
	if i.Running > 0 {
		return actor.None{}, actor.Errorf(actor.FailedPrecondition, "an import is running")
	}
	i.Running = rows
	return actor.None{}, ctx.Go("import", func(t *actor.Task) error { // starts when this turn is durable
		for row := range rows {
			if t.Err() != nil {
				return t.Err() // the actor goes to sleep, or the node shuts down
			}
			fetch(row) // slow work, beside the actor's turns
			if _, err := Log.Append(t, fmt.Sprintf("row %d", row)); err != nil {
				return err
			}
		}
		return actor.Enter(t, func(i *Import, _ *actor.Context) error { // a turn of the actor
			i.Done += i.Running
			i.Running = 0
			return nil
		})
	})
}

func (i *Import) wake(*actor.Context) error {
	i.Running = 0 // a task does not survive a crash
	return nil
}

func fetch(int) {}

func (i Import) done(*actor.ReadContext, actor.None) (int, error) { return i.Done, nil }

func imports() actor.Definition {
	return actor.Define(Imports, actor.Spec[Import]{OnWake: (*Import).wake}, actor.On(Start, (*Import).start), actor.OnQuery(Done, Import.done))
}

func TestTasks(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		one := Imports.Ref(h, "one")
		if _, err := Start.Call(ctx, one, 3); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		if n, err := Done.Call(ctx, one, actor.None{}); err != nil || n != 3 {
			t.Errorf("%d rows are done: %v", n, err)
		}
		page, err := Log.Of(one).Read(ctx, handle.Position{}, handle.ReadConfig{})
		if err != nil || len(page.Items) != 3 || page.Items[2].Value != "row 2" {
			t.Errorf("%+v %v", page, err)
		}
	}, imports())
}
