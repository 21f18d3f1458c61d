package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) scheduleCommand() *cobra.Command {
	return group("schedule", "Set, list and run the schedules of an actor",
		"schedule sets when an actor's schedule handlers run, shows when they run next and what came of earlier runs, and runs\n"+
			"them at once. Each command explains itself with --help.\n\n"+
			"With --json each line is one schedule or one run, in the shapes of docs/cli.md.",
		"  cairn schedule set tenant/acme nightly --cron '0 3 * * *'\n  cairn schedule runs tenant/acme nightly",
		c.scheduleSetCommand(), c.scheduleListCommand(), c.scheduleRunsCommand(), c.scheduleCancelCommand(), c.scheduleTriggerCommand())
}

// scheduleNames lists the names of an actor's schedules, for completion.
func scheduleNames(ctx context.Context, t *target) []string {
	var out host.ScheduleListOutput
	if t.ask(ctx, host.ScheduleList, &host.ScheduleListInput{}, &out, askOptions{existing: true}) != nil {
		return nil
	}
	var names []string
	for _, s := range out.Schedules {
		if len(names) == 0 || names[len(names)-1] != s.Name {
			names = append(names, s.Name)
		}
	}
	return names
}

func (c *cli) scheduleSetCommand() *cobra.Command {
	var s host.Schedule
	var every time.Duration
	var at, payload, missed string
	cmd := &cobra.Command{
		Use:   "set TYPE/KEY... NAME --cron EXPR | --every DURATION | --at TIME",
		Short: "Set a schedule, or replace it",
		Long: "set says when a schedule handler of an actor runs: by a cron expression of five fields (minute, hour, day of month,\n" +
			"month, day of week), six with seconds first, or a descriptor such as @daily; in a fixed interval; or once. One of\n" +
			"the same name and instance is replaced. The schedule is durable before the command ends.\n\n" +
			"With --json it prints the schedule, in the shape of list.",
		Example: "  cairn schedule set tenant/acme nightly --cron '0 3 * * *' --zone Europe/Zurich\n" +
			"  cairn schedule set tenant/acme poll --every 30s --missed none --payload '{\"page\":1}'\n" +
			"  cairn schedule set tenant/acme renew --at 2027-01-01T00:00:00Z --instance contract-7",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeNamed(scheduleNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			rules := 0
			for _, flag := range []string{"cron", "every", "at"} {
				if cmd.Flags().Changed(flag) {
					rules++
				}
			}
			if rules != 1 {
				return usagef("say when: one of --cron, --every and --at")
			}
			if s.Zone != "" && s.Cron == "" {
				return usagef("--zone goes with --cron")
			}
			if err := duration("every", every); err != nil {
				return err
			}
			s.Name, s.Every, s.Missed = args[1], every.Milliseconds(), host.Missed(missed)
			if at != "" {
				moment, err := time.Parse(time.RFC3339, at)
				if err != nil {
					return usagef("--at %q: a time such as 2027-01-01T00:00:00Z is needed", at)
				}
				s.At = &moment
			}
			if payload != "" {
				var err error
				if s.Payload, err = c.input(payload); err != nil {
					return err
				}
			}
			return c.on(func(ctx context.Context, t *target, _ []string) error {
				var set host.Schedule
				if err := t.ask(ctx, host.ScheduleSet, &s, &set, askOptions{}); err != nil {
					return err
				}
				return c.printSchedules([]host.Schedule{set})
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.Cron, "cron", "", "a cron expression")
	flags.StringVar(&s.Zone, "zone", "", "its time zone, such as Europe/Zurich; UTC if not given")
	flags.DurationVar(&every, "every", 0, "an interval, counted from now; at least 1s")
	flags.StringVar(&at, "at", "", "one moment, such as 2027-01-01T00:00:00Z")
	flags.StringVar(&s.Instance, "instance", "", "tells schedules of one name apart")
	flags.StringVar(&payload, "payload", "", "what the handler gets: JSON, - or @FILE")
	flags.StringVar(&missed, "missed", "", "what to do about ticks that were missed: once (the default), all or none")
	flags.IntVar(&s.CatchUp, "catch-up", 0, "how many missed ticks to make up for at most, with --missed all; 100 if not given")
	flags.IntVar(&s.KeepRuns, "keep-runs", 0, "how many runs the history keeps: 100 if not given, negative for none")
	return cmd
}

func (c *cli) scheduleListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list TYPE/KEY... [NAME]",
		Short: "List the schedules of an actor",
		Long: "list prints an actor's schedules, of one name or all, with the next tick and what came of the last run.\n\n" +
			"With --json each line is one schedule: {\"name\",\"instance\",\"cron\",\"zone\",\"every_ms\",\"at\",\"missed\",\"catch_up\",\n" +
			"\"keep_runs\",\"payload\",\"next\",\"runs\",\"attempts\",\"skipped\",\"last_result\",\"last_error\"}.",
		Example:           "  cairn schedule list tenant/acme",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: c.completeNamed(scheduleNames),
		RunE: c.on(func(ctx context.Context, t *target, args []string) error {
			in := host.ScheduleListInput{}
			if len(args) > 0 {
				in.Name = args[0]
			}
			var out host.ScheduleListOutput
			if err := t.ask(ctx, host.ScheduleList, &in, &out, askOptions{existing: true}); err != nil {
				return err
			}
			if len(out.Schedules) == 0 && !c.json {
				c.note("no schedules")
			}
			return c.printSchedules(out.Schedules)
		}),
	}
}

func (c *cli) printSchedules(schedules []host.Schedule) error {
	t := c.table()
	defer t.Flush()
	for i := range schedules {
		s := &schedules[i]
		if c.json {
			if err := c.printJSON(s); err != nil {
				return err
			}
			continue
		}
		if i == 0 {
			t.Row("SCHEDULE", "RULE", "NEXT", "RUNS", "SKIPPED", "LAST")
		}
		t.Row(scheduleName(s.Name, s.Instance), table.OneLine(rule(s)), clockOf(s.Next), table.Count(s.Runs), table.Count(s.Skipped), lastRun(s))
	}
	return nil
}

// scheduleName is the name of a schedule, with its instance if it has one.
func scheduleName(name, instance string) string {
	if instance == "" {
		return table.OneLine(name)
	}
	return table.OneLine(name + "(" + instance + ")")
}

// rule is when a schedule runs, in the words of set's flags.
func rule(s *host.Schedule) string {
	switch {
	case s.Cron != "" && s.Zone != "":
		return s.Cron + " in " + s.Zone
	case s.Cron != "":
		return s.Cron
	case s.At != nil:
		return "at " + table.Clock(*s.At)
	}
	every := (time.Duration(s.Every) * time.Millisecond).String()
	if short, ok := strings.CutSuffix(every, "m0s"); ok {
		every = short + "m"
	}
	if short, ok := strings.CutSuffix(every, "h0m"); ok {
		every = short + "h"
	}
	return "every " + every
}

// lastRun says what came of the last run.
func lastRun(s *host.Schedule) string {
	switch {
	case s.LastResult == "":
		return "-"
	case s.LastError == "":
		return s.LastResult
	case s.Attempts > 0:
		return table.Cut(table.OneLine(fmt.Sprintf("%s after %s: %s", s.LastResult, table.Plural(s.Attempts, "attempt"), s.LastError)), 60)
	}
	return table.Cut(table.OneLine(s.LastResult+": "+s.LastError), 60)
}

func (c *cli) scheduleRunsCommand() *cobra.Command {
	var in host.ScheduleInput
	cmd := &cobra.Command{
		Use:   "runs TYPE/KEY... NAME",
		Short: "Show what came of the runs of a schedule",
		Long: "runs prints the history of a schedule, the latest run first.\n\n" +
			"With --json each line is one run: {\"run\",\"due\",\"started\",\"finished\",\"result\",\"error\",\"attempt\",\"missed\"}.",
		Example:           "  cairn schedule runs tenant/acme nightly",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeNamed(scheduleNames),
		RunE: c.on(func(ctx context.Context, t *target, args []string) error {
			in.Name = args[0]
			var out host.ScheduleRunsOutput
			if err := t.ask(ctx, host.ScheduleRuns, &in, &out, askOptions{existing: true}); err != nil {
				return err
			}
			return c.printRuns(out.Runs)
		}),
	}
	instanceFlag(cmd, &in.Instance)
	return cmd
}

func instanceFlag(cmd *cobra.Command, instance *string) {
	cmd.Flags().StringVar(instance, "instance", "", "which of the schedules of that name")
}

func (c *cli) printRuns(runs []host.ScheduleRun) error {
	t := c.table()
	defer t.Flush()
	for i, r := range runs {
		if c.json {
			if err := c.printJSON(r); err != nil {
				return err
			}
			continue
		}
		if i == 0 {
			t.Row("RUN", "DUE", "STARTED", "TOOK", "ATTEMPT", "MISSED", "RESULT", "ERROR")
		}
		t.Row(strconv.FormatUint(r.Run, 10), table.Clock(r.Due), table.Clock(r.Started), r.Finished.Sub(r.Started).Round(time.Millisecond).String(),
			table.Count(r.Attempt), table.Count(r.Missed), r.Result, reason(r.Error))
	}
	if len(runs) == 0 && !c.json {
		c.note("no runs")
	}
	return nil
}

func (c *cli) scheduleCancelCommand() *cobra.Command {
	var in host.ScheduleInput
	cmd := &cobra.Command{
		Use:   "cancel TYPE/KEY... NAME",
		Short: "Remove a schedule",
		Long: "cancel removes a schedule and its history. It is an error if there is none.\n\n" +
			"With --json it prints {\"count\":1}.",
		Example:           "  cairn schedule cancel tenant/acme renew --instance contract-7",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeNamed(scheduleNames),
		RunE: c.on(func(ctx context.Context, t *target, args []string) error {
			in.Name = args[0]
			var out host.CountOutput
			if err := t.ask(ctx, host.ScheduleCancel, &in, &out, askOptions{existing: true}); err != nil {
				return err
			}
			name := scheduleName(in.Name, in.Instance)
			switch {
			case out.Count == 0:
				return host.Errorf(host.NotFound, "%s has no schedule %s", t, name)
			case c.json:
				return c.printJSON(out)
			}
			_, err := fmt.Fprintf(c.stdout, "canceled %s of %s\n", name, t)
			return err
		}),
	}
	instanceFlag(cmd, &in.Instance)
	return cmd
}

func (c *cli) scheduleTriggerCommand() *cobra.Command {
	var in host.ScheduleInput
	cmd := &cobra.Command{
		Use:   "trigger TYPE/KEY... NAME",
		Short: "Run a schedule at once, besides its ticks",
		Long: "trigger has a schedule's handler run as soon as the actor has time. Its ticks stay as they are; what came of it says\n" +
			"runs.\n\nWith --json it prints the schedule, in the shape of list.",
		Example:           "  cairn schedule trigger tenant/acme nightly",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeNamed(scheduleNames),
		RunE: c.on(func(ctx context.Context, t *target, args []string) error {
			in.Name = args[0]
			var s host.Schedule
			if err := t.ask(ctx, host.ScheduleTrigger, &in, &s, askOptions{existing: true}); err != nil {
				return err
			}
			return c.printSchedules([]host.Schedule{s})
		}),
	}
	instanceFlag(cmd, &in.Instance)
	return cmd
}
