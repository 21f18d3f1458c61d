package workflow_test

import (
	"fmt"
	"time"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// New code under a run that exists: a step has another name, one is gone, and a third version of
// the greeting holds for new runs only.
func ExampleVersion() {
	say := func(ctx workflow.Context, name, text string) string {
		s, _ := workflow.Step(ctx, name, func(*workflow.StepCtx) (string, error) { return text + " ", nil })
		return s
	}
	first := workflow.NewFunction("welcome", func(ctx workflow.Context, _ struct{}) (string, error) {
		out := say(ctx, "greet", "hello") + say(ctx, "fax", "beep")
		_ = workflow.Sleep(ctx, "night", 12*time.Hour)
		return out + say(ctx, "end", "bye"), nil
	})
	second := workflow.NewFunction("welcome", func(ctx workflow.Context, _ struct{}) (string, error) {
		workflow.Renamed(ctx, "greet", "greeting")
		text := []string{"hello", "hi", "welcome"}[workflow.Version(ctx, "text", 3)-1]
		out := say(ctx, "greeting", text)
		workflow.Removed(ctx, "fax", workflow.KindStep)
		_ = workflow.Sleep(ctx, "night", 12*time.Hour)
		return out + say(ctx, "end", "bye"), nil
	})
	old := workflowtest.New(t, first).Start(struct{}{})
	old.Reach("night")
	old.Deploy(second.Program())
	fmt.Println(old.Result())
	fmt.Println(workflowtest.New(t, second).Start(struct{}{}).Result())
	// Output:
	// hello bye  <nil>
	// welcome bye  <nil>
}

// The kinds of operations, as the history of a run shows them.
func ExampleKind() {
	kinds := []workflow.Kind{
		workflow.KindStep, workflow.KindLoop, workflow.KindSleep, workflow.KindJoin, workflow.KindRace, workflow.KindVersion,
		workflow.KindReceive, workflow.KindForEach, workflow.KindSaga, workflow.KindScope, workflow.KindAwait, workflow.KindSpawn,
	}
	fmt.Println(kinds)
	// Output: [step loop sleep join race version receive foreach saga scope await spawn]
}
