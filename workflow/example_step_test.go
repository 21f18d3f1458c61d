package workflow_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// A charge must not run twice. When a crash cuts it off, the step fails, and a person checks
// whether the money moved.
func ExampleAtMostOnce() {
	d := workflow.NewFunction("pay", func(ctx workflow.Context, cents int) (string, error) {
		return workflow.Step(ctx, "charge", func(*workflow.StepCtx) (string, error) { return "receipt", nil },
			workflow.AtMostOnce(), workflow.Sensitive())
	})
	env := workflowtest.New(t, d)
	env.Stub("charge", func(*workflow.StepCtx) (any, error) { env.Crash(); return nil, nil })
	_, err := env.Start(500).Result()
	fmt.Println(errors.Is(err, workflow.ErrOutcomeUnknown), env.Calls("charge"))
	// Output: true 1
}

// A step that continues where its last attempt was cut off.
func ExampleLastProgress() {
	d := workflow.NewFunction("import", func(ctx workflow.Context, rows int) (int, error) {
		return workflow.Step(ctx, "copy", func(sc *workflow.StepCtx) (int, error) {
			done, _ := workflow.LastProgress[int](sc)
			fmt.Println("from row", done)
			for ; done < rows; done++ {
				if err := sc.Progress(done); err != nil {
					return 0, err
				}
				if done == 70 && sc.Attempt() == 1 {
					return 0, workflow.RetryAfter(errors.New("the other side is busy"), time.Minute)
				}
			}
			return done, nil
		})
	})
	fmt.Println(workflowtest.New(t, d).Start(100).Result())
	// Output:
	// from row 0
	// from row 70
	// 100 <nil>
}

// One attempt may take a second, all of them a minute. Here each one hangs.
func ExampleTimeout() {
	limits := workflow.WithStepDefaults(workflow.Timeout(time.Second), workflow.TotalTimeout(time.Minute))
	d := workflow.NewFunction("call", func(ctx workflow.Context, _ struct{}) (string, error) {
		return workflow.Step(ctx, "hang", func(sc *workflow.StepCtx) (string, error) {
			return "", workflowtest.Block(sc)
		}, workflow.FailOnTimeout())
	}, limits)
	env := workflowtest.New(t, d).Start(struct{}{})
	_, err := env.Result()
	fmt.Println(errors.Is(err, workflow.ErrTimeout), env.Calls("hang"))
	// Output: true 1
}

// A run that waits for a person when the attempts of a step are used up, instead of failing.
func ExampleExhaustedPolicy() {
	up := false
	policies := map[string]workflow.ExhaustedPolicy{"critical": workflow.PauseRun, "other": workflow.Fail}
	d := workflow.NewFunction("sync", func(ctx workflow.Context, _ struct{}) (string, error) {
		return workflow.Step(ctx, "push", func(*workflow.StepCtx) (string, error) {
			if !up {
				return "", errors.New("unavailable")
			}
			return "pushed", nil
		}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 2, OnExhausted: policies["critical"]}))
	})
	env := workflowtest.New(t, d).Start(struct{}{})
	fmt.Println(env.Wait().State)
	up = true
	if err := env.Resume(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(env.Result())
	// Output:
	// paused
	// pushed <nil>
}

// Two steps that run at the same time, with a time limit for both.
func ExampleBegin() {
	get := func(what string) func(*workflow.StepCtx) (string, error) {
		return func(*workflow.StepCtx) (string, error) { return what, nil }
	}
	d := workflow.NewFunction("page", func(ctx workflow.Context, _ struct{}) (string, error) {
		head, err := workflow.Begin(ctx, "head", get("head"), workflow.Deferred())
		if err != nil {
			return "", err
		}
		var body *workflow.Future[string]
		if body, err = workflow.Begin(ctx, "body", get("body")); err != nil {
			return "", err
		}
		limit, err := workflow.Timer(ctx, "limit", time.Hour)
		if err != nil {
			return "", err
		}
		h, err := head.Get(ctx)
		if err != nil {
			return "", err
		}
		b, err := body.Get(ctx)
		return fmt.Sprintln(h, b, "in time:", !limit.Done()), err
	})
	out, err := workflowtest.New(t, d).Start(struct{}{}).Result()
	fmt.Print(out, err)
	// Output:
	// head body in time: true
	// <nil>
}
