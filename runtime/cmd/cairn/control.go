package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A verb is an operation on one actor or on many.
type verb struct {
	name string
	// done is the participle: "paused". undone says of an actor that there was nothing to do: "was
	// not paused".
	done, undone string
	// field names the participle in JSON.
	field string
	// grave verbs ask for consent even for one actor.
	grave bool
	// do does it and reports whether there was something to do. It must not fail because another
	// attempt did it.
	do func(ctx context.Context, t *target) (bool, error)
}

// called returns a function that does a verb by calling a method. If the output is a count, it says
// whether there was something to do.
func called[In, Out any](m method.Typed[In, Out], in *In) func(context.Context, *target) (bool, error) {
	return func(ctx context.Context, t *target) (bool, error) {
		out, err := ask(ctx, t, m, in, askOptions{})
		n, counts := any(out).(host.CountOutput)
		return !counts || n.Count > 0, err
	}
}

func (c *cli) pauseCommand() *cobra.Command {
	var in host.PauseInput
	cmd := c.verbCommand(verb{name: "pause", done: "paused", field: "paused", do: called(method.ActorPause, &in)})
	cmd.Flags().StringVar(&in.Reason, "reason", "", "the reason, which status shows; at most 1,024 bytes")
	return cmd
}

func (c *cli) resumeCommand() *cobra.Command {
	return c.verbCommand(verb{name: "resume", done: "resumed", field: "resumed",
		undone: "was not paused", do: called(method.ActorResume, nil)})
}

func (c *cli) wakeCommand() *cobra.Command {
	return c.verbCommand(verb{name: "wake", done: "woke", field: "woken", do: called(method.ActorWake, nil)})
}

func (c *cli) sleepCommand() *cobra.Command {
	return c.verbCommand(verb{name: "sleep", done: "put to sleep", field: "asleep", do: called(method.ActorSleep, nil)})
}

func (c *cli) retryCommand() *cobra.Command {
	return c.verbCommand(verb{name: "retry", done: "retried", field: "retried",
		undone: "had not failed", do: called(method.ActorRetry, nil)})
}
