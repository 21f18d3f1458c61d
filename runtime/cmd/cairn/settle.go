package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) queueReceiveCommand() *cobra.Command {
	var limit int
	var lock, wait time.Duration
	cmd := &cobra.Command{
		Use:   "receive TYPE/KEY... QUEUE",
		Short: "Receive messages as a worker and lock them",
		Long: "receive takes messages out of a queue and locks them: unless they are acknowledged before the lock ends, they are\n" +
			"back in the queue, as a failed attempt. For more than a try by hand see work.\n\n" +
			"With --json each line is one message: {\"id\",\"queue\",\"body\",\"attempt\",\"priority\",\"sent\",\"dedup_id\",\"want_reply\",\n" +
			"\"receipt\",\"locked_until\"}.",
		Example: "  cairn queue receive tenant/acme mail --wait 20s\n" +
			"  cairn queue receive tenant/acme mail --limit 10 --lock 5m --json",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeNamed(queueNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := durations(map[string]time.Duration{"lock": lock, "wait": wait}); err != nil {
				return err
			}
			if limit < 1 || limit > host.MaxQueueBatch {
				return usagef("--limit %d: 1 to %d", limit, host.MaxQueueBatch)
			}
			return c.on(func(ctx context.Context, t *target, args []string) error {
				until := time.Now().Add(wait)
				for {
					piece := max(min(waitPiece, time.Until(until)), 0)
					messages, err := t.receive(ctx, args[0], limit, lock, piece)
					if err != nil {
						return err
					}
					if len(messages) > 0 || time.Until(until) <= 0 {
						return c.printReceived(messages)
					}
				}
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&limit, "limit", 1, "how many messages to receive")
	flags.DurationVar(&lock, "lock", 0, "how long they are locked; 0 is as long as the queue says")
	flags.DurationVar(&wait, "wait", 0, "how long to wait for the first")
	return cmd
}

// receive receives messages, waiting for the first.
func (t *target) receive(ctx context.Context, queue string, limit int, lock, wait time.Duration) ([]host.ReceivedMessage, error) {
	in := host.QueueReceiveInput{Queue: queue, Limit: limit, LockMS: lock.Milliseconds(), WaitMS: wait.Milliseconds()}
	var out host.QueueReceiveOutput
	err := t.ask(ctx, host.QueueReceive, &in, &out, askOptions{wait: wait})
	return out.Messages, err
}

func (c *cli) printReceived(messages []host.ReceivedMessage) error {
	t := c.table()
	defer t.Flush()
	for i, m := range messages {
		if c.json {
			if err := c.printJSON(m); err != nil {
				return err
			}
			continue
		}
		if i == 0 {
			t.Row("ID", "ATTEMPT", "SENT", "LOCKED UNTIL", "RECEIPT", "BODY")
		}
		t.Row(strconv.FormatUint(m.ID, 10), table.Count(m.Attempt), table.Clock(m.Sent), table.Clock(m.LockedUntil), table.OneLine(m.Receipt), brief(m.Body))
	}
	if len(messages) == 0 && !c.json {
		c.note("no messages")
	}
	return nil
}

func (c *cli) queueAckCommand() *cobra.Command {
	var reply string
	cmd := &cobra.Command{
		Use:   "ack TYPE/KEY... QUEUE RECEIPT...",
		Short: "Acknowledge messages: they are done",
		Long: "ack says that received messages are done, by the receipts that came with them. A receipt whose lock has ended is an\n" +
			"error: the message is in the queue again, or with another worker.\n\n" +
			"With --json it prints {\"settled\":N,\"lost\":[RECEIPT...]}.",
		Example:           "  cairn queue ack tenant/acme mail 17-3f9a2c\n  cairn queue ack tenant/acme price 18-77d0e1 --reply '{\"price\":12}'",
		Args:              cobra.MinimumNArgs(3),
		ValidArgsFunction: c.completeNamed(queueNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := host.QueueAckInput{Queue: args[1], Receipts: args[2:]}
			if cmd.Flags().Changed("reply") {
				b, err := c.input(reply)
				if err != nil {
					return err
				}
				in.Reply = b
			}
			return c.on(func(ctx context.Context, t *target, _ []string) error {
				return t.settle(ctx, host.QueueAck, ackInput(in), "acknowledged")
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&reply, "reply", "", "the answer for a sender that waits for one: JSON, - or @FILE")
	return cmd
}

// ackInput leaves a reply out that is not there: JSON would make it null.
func ackInput(in host.QueueAckInput) any {
	if in.Reply != nil {
		return &in
	}
	return &struct {
		Queue    string   `json:"queue"`
		Receipts []string `json:"receipts"`
	}{in.Queue, in.Receipts}
}

func (c *cli) queueNackCommand() *cobra.Command {
	var in host.QueueNackInput
	var delay time.Duration
	cmd := &cobra.Command{
		Use:   "nack TYPE/KEY... QUEUE RECEIPT...",
		Short: "Give messages back: the attempt failed",
		Long: "nack gives received messages back, by the receipts that came with them. Each is a failed attempt: the message can\n" +
			"be received again after the pause that its queue has for it, or becomes a dead letter if it was the last.\n\n" +
			"With --json it prints {\"settled\":N,\"lost\":[RECEIPT...]}.",
		Example:           "  cairn queue nack tenant/acme mail 17-3f9a2c --error 'mailbox full' --delay 10m",
		Args:              cobra.MinimumNArgs(3),
		ValidArgsFunction: c.completeNamed(queueNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := duration("delay", delay); err != nil {
				return err
			}
			if cmd.Flags().Changed("delay") {
				ms := delay.Milliseconds()
				in.DelayMS = &ms
			}
			in.Queue, in.Receipts = args[1], args[2:]
			return c.on(func(ctx context.Context, t *target, _ []string) error {
				return t.settle(ctx, host.QueueNack, &in, "gave back")
			})(cmd, args)
		},
	}
	cmd.Flags().DurationVar(&delay, "delay", 0, "the pause before the next attempt, instead of the queue's")
	cmd.Flags().StringVar(&in.Error, "error", "", "why, kept with the message; at most 1,024 bytes")
	cmd.Flags().BoolVar(&in.Dead, "dead", false, "make them dead letters at once")
	return cmd
}

// settle calls ack or nack and says what became of the receipts.
func (t *target) settle(ctx context.Context, method string, in any, did string) error {
	var out host.QueueSettleOutput
	if err := t.ask(ctx, method, in, &out, askOptions{existing: true}); err != nil {
		return err
	}
	if t.c.json {
		if err := t.c.printJSON(out); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(t.c.stdout, "%s %s\n", did, table.Plural(out.Settled, "message")); err != nil {
		return err
	}
	if len(out.Lost) > 0 {
		b, err := json.Marshal(out.Lost)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s no longer valid, so nothing was done about them: %s", table.Plural(len(out.Lost), "receipt"), b)
	}
	return nil
}

func (c *cli) queueDeadCommand() *cobra.Command {
	list := c.messagesCommand(host.QueueDeadList, true)
	list.Use = "list TYPE/KEY... QUEUE [ID...]"
	list.Short = "List dead letters"
	list.Long = "list prints the messages that were given up: after the last attempt, because nobody received them in time, or\n" +
		"because they were skipped.\n\n" + listedShape
	list.Example = "  cairn queue dead list tenant/acme jobs"
	requeue := c.selectCommand("requeue", host.QueueDeadRequeue, "requeued", "")
	requeue.Short = "Send dead letters again"
	requeue.Long = "requeue puts dead letters back into their queue, as messages that were never tried. Name them by id, or take --all.\n\n" +
		"With --json it prints {\"count\":N}."
	requeue.Example = "  cairn queue dead requeue tenant/acme jobs 17 18\n  cairn queue dead requeue tenant/acme jobs --all"
	remove := c.selectCommand("delete", host.QueueDeadDelete, "deleted", "dead letters")
	remove.Short = "Delete dead letters"
	remove.Long = "delete removes dead letters for good. Name them by id, or take --all, which asks on a terminal and needs --yes\n" +
		"elsewhere.\n\nWith --json it prints {\"count\":N}."
	remove.Example = "  cairn queue dead delete tenant/acme jobs 17"
	return group("dead", "List, send again and delete the messages that were given up",
		"dead letters are messages that were given up. They are kept for 14 days and 10,000 of a queue, unless its type says\n"+
			"otherwise.\n\nWith --json each line is one message or one count.",
		"  cairn queue dead list tenant/acme jobs\n  cairn queue dead requeue tenant/acme jobs --all", list, requeue, remove)
}

// selectCommand makes a command that does something to messages by id or to all. If it cannot be undone, lost names what
// is lost.
func (c *cli) selectCommand(name, method, did, lost string) *cobra.Command {
	var all, yes bool
	cmd := &cobra.Command{Use: name + " TYPE/KEY... QUEUE [ID...]", Args: cobra.MinimumNArgs(2), ValidArgsFunction: c.completeNamed(queueNames)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := messageIDs(args[2:])
		if err != nil {
			return err
		}
		if all == (len(ids) > 0) {
			return usagef("name messages by id, or take --all")
		}
		if lost != "" && all {
			if err := c.consent(yes, fmt.Sprintf("%s all %s of queue %s of %s", name, lost, args[1], args[0])); err != nil {
				return err
			}
		}
		return c.on(func(ctx context.Context, t *target, args []string) error {
			return t.counted(ctx, method, &host.QueueSelectInput{Queue: args[0], IDs: ids, All: all}, did)
		})(cmd, args)
	}
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	if lost != "" {
		cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	}
	return cmd
}

// consent asks before something that cannot be undone.
func (c *cli) consent(given bool, what string) error {
	switch {
	case given:
		return nil
	case !terminal(c.stdin):
		return usagef("%s: that cannot be undone, confirm with --yes", what)
	case !c.confirm(what + "?"):
		return fmt.Errorf("not confirmed: everything is left as it is")
	}
	return nil
}

// counted calls a method that counts messages and prints the count.
func (t *target) counted(ctx context.Context, method string, in any, did string) error {
	var out host.CountOutput
	for more := true; more; { // one call does no more than one turn can
		var some host.CountOutput
		if err := t.ask(ctx, method, in, &some, askOptions{existing: true}); err != nil {
			if out.Count > 0 {
				err = fmt.Errorf("after %s: %w", table.Plural(out.Count, "message"), err)
			}
			return err
		}
		out.Count, more = out.Count+some.Count, some.More
	}
	if t.c.json {
		return t.c.printJSON(out)
	}
	_, err := fmt.Fprintf(t.c.stdout, "%s %s\n", did, table.Plural(out.Count, "message"))
	return err
}

func (c *cli) queueDeleteCommand() *cobra.Command {
	cmd := c.selectCommand("delete", host.QueueDelete, "deleted", "messages")
	cmd.Short = "Delete messages by id"
	cmd.Long = "delete removes messages from a queue for good, whether or not a worker has locked them. Name them by id, or take --all,\n" +
		"which is what purge does: it spares those that are locked, asks on a terminal and needs --yes elsewhere.\n\nWith --json it prints {\"count\":N}."
	cmd.Example = "  cairn queue delete tenant/acme jobs 17"
	return cmd
}

func (c *cli) queuePurgeCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge TYPE/KEY... QUEUE",
		Short: "Delete all messages of a queue",
		Long: "purge removes all messages that wait in a queue: not those that workers have locked, and not the dead letters. It\n" +
			"cannot be undone: on a terminal it asks first; elsewhere it needs --yes.\n\nWith --json it prints {\"count\":N}.",
		Example:           "  cairn queue purge tenant/acme jobs --yes",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeNamed(queueNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.consent(yes, fmt.Sprintf("delete all messages of queue %s of %s", args[1], args[0])); err != nil {
				return err
			}
			return c.on(func(ctx context.Context, t *target, args []string) error {
				return t.counted(ctx, host.QueuePurge, &host.QueueInput{Queue: args[0]}, "deleted")
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
