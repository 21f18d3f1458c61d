package workflow_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// A branch that fails cancels the others.
func ExampleJoinFast() {
	d := workflow.NewFunction("load", func(ctx workflow.Context, _ struct{}) (string, error) {
		var slow string
		err := workflow.JoinFast(ctx, "both",
			workflow.B("slow", &slow, func(ctx workflow.Context) (string, error) {
				err := workflow.Sleep(ctx, "night", 12*time.Hour)
				var c *workflow.CanceledError
				fmt.Println("slow:", errors.As(err, &c), errors.Is(ctx.Err(), workflow.ErrCanceled))
				return "", err
			}),
			workflow.B[int]("broken", nil, func(ctx workflow.Context) (int, error) { return 0, errors.New("no such user") }))
		var join *workflow.JoinError
		var first *workflow.BranchError
		if errors.As(err, &join) && errors.As(join.First(), &first) {
			return first.Branch + ": " + first.Err.Error(), nil
		}
		return slow, err
	})
	fmt.Println(workflowtest.New(t, d).Start(struct{}{}).Result())
	// Output:
	// slow: true true
	// broken: no such user <nil>
}

// Up to MaxBranches branches fit into one ForEach. A race without a winner returns the reasons.
func ExampleRaceError() {
	d := workflow.NewFunction("bids", func(ctx workflow.Context, _ struct{}) (string, error) {
		none := func(workflow.Context) (int, error) { return 0, errors.New("no bid") }
		_, _, err := workflow.Race(ctx, "auction", workflow.C("north", none), workflow.C("south", none))
		var race *workflow.RaceError
		if !errors.As(err, &race) {
			return "", err
		}
		return fmt.Sprintf("%s: %d of at most %d lost", race.Name, len(race.Failed), workflow.MaxBranches), nil
	})
	fmt.Println(workflowtest.New(t, d).Start(struct{}{}).Result())
	// Output: auction: 2 of at most 10000 lost <nil>
}

// A part of a run that the run itself ends, with cleanup in a detached scope.
func ExampleWithCancel() {
	d := workflow.NewFunction("search", func(ctx workflow.Context, _ struct{}) (string, error) {
		return workflow.Scope(ctx, "search", func(ctx workflow.Context) (string, error) {
			part, stop := workflow.WithCancel(ctx)
			f, err := workflow.Begin(part, "scan", func(sc *workflow.StepCtx) (int, error) {
				return 0, workflowtest.Block(sc)
			}, workflow.CancelBody())
			if err != nil {
				return "", err
			}
			stop(errors.New("found it elsewhere"))
			_, err = f.Get(ctx)
			var c *workflow.CanceledError
			if !errors.As(err, &c) {
				return "", err
			}
			_, err = workflow.Step(workflow.Detach(part), "clean", func(*workflow.StepCtx) (bool, error) { return true, nil })
			return "canceled: " + c.Cause.Error(), err
		})
	})
	fmt.Println(workflowtest.New(t, d).Start(struct{}{}).Result())
	// Output: canceled: found it elsewhere <nil>
}

// The history keeps the last 2 of the iterations, and drops older ones ten at a time.
func ExampleKeep() {
	d := workflow.NewFunction("count", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Loop(ctx, "loop", 0, func(it *workflow.Iter[int, int]) error {
			if it.State == n {
				return it.Break(it.State)
			}
			it.State++
			return workflow.Sleep(it, "wait", time.Minute)
		}, workflow.Keep(2), workflow.TrimEvery(10))
	})
	env := workflowtest.New(t, d).Start(100)
	fmt.Println(env.Result())
	fmt.Println(env.Entry("loop~*/wait").Kind == workflow.KindSleep, env.Status().Entries < 20)
	// Output:
	// 100 <nil>
	// true true
}

// A run that lasts for years starts anew each month, with nothing but the balance.
func ExampleRestart() {
	old := func(info workflow.Info) bool { return info.Epoch == 12 }
	d := workflow.NewFunction("account", func(ctx workflow.Context, balance int) (int, error) {
		if old(ctx.Info()) {
			return balance, nil
		}
		if err := workflow.Sleep(ctx, "month", 30*24*time.Hour); err != nil {
			return 0, err
		}
		return 0, workflow.Restart(ctx, balance+1)
	})
	fmt.Println(workflowtest.New(t, d).Start(100).Result())
	// Output: 112 <nil>
}

// The scope that spawned a child decides whether it ends with the scope.
func ExampleOnParentClose() {
	type none struct{}
	letters := workflow.Inbox[string]{Name: "letters"}
	child := workflow.NewFunction("clerk", func(ctx workflow.Context, _ none) (none, error) {
		_, err := workflow.Receive(ctx, "letter", letters)
		return none{}, err
	})
	policies := []workflow.ParentClose{workflow.CloseAbandon, workflow.CloseCancel, workflow.CloseTerminate}
	for _, policy := range policies {
		d := workflow.NewFunction("office", func(ctx workflow.Context, _ none) (none, error) {
			_, err := workflow.Spawn(ctx, "clerk", child, none{},
				workflow.OnActor(workflow.Destination{Type: "clerk", Key: []string{"1"}}), workflow.OnParentClose(policy))
			if err != nil {
				return none{}, err
			}
			return none{}, workflow.Sleep(ctx, "day", time.Hour)
		})
		env := workflowtest.New(t, d, workflowtest.WithPrograms(child.Program())).Start(none{})
		env.Wait()
		env.Settle()
		fmt.Println(env.At(workflow.Destination{Type: "clerk", Key: []string{"1"}}).Status().State)
	}
	// Output:
	// waiting
	// cancelled
	// terminated
}
