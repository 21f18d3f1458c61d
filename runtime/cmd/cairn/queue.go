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

func (c *cli) queueCommand() *cobra.Command {
	return group("queue", "Send to, work on and look into the queues of an actor",
		"queue sends messages to the queues of an actor, receives them as a worker, runs a command for each, and shows what\n"+
			"waits and what was given up. Bodies are JSON, as with call. Each command explains itself with --help.\n\n"+
			"With --json each line is one message or one count, in the shapes of docs/cli.md.",
		"  cairn queue send tenant/acme mail '{\"to\":\"ada@example.com\"}'\n  cairn queue work tenant/acme mail -- ./send-mail.sh\n  cairn queue dead list tenant/acme mail",
		c.queueStatsCommand(), c.queueSendCommand(), c.queuePeekCommand(), c.queueReceiveCommand(), c.queueAckCommand(),
		c.queueNackCommand(), c.queueWorkCommand(), c.queueDeadCommand(), c.queueDeleteCommand(),
		c.queuePurgeCommand())
}

// queueNames lists an actor's queues, for completion.
func queueNames(ctx context.Context, t *target) []string {
	var out host.QueueStatsOutput
	if t.ask(ctx, host.QueueStatsMethod, &host.QueueStatsInput{}, &out, askOptions{existing: true}) != nil {
		return nil
	}
	var names []string
	for _, q := range out.Queues {
		names = append(names, q.Queue)
	}
	return names
}

func (c *cli) queueStatsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats TYPE/KEY... [QUEUE]",
		Short: "Count the messages of one queue or of all",
		Long: "stats counts the messages that can be received, that are delayed, that workers have locked, and that are dead\n" +
			"letters; and those ever sent, done and given up.\n\n" +
			"With --json each line is one queue: {\"queue\",\"pending\",\"delayed\",\"processing\",\"dead\",\"bytes\",\"sent\",\"done\",\"failed\",\n" +
			"\"oldest\",\"next_due\"}.",
		Example:           "  cairn queue stats tenant/acme",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: c.completeNamed(queueNames),
		RunE: c.on(func(ctx context.Context, t *target, args []string) error {
			in := host.QueueStatsInput{Queue: strings.Join(args, "")}
			var out host.QueueStatsOutput
			if err := t.ask(ctx, host.QueueStatsMethod, &in, &out, askOptions{existing: true}); err != nil {
				return err
			}
			return c.printQueues(t, out.Queues)
		}),
	}
}

func (c *cli) printQueues(of *target, queues []host.QueueStats) error {
	t := c.table()
	defer t.Flush()
	for i, q := range queues {
		if c.json {
			if err := c.printJSON(q); err != nil {
				return err
			}
			continue
		}
		if i == 0 {
			t.Row("QUEUE", "PENDING", "DELAYED", "PROCESSING", "DEAD", "SIZE", "SENT", "DONE", "FAILED", "OLDEST", "NEXT DUE")
		}
		t.Row(q.Queue, table.Count(q.Pending), table.Count(q.Delayed), table.Count(q.Processing), table.Count(q.Dead), table.Size(q.Bytes),
			table.Count(q.Sent), table.Count(q.Done), table.Count(q.Failed), clockOf(q.Oldest), clockOf(q.NextDue))
	}
	if len(queues) == 0 && !c.json {
		c.note("%s has no queues that were ever used", of)
	}
	return nil
}

func (c *cli) queuePeekCommand() *cobra.Command {
	cmd := c.messagesCommand(host.QueuePeek, false)
	cmd.Use = "peek TYPE/KEY... QUEUE [ID...]"
	cmd.Short = "Look at messages without receiving them"
	cmd.Long = "peek prints messages in the order of their ids: all that are in the queue, or those named, with their state\n" +
		"(pending, delayed or processing). Nothing is changed.\n\n" + listedShape
	cmd.Example = "  cairn queue peek tenant/acme jobs\n  cairn queue peek tenant/acme jobs 17 --json | jq .body"
	return cmd
}

// listedShape says how listed messages look as JSON.
const listedShape = "With --json each line is one message: {\"id\",\"queue\",\"body\",\"state\",\"priority\",\"attempts\",\"sent\",\"due\",\"expires\",\n" +
	"\"dedup_id\",\"error\",\"tried\",\"died\"}."

// messagesCommand lists messages with a method.
func (c *cli) messagesCommand(method string, dead bool) *cobra.Command {
	var limit int
	var after uint64
	cmd := &cobra.Command{Args: cobra.MinimumNArgs(2), ValidArgsFunction: c.completeNamed(queueNames)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return usagef("--limit %d: at least 1, or 0 for all", limit)
		}
		ids, err := messageIDs(args[2:])
		if err != nil {
			return err
		}
		return c.on(func(ctx context.Context, t *target, args []string) error {
			in := host.QueueListInput{Queue: args[0], IDs: ids, After: after}
			return t.messages(ctx, method, in, limit, dead)
		})(cmd, args)
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "how many messages to print; 0 prints all")
	cmd.Flags().Uint64Var(&after, "after", 0, "begin after the message with this id")
	return cmd
}

// messages prints messages page by page, at most limit unless it is 0.
func (t *target) messages(ctx context.Context, method string, in host.QueueListInput, limit int, dead bool) error {
	rows := t.c.table()
	defer rows.Flush()
	printed := 0
	for {
		in.Limit = host.MaxQueueBatch
		if limit > 0 {
			in.Limit = min(host.MaxQueueBatch, limit-printed)
		}
		var out host.QueueListOutput
		if err := t.ask(ctx, method, &in, &out, askOptions{existing: true}); err != nil {
			return err
		}
		for i := range out.Messages {
			if err := t.c.printMessage(rows, &out.Messages[i], dead, printed == 0); err != nil {
				return err
			}
			printed++
		}
		rows.Flush()
		if !out.More || len(out.Messages) == 0 || limit > 0 && printed >= limit {
			if out.More && !t.c.json {
				t.c.note("there are more: --after %d or --limit 0 lists them", out.Messages[len(out.Messages)-1].ID)
			}
			break
		}
		in.After = out.Messages[len(out.Messages)-1].ID
	}
	if printed == 0 && !t.c.json {
		t.c.note("no messages")
	}
	return nil
}

func (c *cli) printMessage(t table.Table, m *host.ListedMessage, dead, first bool) error {
	switch {
	case c.json:
		return c.printJSON(m)
	case dead:
		if first {
			t.Row("ID", "ATTEMPTS", "SENT", "DIED", "ERROR", "BODY")
		}
		t.Row(strconv.FormatUint(m.ID, 10), table.Count(m.Attempts), table.Clock(m.Sent), clockOf(m.Died), reason(m.Error), brief(m.Body))
	default:
		if first {
			t.Row("ID", "STATE", "ATTEMPTS", "PRIORITY", "SENT", "DUE", "ERROR", "BODY")
		}
		t.Row(strconv.FormatUint(m.ID, 10), m.State, table.Count(m.Attempts), table.Count(m.Priority), table.Clock(m.Sent), clockOf(m.Due),
			reason(m.Error), brief(m.Body))
	}
	return nil
}

// messageIDs reads ids of messages.
func messageIDs(args []string) ([]uint64, error) {
	var ids []uint64
	for _, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || id == 0 {
			return nil, usagef("%q is not the id of a message, which is a number", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (c *cli) queueSendCommand() *cobra.Command {
	var m host.QueueMessageInput
	var delay, ttl, wait time.Duration
	var lines bool
	var key string
	cmd := &cobra.Command{
		Use:   "send TYPE/KEY... QUEUE [JSON|-|@FILE]...",
		Short: "Send messages to a queue",
		Long: "send puts messages into a queue, all or none, and prints their ids when they are durable. Each argument is the body\n" +
			"of one, as the input of call; with --lines each line of standard input is one, sent a thousand at a time. With\n" +
			"--wait it waits for what comes of the message and prints the reply of its handler or worker.\n\n" +
			"With --json each line is {\"id\":N,\"duplicate\":true}, the latter only for a --dedup-id that was there before; with\n" +
			"--wait it is {\"id\":N,\"reply\":...}.",
		Example: "  cairn queue send tenant/acme jobs '{\"do\":\"renew\"}' --delay 1h\n" +
			"  jq -c '.[]' jobs.json | cairn queue send tenant/acme jobs --lines\n" +
			"  cairn queue send tenant/acme price '{\"item\":7}' --wait 30s",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.completeNamed(queueNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := durations(map[string]time.Duration{"delay": delay, "ttl": ttl, "wait": wait}); err != nil {
				return err
			}
			if lines == (len(args) > 2) {
				return usagef("give the bodies as arguments, or with --lines as lines of standard input")
			}
			if wait > 0 && len(args) != 3 {
				return usagef("--wait waits for one message")
			}
			m.DelayMS, m.WantReply = delay.Milliseconds(), wait > 0
			if ttl > 0 {
				m.TTLMS = new(ttl.Milliseconds())
			}
			var bodies []host.Raw
			for _, arg := range args[2:] {
				body, err := c.input(arg)
				if err != nil {
					return err
				}
				bodies = append(bodies, body)
			}
			return c.on(func(ctx context.Context, t *target, args []string) error {
				if lines {
					return c.batches(host.MaxQueueBatch, func(bodies []host.Raw) error {
						_, err := t.sendMessages(ctx, args[0], m, bodies, "")
						return err
					})
				}
				sent, err := t.sendMessages(ctx, args[0], m, bodies, key)
				if err == nil && wait > 0 {
					err = t.result(ctx, args[0], sent[0].ID, wait)
				}
				return err
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&delay, "delay", 0, "how long the messages wait before they can be received")
	flags.DurationVar(&ttl, "ttl", 0, "how long they may wait to be received before they are given up; 0 for ever")
	flags.IntVar(&m.Priority, "priority", 0, "higher first, -1000 to 1000")
	flags.StringVar(&m.DedupID, "dedup-id", "", "send nothing if a message with this id was sent lately")
	flags.DurationVar(&wait, "wait", 0, "wait so long for the reply and print it")
	flags.BoolVar(&lines, "lines", false, "read bodies from standard input, one a line")
	flags.StringVar(&key, "idempotency-key", "", "make repeating this command safe for 24 hours")
	return cmd
}

// sendMessages sends a batch of messages that differ by their bodies, and prints their ids unless a reply is to follow.
func (t *target) sendMessages(ctx context.Context, queue string, m host.QueueMessageInput, bodies []host.Raw, key string) ([]host.Sent, error) {
	in := host.QueueSendInput{Queue: queue}
	for _, body := range bodies {
		m.Body = body
		in.Messages = append(in.Messages, m)
	}
	var out host.QueueSendOutput
	if err := t.ask(ctx, host.QueueSend, &in, &out, askOptions{key: key}); err != nil {
		return nil, err
	}
	if len(out.Messages) != len(bodies) {
		return nil, host.Errorf(host.Internal, "the node answers for %d messages and not %d", len(out.Messages), len(bodies))
	}
	for _, s := range out.Messages {
		switch {
		case m.WantReply:
			continue
		case t.c.json:
			if err := t.c.printJSON(s); err != nil {
				return nil, err
			}
			continue
		}
		note := ""
		if s.Duplicate {
			note = " (sent before)"
		}
		if _, err := fmt.Fprintf(t.c.stdout, "message %d%s\n", s.ID, note); err != nil {
			return nil, err
		}
	}
	return out.Messages, nil
}

// waitPiece is how long one request waits at most. Followers ask again, so that a proxy on the way need not be patient.
const waitPiece = 20 * time.Second

// result waits for what comes of a message and prints it.
func (t *target) result(ctx context.Context, queue string, id uint64, wait time.Duration) error {
	until := time.Now().Add(wait)
	for {
		piece := max(min(waitPiece, time.Until(until)), 0)
		in := host.QueueResultInput{Queue: queue, ID: id, WaitMS: piece.Milliseconds()}
		var out host.QueueResultOutput
		if err := t.ask(ctx, host.QueueResult, &in, &out, askOptions{existing: true, wait: piece}); err != nil {
			return err
		}
		switch {
		case out.Done && out.Error != nil:
			return out.Error
		case out.Done && t.c.json:
			return t.c.printJSON(struct {
				ID    uint64   `json:"id"`
				Reply host.Raw `json:"reply"`
			}{id, out.Reply})
		case out.Done:
			printDocument(t.c.stdout, out.Reply)
			return nil
		case time.Until(until) <= 0:
			return host.Errorf(host.DeadlineExceeded, "message %d has no reply after %v; it is still in the queue or being handled", id, wait)
		}
	}
}
