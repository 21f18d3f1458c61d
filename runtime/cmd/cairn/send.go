package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) sendCommand() *cobra.Command {
	list := c.deadSendsCommand()
	requeue := c.selectSendsCommand("requeue", host.SendDeadRequeue, "requeued", false)
	requeue.Short = "Send messages again that were given up"
	requeue.Long = "requeue sends messages again, as new ones behind the waiting ones. Name them by id, or take --all.\n\n" +
		"With --json it prints {\"count\":N}."
	requeue.Example = "  cairn send dead requeue tenant/acme 5242880\n  cairn send dead requeue tenant/acme --all"
	remove := c.selectSendsCommand("delete", host.SendDeadDelete, "deleted", true)
	remove.Short = "Delete messages that were given up"
	remove.Long = "delete removes messages for good. Name them by id, or take --all, which asks on a terminal and needs --yes elsewhere.\n\n" +
		"With --json it prints {\"count\":N}."
	remove.Example = "  cairn send dead delete tenant/acme 5242880"
	dead := group("dead", "List, send again and delete messages to other actors that were given up",
		"dead messages are those that the target did not handle in the last attempt, that it can never handle, or that were\n"+
			"skipped. Their sender keeps them for 14 days, and 10,000 of them.\n\nWith --json each line is one message or one count.",
		"  cairn send dead list tenant/acme\n  cairn send dead requeue tenant/acme --all", list, requeue, remove)
	return group("send", "Look into the messages that an actor sends to other actors",
		"send is about messages between actors that were given up. The messages of queues are under queue.\n\n"+
			"With --json each line is one message or one count.",
		"  cairn send dead list tenant/acme", dead)
}

// deadSendsCommand lists messages that were given up.
func (c *cli) deadSendsCommand() *cobra.Command {
	var limit int
	var after uint64
	cmd := &cobra.Command{
		Use:   "list TYPE/KEY... [ID...]",
		Short: "List messages to other actors that were given up",
		Long: "list prints messages in the order in which they were sent, with the actor and the action that they were for and why\n" +
			"the last attempt failed.\n\n" +
			"With --json each line is one message: {\"id\",\"type\",\"key\",\"method\",\"input\",\"attempts\",\"sent\",\"died\",\"expires\",\n" +
			"\"code\",\"error\"}.",
		Example:           "  cairn send dead list tenant/acme",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit %d: at least 1, or 0 for all", limit)
			}
			ids, err := messageIDs(args[1:])
			if err != nil {
				return err
			}
			return c.on(func(ctx context.Context, t *target, _ []string) error {
				return t.deadSends(ctx, host.SendListInput{IDs: ids, After: after}, limit)
			})(cmd, args)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "how many messages to print; 0 prints all")
	cmd.Flags().Uint64Var(&after, "after", 0, "begin after the message with this id")
	return cmd
}

// deadSends prints messages page by page, at most limit unless it is 0.
func (t *target) deadSends(ctx context.Context, in host.SendListInput, limit int) error {
	rows := t.c.table()
	defer rows.Flush()
	printed := 0
	for more := true; more && (limit == 0 || printed < limit); {
		in.Limit = host.MaxQueueBatch
		if limit > 0 {
			in.Limit = min(host.MaxQueueBatch, limit-printed)
		}
		var out host.SendListOutput
		if err := t.ask(ctx, host.SendDeadList, &in, &out, askOptions{existing: true}); err != nil {
			return err
		}
		for _, m := range out.Messages {
			if t.c.json {
				if err := t.c.printJSON(m); err != nil {
					return err
				}
			} else {
				if printed == 0 {
					rows.Row("ID", "TO", "METHOD", "ATTEMPTS", "SENT", "DIED", "ERROR", "INPUT")
				}
				rows.Row(strconv.FormatUint(m.ID, 10), table.OneLine(formatAddress(m.Type, m.Key)), table.OneLine(m.Method),
					table.Count(m.Attempts), table.Clock(m.Sent), table.Clock(m.Died), reason(string(m.Code)+": "+m.Error), brief(m.Input))
			}
			printed++
			in.After = m.ID
		}
		rows.Flush()
		more = out.More && len(out.Messages) > 0
		if more && limit > 0 && printed >= limit && !t.c.json {
			t.c.note("there are more: --after %d or --limit 0 lists them", in.After)
		}
	}
	if printed == 0 && !t.c.json {
		t.c.note("no messages")
	}
	return nil
}

// selectSendsCommand makes a command that does something to messages that were given up, by id or to all. If it cannot be
// undone, it asks before it does it to all.
func (c *cli) selectSendsCommand(name, method, did string, grave bool) *cobra.Command {
	var all, yes bool
	cmd := &cobra.Command{Use: name + " TYPE/KEY... [ID...]", Args: cobra.MinimumNArgs(1), ValidArgsFunction: c.completeAddress}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := messageIDs(args[1:])
		if err != nil {
			return err
		}
		if all == (len(ids) > 0) {
			return usagef("name messages by id, or take --all")
		}
		if grave && all {
			if err := c.consent(yes, fmt.Sprintf("%s all messages of %s that were given up", name, args[0])); err != nil {
				return err
			}
		}
		return c.on(func(ctx context.Context, t *target, _ []string) error {
			return t.counted(ctx, method, &host.SendSelectInput{IDs: ids, All: all}, did)
		})(cmd, args)
	}
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	if grave {
		cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	}
	return cmd
}
