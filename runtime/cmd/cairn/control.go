package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A verb is something that is done to one actor or to many.
type verb struct {
	name, short, long, example string
	// done is the participle: "paused". undone says of an actor that there was nothing to do: "was not paused".
	done, undone string
	// field names the participle in JSON.
	field string
	// grave verbs ask for consent also for one actor.
	grave bool
	// do does it and reports whether there was something to do. It must not fail because another attempt did it.
	do func(ctx context.Context, t *target) (bool, error)
}

// called returns what does a verb by calling a method, whose output says whether there was something to do if it is a count.
func called[In, Out any](m method.Typed[In, Out], in *In) func(context.Context, *target) (bool, error) {
	return func(ctx context.Context, t *target) (bool, error) {
		out, err := ask(ctx, t, m, in, askOptions{})
		n, counts := any(out).(host.CountOutput)
		return !counts || n.Count > 0, err
	}
}

func (c *cli) pauseCommand() *cobra.Command {
	var in host.PauseInput
	cmd := c.verbCommand(verb{
		name: "pause", done: "paused", field: "paused",
		short: "Stop actors until they are resumed",
		long: "pause stops an actor: actions are refused with actor_paused, and messages, alarms and schedules wait. Queries are\n" +
			"still answered, and what it stores can be read with inspect. The pause outlasts restarts of the node.",
		example: "  cairn pause cell/acme --reason 'wrong prices, see ticket 4711'\n" +
			"  cairn pause --type cell --prefix acme/eu --dry-run",
		do: called(method.ActorPause, &in),
	})
	cmd.Flags().StringVar(&in.Reason, "reason", "", "why, for those who wonder; at most 1,024 bytes")
	return cmd
}

func (c *cli) resumeCommand() *cobra.Command {
	return c.verbCommand(verb{
		name: "resume", done: "resumed", field: "resumed", undone: "was not paused",
		short:   "Let paused actors go on",
		long:    "resume ends a pause. What waited meanwhile runs now.",
		example: "  cairn resume cell/acme\n  cairn resume --state paused --yes",
		do:      called(method.ActorResume, &method.None{}),
	})
}

func (c *cli) wakeCommand() *cobra.Command {
	return c.verbCommand(verb{
		name: "wake", done: "woke", field: "woken",
		short: "Load actors into memory",
		long: "wake loads an actor and runs its wake hook, without any other call. It goes to sleep again after its idle time. An\n" +
			"actor that does not exist is not created.",
		example: "  cairn wake cell/acme\n  cairn wake --type cell --prefix acme --concurrency 32 --yes",
		do:      called(method.ActorWake, &method.None{}),
	})
}

func (c *cli) sleepCommand() *cobra.Command {
	return c.verbCommand(verb{
		name: "sleep", done: "put to sleep", field: "asleep",
		short: "Unload actors from memory",
		long: "sleep ends an actor's tasks, runs its sleep hook and unloads it. Its next call, message or alarm wakes it. It is also\n" +
			"how one actor gets a fresh start without a restart of the node.",
		example: "  cairn sleep cell/acme\n  cairn sleep --type cell --state awake --yes",
		do:      called(method.ActorSleep, &method.None{}),
	})
}

func (c *cli) retryCommand() *cobra.Command {
	return c.verbCommand(verb{
		name: "retry", done: "retried", field: "retried", undone: "had not failed",
		short: "Let failed actors be tried again at once",
		long: "retry ends the time that a failed actor rests before it may be woken again. If the cause is still there it fails\n" +
			"once more, and rests again.",
		example: "  cairn retry room/lobby\n  cairn retry --type room --state failed --dry-run",
		do:      called(method.ActorRetry, &method.None{}),
	})
}
