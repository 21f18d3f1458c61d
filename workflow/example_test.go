package workflow_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// exampleTB replaces the *testing.T of a test.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                   {}
func (exampleTB) Cleanup(func())            {}
func (exampleTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (exampleTB) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

var t = exampleTB{}

type order struct {
	Item   string
	Amount int
}

// An order: steps that are done are undone if a later one fails.
func Example() {
	buy := workflow.NewFunction("buy", func(ctx workflow.Context, o order) (string, error) {
		return workflow.Saga(ctx, "checkout", func(ctx workflow.Context) (string, error) {
			reservation, err := workflow.Compensated(ctx, "reserve",
				func(*workflow.StepCtx) (string, error) { fmt.Println("reserve", o.Item); return "R1", nil },
				func(_ *workflow.StepCtx, r string) error { fmt.Println("release", r); return nil })
			if err != nil {
				return "", err
			}
			err = workflow.Do(ctx, "charge", func(*workflow.StepCtx) error {
				if o.Amount > 100 {
					return workflow.Permanent(errors.New("card declined"))
				}
				fmt.Println("charge", o.Amount)
				return nil
			})
			return reservation, err
		})
	})

	fmt.Println(workflowtest.New(t, buy).Start(order{"teapot", 40}).Result())
	_, err := workflowtest.New(t, buy).Start(order{"samovar", 400}).Result()
	fmt.Println(err)
	// Output:
	// reserve teapot
	// charge 40
	// R1 <nil>
	// reserve samovar
	// release R1
	// step "charge" failed: card declined
}

// A body is executed again until it succeeds, here with waits of 1 and 2 seconds in between. The
// idempotency key stays the same, so a service that the body calls can recognize a repetition.
func ExampleStep() {
	d := workflow.NewFunction("import", func(ctx workflow.Context, _ struct{}) (int, error) {
		return workflow.Step(ctx, "fetch", func(sc *workflow.StepCtx) (int, error) {
			fmt.Println("attempt", sc.Attempt())
			if sc.Attempt() < 3 {
				return 0, errors.New("unavailable")
			}
			return 42, nil
		}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 5, Initial: time.Second, Jitter: -1}))
	})
	env := workflowtest.New(t, d).Start(struct{}{})
	begun := env.Now()
	fmt.Println(env.Result())
	fmt.Println(env.Now().Sub(begun))
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
	// 42 <nil>
	// 3s
}

// A wait for an approval, with a reminder each day, for three days at most.
func ExampleReceive() {
	type decision struct{ Approved bool }
	decisions := workflow.Inbox[decision]{Name: "decisions"}
	d := workflow.NewFunction("approval", func(ctx workflow.Context, _ struct{}) (string, error) {
		return workflow.Loop(ctx, "days", 0, func(it *workflow.Iter[int, string]) error {
			m, err := workflow.Receive(it, "decision", decisions, workflow.Within(24*time.Hour))
			switch {
			case errors.Is(err, workflow.ErrTimeout) && it.Iteration() == 2:
				return it.Break("expired")
			case errors.Is(err, workflow.ErrTimeout):
				return workflow.Do(it, "remind", func(*workflow.StepCtx) error { fmt.Println("reminder"); return nil })
			case err != nil:
				return err
			case m.Body.Approved:
				return it.Break("approved")
			}
			return it.Break("refused")
		})
	})
	env := workflowtest.New(t, d).Start(struct{}{})
	env.Advance(30 * time.Hour)
	env.Send("decisions", decision{Approved: true})
	fmt.Println(env.Result())
	fmt.Println(workflowtest.New(t, d).Start(struct{}{}).Result())
	// Output:
	// reminder
	// approved <nil>
	// reminder
	// reminder
	// expired <nil>
}

// The changes of an Update and its result are one transaction: here a stock that never goes below
// zero, even with crashes.
func ExampleUpdate() {
	type stock struct{ Teapots int }
	d := workflow.NewFunction("sell", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Update(ctx, "take", func(tx *workflow.Tx) (int, error) {
			s := tx.Host().(*stock)
			s.Teapots -= n
			if s.Teapots < 0 {
				return 0, errors.New("sold out") // and nothing is changed
			}
			return s.Teapots, nil
		})
	})
	env := workflowtest.New(t, d, workflowtest.WithState(func() *stock { return &stock{Teapots: 2} }))
	_, err := env.Start(3).Result()
	fmt.Println(err)
	fmt.Println(workflowtest.StateOf[stock](env.Actor).Teapots)
	// Output:
	// step "take" failed: sold out
	// 2
}

// Branches run concurrently.
func ExampleJoin() {
	d := workflow.NewFunction("profile", func(ctx workflow.Context, user string) (string, error) {
		var name string
		var orders int
		err := workflow.Join(ctx, "load",
			workflow.B("name", &name, func(ctx workflow.Context) (string, error) {
				return workflow.Step(ctx, "get", func(*workflow.StepCtx) (string, error) { return "Ada", nil })
			}),
			workflow.B("orders", &orders, func(ctx workflow.Context) (int, error) {
				return workflow.Step(ctx, "count", func(*workflow.StepCtx) (int, error) { return 3, nil })
			}))
		return fmt.Sprintf("%s has %d orders", name, orders), err
	})
	fmt.Println(workflowtest.New(t, d).Start("ada").Result())
	// Output: Ada has 3 orders <nil>
}

// The first result counts. The losing branches are canceled, and their steps are undone.
func ExampleRace() {
	d := workflow.NewFunction("quote", func(ctx workflow.Context, _ struct{}) (string, error) {
		who, price, err := workflow.Race(ctx, "offers",
			workflow.C("slow", func(ctx workflow.Context) (int, error) { return 90, workflow.Sleep(ctx, "think", time.Hour) }),
			workflow.C("quick", func(ctx workflow.Context) (int, error) { return 100, workflow.Sleep(ctx, "think", time.Minute) }))
		return fmt.Sprint(who, " ", price), err
	})
	fmt.Println(workflowtest.New(t, d).Start(struct{}{}).Result())
	// Output: quick 100 <nil>
}

func ExampleForEach() {
	d := workflow.NewFunction("thumbnails", func(ctx workflow.Context, files []string) ([]int, error) {
		return workflow.ForEach(ctx, "resize", files, func(ctx workflow.Context, _ int, file string) (int, error) {
			return workflow.Step(ctx, "resize", func(*workflow.StepCtx) (int, error) { return len(file), nil })
		}, workflow.Concurrency(10))
	})
	fmt.Println(workflowtest.New(t, d).Start([]string{"a.png", "beach.png"}).Result())
	// Output: [5 9] <nil>
}

// A child in another actor has a history of its own.
func ExampleSpawn() {
	child := workflow.NewFunction("greet", func(_ workflow.Context, name string) (string, error) { return "hello " + name, nil })
	d := workflow.NewFunction("parent", func(ctx workflow.Context, name string) (string, error) {
		c, err := workflow.Spawn(ctx, "greeting", child, name, workflow.OnActor(workflow.Destination{Type: "greeter", Key: []string{name}}))
		if err != nil {
			return "", err
		}
		return c.Result(ctx)
	})
	fmt.Println(workflowtest.New(t, d, workflowtest.WithPrograms(child.Program())).Start("Ada").Result())
	// Output: hello Ada <nil>
}

// A change of the code that existing runs do not follow, because they have gone past the place.
func ExamplePatched() {
	define := func(patched bool) *workflow.Function[struct{}, string] {
		return workflow.NewFunction("ship", func(ctx workflow.Context, _ struct{}) (string, error) {
			out := ""
			say := func(name string) {
				s, _ := workflow.Step(ctx, name, func(*workflow.StepCtx) (string, error) { return name + " ", nil })
				out += s
			}
			say("pack")
			if patched && workflow.Patched(ctx, "insurance") {
				say("insure")
			}
			say("label")
			_ = workflow.Sleep(ctx, "night", 12*time.Hour)
			say("send")
			return out, nil
		})
	}
	old := workflowtest.New(t, define(false)).Start(struct{}{})
	old.Reach("night")
	old.Deploy(define(true).Program())
	fmt.Println(old.Result())
	fmt.Println(workflowtest.New(t, define(true)).Start(struct{}{}).Result())
	// Output:
	// pack label send  <nil>
	// pack insure label send  <nil>
}

// A run that goes on for ever keeps its history short.
func ExampleLoop() {
	d := workflow.NewFunction("nightly", func(ctx workflow.Context, nights int) (int, error) {
		return workflow.Loop(ctx, "nights", 0, func(it *workflow.Iter[int, int]) error {
			if it.Iteration() == nights {
				return it.Break(it.State)
			}
			n, err := workflow.Step(it, "report", func(*workflow.StepCtx) (int, error) { return 10, nil })
			if err != nil {
				return err
			}
			it.State += n
			return workflow.Sleep(it, "day", 24*time.Hour)
		})
	})
	env := workflowtest.New(t, d).Start(1000)
	fmt.Println(env.Result())
	fmt.Println(env.Status().Entries < 50)
	// Output:
	// 10000 <nil>
	// true
}
