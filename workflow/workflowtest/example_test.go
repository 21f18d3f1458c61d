package workflowtest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// inTest replaces the *testing.T of a test.
type inTest struct{ testing.TB }

func (inTest) Helper()                      {}
func (inTest) Cleanup(func())               {}
func (inTest) Failed() bool                 { return false }
func (inTest) Logf(f string, a ...any)      { fmt.Printf(f+"\n", a...) }
func (inTest) Errorf(f string, args ...any) { fmt.Printf(f+"\n", args...) }
func (inTest) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (inTest) Fatalf(f string, a ...any)    { panic(fmt.Sprintf(f, a...)) }

var t = inTest{}

var renewal = workflow.NewFunction("renewal", func(ctx workflow.Context, months int) (string, error) {
	for i := range months {
		if err := workflow.Sleep(ctx, fmt.Sprint("month ", i), 30*24*time.Hour); err != nil {
			return "", err
		}
		err := workflow.Do(ctx, fmt.Sprint("charge ", i), func(*workflow.StepCtx) error { return errors.New("no network in tests") })
		if err != nil {
			return "", err
		}
	}
	return "expired", nil
})

// Bodies are replaced, and months pass at once.
func ExampleNew() {
	env := workflowtest.New(t, renewal)
	env.Stub("charge *", func(*workflow.StepCtx) (any, error) { return nil, nil })
	begun := env.Now()
	fmt.Println(env.Start(12).Result())
	fmt.Println(env.Calls("charge *"), "charges in", env.Now().Sub(begun).Hours()/24, "days")
	// Output:
	// expired <nil>
	// 12 charges in 360 days
}

func ExampleEnv_Reach() {
	env := workflowtest.New(t, renewal).Start(1)
	env.Reach("month 0")
	fmt.Println(env.Status().State, env.Status().Waiting[0].Path)
	if err := env.Cancel("the customer has moved"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(env.Wait().State)
	// Output:
	// sleeping month 0
	// cancelled
}

// This workflow is wrong: its result depends on how often the process has died.
func ExampleCrashEverywhere() {
	d := workflow.NewFunction("count", func(ctx workflow.Context, _ struct{}) (int, error) {
		return workflow.Step(ctx, "work", func(sc *workflow.StepCtx) (int, error) { return sc.Attempt(), nil })
	})
	workflowtest.CrashEverywhere(t, d, func(env *workflowtest.Env[struct{}, int]) { env.Start(struct{}{}).Wait() })
	// Output:
	// when the process died after commit 1 of 2 (test/"main": the run is running), it ends differently:
	//   test/"main": run
	//     without a crash: completed: 1
	//     with it:         completed: 2
}

// A run of the old code is compared with the new code.
func ExampleReplay() {
	define := func(names ...string) *workflow.Function[struct{}, int] {
		return workflow.NewFunction("etl", func(ctx workflow.Context, _ struct{}) (int, error) {
			for _, name := range names {
				if err := workflow.Do(ctx, name, func(*workflow.StepCtx) error { return nil }); err != nil {
					return 0, err
				}
			}
			return len(names), nil
		})
	}
	env := workflowtest.New(t, define("extract", "load")).Start(struct{}{})
	env.Wait()
	workflowtest.Replay(t, define("extract", "load"), env.Export())
	fmt.Println("the same code replays")

	other := workflowtest.New(t, define("extract", "transform", "load")).Start(struct{}{})
	other.Wait()
	fmt.Print(workflowtest.Diff(env.Export(), other.Export()))
	// Output:
	// the same code replays
	// - run of "etl": completed: 2
	// + run of "etl": completed: 3
	// + step "transform" at position 1: completed
	// - step "load" at position 1: completed
	// + step "load" at position 2: completed
}
