package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) whyCommand() *cobra.Command {
	return row[method.None, host.Explanation]{
		use:    "why TYPE/KEY...",
		method: method.ActorWhy,
		print: func(t *target, _ *method.None, e *host.Explanation) error {
			if t.c.json {
				return t.c.printJSON(e)
			}
			t.printWhy(e)
			return nil
		},
	}.command(c)
}

func (t *target) printWhy(e *host.Explanation) {
	fmt.Fprintln(t.c.stdout, table.OneLine(e.Text))
	rows := t.c.table()
	if e.Since != nil {
		rows.Row("since", table.Clock(*e.Since))
	}
	if e.Until != nil {
		rows.Row("until", table.Clock(*e.Until))
	}
	if e.Remedy != "" {
		rows.Row("remedy", remedy(t.String(), e))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Details)) {
		rows.Row(table.OneLine(name), table.OneLine(e.Details[name]))
	}
	rows.Flush()
}

// remedy is the command that a remedy stands for.
func remedy(actor string, e *host.Explanation) string {
	queue, to := e.Details["queue"], e.Details["target"]
	switch {
	case e.Remedy == "skip" && queue != "":
		return table.OneLine("cairn skip " + actor + " --queue " + queue)
	case e.Remedy == "skip" && to != "":
		return table.OneLine("cairn skip " + actor + " --to " + to)
	case e.Remedy == "requeue":
		return table.OneLine("cairn send dead requeue " + actor + " --all")
	case e.Remedy == "resume", e.Remedy == "retry", e.Remedy == "workflow resume":
		return "cairn " + e.Remedy + " " + actor
	}
	return table.OneLine(e.Remedy)
}

func (c *cli) skipCommand() *cobra.Command {
	var queue, to string
	cmd := &cobra.Command{
		Use:               "skip TYPE/KEY... --queue NAME | --to TYPE/KEY...",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (queue == "") == (to == "") {
				return usagef("say which message: the next of a queue with --queue, or the next to an actor with --to")
			}
			return c.on(func(ctx context.Context, t *target, _ []string) error {
				if queue != "" {
					return skip(ctx, t, method.QueueSkip, &host.QueueInput{Queue: queue}, "queue "+queue)
				}
				a, err := parseAddress(to)
				if err != nil {
					return usageError{err}
				}
				return skip(ctx, t, method.SendSkip,
					&host.SendSkipInput{Type: a.Type, Key: append([]string{}, a.Key...)}, "messages to "+to)
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&queue, "queue", "", "skip the next message of this queue")
	cmd.Flags().StringVar(&to, "to", "", "skip the next message to this actor")
	_ = cmd.RegisterFlagCompletionFunc("to",
		func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return c.completeAddress(cmd, nil, word)
		})
	return cmd
}

// skip calls a method that moves a message aside. from says where it is in line.
func skip[In any](ctx context.Context, t *target, m method.Typed[In, host.CountOutput], in *In, from string) error {
	out, err := ask(ctx, t, m, in, askOptions{})
	switch {
	case err != nil:
		return err
	case out.Count == 0 && !t.c.json:
		return fmt.Errorf("%s of %s: there is nothing to skip", from, t)
	}
	return t.result(struct {
		Skipped int64 `json:"skipped"`
	}{out.Count}, "skipped %s: %s of %s\n", table.Plural(out.Count, "message"), from, t)
}
