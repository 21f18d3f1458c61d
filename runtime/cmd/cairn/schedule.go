package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) scheduleCommand() *cobra.Command {
	return group("schedule",
		row[host.Schedule, host.Schedule]{
			use:    "set TYPE/KEY... NAME --cron EXPR | --every DURATION | --at TIME",
			method: method.ScheduleSet,
			flags: []bind.Flag{
				{Member: "cron", Usage: "a cron expression"},
				{Member: "zone", Usage: "its time zone, such as Europe/Zurich; UTC if not given"},
				{Member: "every_ms", Usage: "an interval, counted from now; at least 1s"},
				{Member: "at", Usage: "one moment, such as 2027-01-01T00:00:00Z"},
				{Member: "instance", Usage: "tells schedules of one name apart"},
				{Member: "payload", Usage: "what the handler gets: JSON, - or @FILE"},
				{Member: "missed", Usage: "what to do about ticks that were missed: once (the default), all or none"},
				{Member: "catch_up",
					Usage: "how many missed ticks to make up for at most, with --missed all; 100 if not given"},
				{Member: "keep_runs", Usage: "how many runs the history keeps: 100 if not given, negative for none"},
			},
			check: func(l line, s *host.Schedule) error {
				rules := 0
				for _, flag := range []string{"cron", "every", "at"} {
					if l.given(flag) {
						rules++
					}
				}
				switch {
				case rules != 1:
					return usagef("say when: one of --cron, --every and --at")
				case s.Zone != "" && s.Cron == "":
					return usagef("--zone goes with --cron")
				}
				return nil
			},
			list: listSchedule,
		}.command(c),
		row[host.ScheduleListInput, host.ScheduleListOutput]{
			use:    "list TYPE/KEY... [NAME]",
			method: method.ScheduleList,
			list: listed(scheduleHeadings,
				func(o *host.ScheduleListOutput) []host.Schedule { return o.Schedules }, scheduleCells),
			none: "no schedules",
		}.command(c),
		row[host.ScheduleInput, host.ScheduleRunsOutput]{
			use:    "runs TYPE/KEY... NAME",
			method: method.ScheduleRuns, flags: instanceFlag,
			list: listed("RUN,DUE,STARTED,TOOK,ATTEMPT,MISSED,RESULT,ERROR",
				func(o *host.ScheduleRunsOutput) []host.ScheduleRun { return o.Runs },
				func(r *host.ScheduleRun) []string {
					return []string{
						strconv.FormatUint(r.Run, 10), table.Clock(r.Due), table.Clock(r.Started),
						r.Finished.Sub(r.Started).Round(time.Millisecond).
							String(), table.Count(r.Attempt), table.Count(r.Missed), r.Result, reason(r.Error),
					}
				}),
			none: "no runs",
		}.command(c),
		row[host.ScheduleInput, host.CountOutput]{
			use:    "cancel TYPE/KEY... NAME",
			method: method.ScheduleCancel, flags: instanceFlag,
			print: func(t *target, in *host.ScheduleInput, out *host.CountOutput) error {
				name := scheduleName(in.Name, in.Instance)
				if out.Count == 0 {
					return host.Errorf(host.NotFound, "%s has no schedule %s", t, name)
				}
				return t.result(out, "canceled %s of %s\n", name, t)
			},
		}.command(c),
		row[host.ScheduleInput, host.Schedule]{
			use:    "trigger TYPE/KEY... NAME",
			method: method.ScheduleTrigger, flags: instanceFlag,
			list: listSchedule,
		}.command(c))
}

var instanceFlag = []bind.Flag{{Member: "instance", Usage: "which of the schedules of that name"}}

const scheduleHeadings = "SCHEDULE,RULE,NEXT,RUNS,SKIPPED,LAST"

// listSchedule prints one schedule as a list.
var listSchedule = listed(scheduleHeadings,
	func(s *host.Schedule) []host.Schedule { return []host.Schedule{*s} }, scheduleCells)

func scheduleCells(s *host.Schedule) []string {
	return []string{
		scheduleName(s.Name,
			s.Instance), table.OneLine(rule(s)), clockOf(s.Next), table.Count(s.Runs),
		table.Count(s.Skipped), lastRun(s),
	}
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

// lastRun is the result of the last run.
func lastRun(s *host.Schedule) string {
	switch {
	case s.LastResult == "":
		return "-"
	case s.LastError == "":
		return s.LastResult
	case s.Attempts > 0:
		return table.Cut(table.OneLine(fmt.Sprintf("%s after %s: %s", s.LastResult,
			table.Plural(s.Attempts, "attempt"), s.LastError)), 60)
	}
	return table.Cut(table.OneLine(s.LastResult+": "+s.LastError), 60)
}
