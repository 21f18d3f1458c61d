package workflow_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// A wait for the state of the actor, which its actions change.
func ExampleAwait() {
	type cart struct{ Items int }
	d := workflow.NewFunction("discount", func(ctx workflow.Context, at int) (int, error) {
		return workflow.Await(ctx, "full", func(c *cart) (int, bool) { return c.Items, c.Items >= at })
	})
	env := workflowtest.New(t, d, workflowtest.WithState(func() *cart { return new(cart) })).Start(3)
	env.Settle()
	workflowtest.Change(env.Actor, func(c *cart) { c.Items = 4 })
	fmt.Println(env.Result())
	// Output: 4 <nil>
}

// A message whose sender waits for a reply.
func ExampleReply() {
	questions := workflow.Inbox[int]{Name: "questions"}
	d := workflow.NewFunction("oracle", func(ctx workflow.Context, answers int) (string, error) {
		for i := range answers {
			m, err := workflow.Receive(ctx, fmt.Sprint("question-", i), questions)
			if err != nil {
				return "", err
			}
			_, err = workflow.Update(ctx, fmt.Sprint("answer-", i), func(tx *workflow.Tx) (bool, error) {
				if m.Body < 0 {
					return m.WantReply, workflow.ReplyError(tx, m, errors.New("ask for a positive number"))
				}
				return m.WantReply, workflow.Reply(tx, m, m.Body*m.Body)
			})
			if err != nil {
				return "", err
			}
		}
		return "tired", nil
	})
	env := workflowtest.New(t, d).Start(2)
	good, bad := env.Request("questions", 12), env.Request("questions", -1)
	fmt.Println(env.Result())
	var square int
	answered, err := good.Reply(&square)
	fmt.Println(answered, square, err)
	_, err = bad.Reply(nil)
	fmt.Println(err)
	// Output:
	// tired <nil>
	// true 144 <nil>
	// ask for a positive number
}

// Up to ten messages at once.
func ExampleReceiveBatch() {
	var lines workflow.Source[string] = workflow.Inbox[string]{Name: "lines"}
	d := workflow.NewFunction("write", func(ctx workflow.Context, _ struct{}) (string, error) {
		batch, err := workflow.ReceiveBatch(ctx, "batch", lines, 10)
		out := ""
		for _, m := range batch {
			out += m.Body + " "
		}
		return out, err
	})
	env := workflowtest.New(t, d).Start(struct{}{})
	env.Send("lines", "one")
	env.Send("lines", "two")
	fmt.Println(env.Result())
	// Output: one two  <nil>
}

// The first message of two queues, whose bodies have different types.
func ExampleReceiveAny() {
	read := func(raw workflow.Raw, v any) error { return cbor.Unmarshal(raw, v) }
	d := workflow.NewFunction("desk", func(ctx workflow.Context, _ struct{}) (string, error) {
		m, err := workflow.ReceiveAny(ctx, "next", []string{"calls", "letters"})
		if err != nil {
			return "", err
		}
		if m.Queue == "calls" {
			var number int
			err := read(m.Body, &number)
			return fmt.Sprint("call of ", number), err
		}
		var text string
		err = read(m.Body, &text)
		return "letter: " + text, err
	})
	env := workflowtest.New(t, d).Start(struct{}{})
	env.Send("letters", "hello")
	fmt.Println(env.Result())
	// Output: letter: hello <nil>
}

// A reminder at a fixed time. The run shows what it waits for.
func ExampleSleepUntil() {
	d := workflow.NewFunction("remind", func(ctx workflow.Context, at time.Time) (string, error) {
		workflow.Publish(ctx, "waiting until "+at.Format(time.Kitchen))
		if err := workflow.SleepUntil(ctx, "time", at); err != nil {
			return "", err
		}
		return ctx.Now().Format(time.Kitchen), nil
	})
	env := workflowtest.New(t, d).Start(time.Date(2026, 6, 1, 17, 30, 0, 0, time.UTC))
	env.Settle()
	var shown string
	fmt.Println(env.Published(&shown), shown)
	fmt.Println(env.Result())
	// Output:
	// true waiting until 5:30PM
	// 5:30PM <nil>
}
