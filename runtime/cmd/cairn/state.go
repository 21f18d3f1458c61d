package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) stateCommand() *cobra.Command {
	get := &cobra.Command{Use: "get TYPE/KEY...", Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, _ []string) error {
			out, err := ask(ctx, t, method.StateGet, new(method.None), askOptions{})
			if err != nil {
				return err
			}
			return c.printState(&out)
		}),
	}
	var version uint64
	set := &cobra.Command{Use: "set TYPE/KEY... JSON|-|@FILE", Args: cobra.ExactArgs(2),
		ValidArgsFunction: c.completeAddress}
	set.Flags().Uint64Var(&version, "version", 0,
		"the version of the state that is replaced, which get shows; 0 if there is none")
	set.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("version"):
			return usagef("--version is missing: cairn state get shows it")
		case c.reason == "":
			return usagef("--reason is missing: say why the state is replaced")
		}
		state, err := c.input(args[1])
		if err != nil {
			return err
		}
		return c.on(func(ctx context.Context, t *target, _ []string) error {
			out, err := ask(ctx, t, method.StateReplace,
				&host.StateReplaceInput{State: state, Version: &version}, askOptions{})
			if err != nil {
				return err
			}
			return c.printState(&out)
		})(cmd, args)
	}
	return group("state", get, set)
}

// printState prints a state, and its version for people.
func (c *cli) printState(out *host.StateOutput) error {
	if c.json {
		return c.printJSON(out)
	}
	if out.Version == 0 {
		c.note("no state is stored: version 0")
		return nil
	}
	printDocument(c.stdout, out.State)
	c.note("version %d", out.Version)
	return nil
}

func (c *cli) alarmCommand() *cobra.Command {
	var instance string
	run := &cobra.Command{Use: "run TYPE/KEY... NAME", Args: cobra.ExactArgs(2), ValidArgsFunction: c.completeAddress}
	run.Flags().StringVar(&instance, "instance", "", "which of the alarms of that name")
	run.RunE = func(cmd *cobra.Command, args []string) error {
		if c.reason == "" {
			return usagef("--reason is missing: say why the alarm runs now")
		}
		return c.on(func(ctx context.Context, t *target, args []string) error {
			out, err := ask(ctx, t, method.AlarmRun,
				&host.ScheduleInput{Name: args[0], Instance: instance}, askOptions{})
			if err != nil {
				return err
			}
			return t.result(&out, "the alarm %s of %s is due now\n", table.OneLine(out.Name), t)
		})(cmd, args)
	}
	return group("alarm", run)
}

func (c *cli) queueEditCommand() *cobra.Command {
	var body string
	var priority int
	var delay time.Duration
	cmd := &cobra.Command{Use: "edit TYPE/KEY... QUEUE ID", Args: cobra.ExactArgs(3),
		ValidArgsFunction: c.completeNamed(completions["QUEUE"])}
	flags := cmd.Flags()
	flags.StringVar(&body, "body", "", "the new body: JSON, - for standard input, or @FILE")
	flags.IntVar(&priority, "priority", 0, "the new priority, -1000 to 1000")
	flags.DurationVar(&delay, "delay", 0, "after how long it can be received; 0 for at once")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseUint(args[2], 10, 64)
		in := host.QueueReplaceInput{Queue: args[1], ID: id}
		switch {
		case err != nil:
			return usagef("%q is not the id of a message", args[2])
		case c.reason == "":
			return usagef("--reason is missing: say why the message is changed")
		case !flags.Changed("body") && !flags.Changed("priority") && !flags.Changed("delay"):
			return usagef("one of --body, --priority and --delay is missing")
		}
		if flags.Changed("body") {
			if in.Body, err = c.input(body); err != nil {
				return err
			}
		}
		if flags.Changed("priority") {
			in.Priority = &priority
		}
		if flags.Changed("delay") {
			ms := delay.Milliseconds()
			in.DelayMS = &ms
		}
		return c.on(func(ctx context.Context, t *target, _ []string) error {
			out, err := ask(ctx, t, method.QueueReplace, &in, askOptions{})
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(&out)
			}
			_, err = fmt.Fprintf(c.stdout, "message %d: %s, priority %d, body %s\n", out.ID,
				out.State, out.Priority, table.OneLine(string(out.Body)))
			return err
		})(cmd, args)
	}
	return cmd
}
