package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

type declined struct{ Reason string }

func (e *declined) Error() string { return "declined: " + e.Reason }

var errNoStock = errors.New("not in stock")

// Errors of steps and children are stored. Registered types and values are found again, even in a
// replay.
func ExampleWithError() {
	register := []workflow.Option{workflow.WithError[*declined]("declined"), workflow.WithErrorValue("no-stock", errNoStock)}
	pick := workflow.NewFunction("pick", func(workflow.Context, string) (int, error) { return 0, errNoStock }, register...)
	d := workflow.NewFunction("buy", func(ctx workflow.Context, item string) (string, error) {
		err := workflow.Do(ctx, "charge", func(*workflow.StepCtx) error {
			return workflow.Permanent(&declined{"expired card"})
		})
		var step *workflow.StepError
		var why *declined
		if errors.As(err, &step) && errors.As(err, &why) {
			fmt.Println(step.Step, step.Attempts, why.Reason)
		}
		c, err := workflow.Spawn(ctx, "pick", pick, item)
		if err != nil {
			return "", err
		}
		_, err = c.Result(ctx)
		var child *workflow.ChildError
		if errors.As(err, &child) {
			fmt.Println(child.Program, errors.Is(err, errNoStock))
		}
		return "", workflow.Do(ctx, "ship", func(*workflow.StepCtx) error { panic("a bug") },
			workflow.Retry(workflow.RetryPolicy{Retryable: func(err error) bool {
				var p *workflow.PanicError
				return !errors.As(err, &p)
			}}))
	}, register...)
	_, err := workflowtest.New(t, d).Start("teapot").Result()
	var stored *workflow.FailureError
	fmt.Println(errors.As(err, &stored))
	fmt.Println(err)
	// Output:
	// charge 1 expired card
	// pick true
	// true
	// step "ship" failed: panic: a bug
}

// The codec decides what can be stored.
func ExampleWithCodec() {
	d := workflow.NewFunction("render", func(ctx workflow.Context, _ struct{}) (string, error) {
		return workflow.Step(ctx, "page", func(sc *workflow.StepCtx) (string, error) {
			var cannot *workflow.CodecError
			if errors.As(sc.Progress(make(chan int)), &cannot) {
				fmt.Println(cannot.Type)
			}
			err := sc.Progress(strings.Repeat("x", 64<<20))
			var large *workflow.TooLargeError
			if errors.As(err, &large) {
				fmt.Println(errors.Is(err, workflow.ErrTooLarge), large.Size > large.Limit)
			}
			return ctx.Info().Version, nil
		})
	}, workflow.WithCodec(jsonCodec{}), workflow.WithVersion("2026-11"))
	fmt.Println(workflowtest.New(t, d).Start(struct{}{}).Result())
	// Output:
	// chan int
	// true true
	// 2026-11 <nil>
}

// jsonCodec stores JSON.
type jsonCodec struct{}

func (jsonCodec) Encode(v any) ([]byte, error)    { return json.Marshal(v) }
func (jsonCodec) Decode(data []byte, v any) error { return json.Unmarshal(data, v) }

var _ workflow.Codec = jsonCodec{}
