package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) queueCommand() *cobra.Command {
	return group("queue",
		c.queueEditCommand(),
		row[host.QueueStatsInput, host.QueueStatsOutput]{
			use:    "stats TYPE/KEY... [QUEUE]",
			method: method.QueueStats,
			list: listed("QUEUE,PENDING,DELAYED,PROCESSING,DEAD,SIZE,SENT,DONE,FAILED,OLDEST,NEXT DUE",
				func(o *host.QueueStatsOutput) []host.QueueStats { return o.Queues },
				func(q *host.QueueStats) []string {
					return []string{
						q.Queue, table.Count(q.Pending), table.Count(q.Delayed), table.Count(q.Processing), table.Count(q.Dead), table.Size(q.Bytes),
						table.Count(q.Sent), table.Count(q.Done), table.Count(q.Failed), clockOf(q.Oldest), clockOf(q.NextDue),
					}
				}),
			none: "ACTOR has no queues that were ever used",
		}.command(c),
		row[host.QueueListInput, host.QueueListOutput]{
			use:    "peek TYPE/KEY... QUEUE [ID...]",
			method: method.QueuePeek, flags: listFlags, next: nextMessages, none: "no messages",
			list: listed("ID,STATE,ATTEMPTS,PRIORITY,SENT,DUE,ERROR,BODY", messagesOf,
				func(m *host.ListedMessage) []string {
					return []string{
						strconv.FormatUint(m.ID,
							10), m.State, table.Count(m.Attempts), table.Count(m.Priority),
						table.Clock(m.Sent), clockOf(m.Due),
						reason(m.Error), brief(m.Body),
					}
				}),
		}.command(c),
		row[host.QueueReceiveInput, host.QueueReceiveOutput]{
			use:    "receive TYPE/KEY... QUEUE",
			method: method.QueueReceive,
			flags: []bind.Flag{
				{Member: "limit", Usage: "how many messages to receive", Initial: 1},
				{Member: "lock_ms", Usage: "how long they are locked; 0 is as long as the queue says"},
				{Member: "wait_ms", Usage: "how long to wait for the first"},
			},
			list: listed("ID,ATTEMPT,SENT,LOCKED UNTIL,RECEIPT,BODY",
				func(o *host.QueueReceiveOutput) []host.ReceivedMessage { return o.Messages },
				func(m *host.ReceivedMessage) []string {
					return []string{
						strconv.FormatUint(m.ID,
							10), table.Count(m.Attempt), table.Clock(m.Sent), table.Clock(m.LockedUntil),
						table.OneLine(m.Receipt), brief(m.Body),
					}
				}),
			none: "no messages",
		}.command(c),
		row[host.QueueAckInput, host.QueueSettleOutput]{
			use:    "ack TYPE/KEY... QUEUE RECEIPT...",
			method: method.QueueAck,
			flags: []bind.Flag{{Member: "reply",
				Usage: "the answer for a sender that waits for one: JSON, - or @FILE", Document: true}},
			print: settled[host.QueueAckInput]("acknowledged"),
		}.command(c),
		row[host.QueueNackInput, host.QueueSettleOutput]{
			use:    "nack TYPE/KEY... QUEUE RECEIPT...",
			method: method.QueueNack,
			flags: []bind.Flag{
				{Member: "delay_ms", Usage: "the pause before the next attempt, instead of the queue's"},
				{Member: "error", Usage: "why, kept with the message; at most 1,024 bytes"},
				{Member: "dead", Usage: "make them dead letters at once"},
			},
			print: settled[host.QueueNackInput]("gave back"),
		}.command(c),
		row[host.QueueSelectInput, host.CountOutput]{
			use:    "delete TYPE/KEY... QUEUE [ID...]",
			method: method.QueueDelete, flags: allFlag, check: checkSelected, grave: deletesAll("messages"), print: counted[host.QueueSelectInput]("deleted", "message"),
		}.command(c),
		row[host.QueueInput, host.CountOutput]{
			use:    "purge TYPE/KEY... QUEUE",
			method: method.QueuePurge,
			grave: func(in *host.QueueInput, actor string) string {
				return fmt.Sprintf("delete all messages of queue %s of %s", in.Queue, actor)
			},
			print: counted[host.QueueInput]("deleted", "message"),
		}.command(c),
		group("dead",
			row[host.QueueListInput, host.QueueListOutput]{
				use:    "list TYPE/KEY... QUEUE [ID...]",
				method: method.QueueDeadList, flags: listFlags, next: nextMessages, none: "no messages",
				list: listed("ID,ATTEMPTS,SENT,DIED,ERROR,BODY", messagesOf, func(m *host.ListedMessage) []string {
					return []string{
						strconv.FormatUint(m.ID,
							10), table.Count(m.Attempts), table.Clock(m.Sent), clockOf(m.Died),
						reason(m.Error), brief(m.Body),
					}
				}),
			}.command(c),
			row[host.QueueSelectInput, host.CountOutput]{
				use:    "requeue TYPE/KEY... QUEUE [ID...]",
				method: method.QueueDeadRequeue, flags: allFlag, check: checkSelected, print: counted[host.QueueSelectInput]("requeued", "message"),
			}.command(c),
			row[host.QueueSelectInput, host.CountOutput]{
				use:    "delete TYPE/KEY... QUEUE [ID...]",
				method: method.QueueDeadDelete, flags: allFlag, check: checkSelected, grave: deletesAll("dead letters"), print: counted[host.QueueSelectInput]("deleted", "message"),
			}.command(c),
		),
		c.queueSendCommand(), c.queueWorkCommand())
}

// listFlags are the flags of what lists messages, and allFlag is that of what can be done to all.
var (
	listFlags = []bind.Flag{
		{Member: "limit", Usage: "how many messages to print; 0 prints all", Initial: 100},
		{Member: "after", Usage: "begin after the message with this id"},
	}
	allFlag = []bind.Flag{{Member: "all", Usage: "all of them"}}
)

func messagesOf(o *host.QueueListOutput) []host.ListedMessage { return o.Messages }

func nextMessages(in *host.QueueListInput, out *host.QueueListOutput) bool {
	if n := len(out.Messages); n > 0 {
		in.After = out.Messages[n-1].ID
	}
	return out.More && len(out.Messages) > 0
}

// checkSelected demands a selection.
func checkSelected(_ line, in *host.QueueSelectInput) error {
	return idsOrAll(in.IDs, in.All)
}

func idsOrAll(ids []uint64, all bool) error {
	if all == (len(ids) > 0) {
		return usagef("name messages by id, or take --all")
	}
	return nil
}

// deletesAll returns what asks before all messages of a queue are deleted.
func deletesAll(what string) func(*host.QueueSelectInput, string) string {
	return func(in *host.QueueSelectInput, actor string) string {
		if !in.All {
			return ""
		}
		return fmt.Sprintf("delete all %s of queue %s of %s", what, in.Queue, actor)
	}
}

// counted returns what prints a count.
func counted[In any](did, noun string) func(*target, *In, *host.CountOutput) error {
	return func(t *target, _ *In, out *host.CountOutput) error {
		return t.result(out, "%s %s\n", did, table.Plural(out.Count, noun))
	}
}

// settled returns what prints how many messages were settled. Receipts that are no longer valid are
// an error.
func settled[In any](did string) func(*target, *In, *host.QueueSettleOutput) error {
	return func(t *target, _ *In, out *host.QueueSettleOutput) error {
		if err := t.result(out, "%s %s\n", did, table.Plural(out.Settled, "message")); err != nil ||
			len(out.Lost) == 0 {
			return err
		}
		lost, err := json.Marshal(out.Lost)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s no longer valid, so nothing was done about them: %s",
			table.Plural(len(out.Lost), "receipt"), lost)
	}
}

func (c *cli) queueSendCommand() *cobra.Command {
	var m host.QueueMessageInput
	var delay, ttl, wait time.Duration
	var lines bool
	var key string
	cmd := &cobra.Command{
		Use:               "send TYPE/KEY... QUEUE [JSON|-|@FILE]...",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.completeNamed(completions["QUEUE"]),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(bind.Duration("delay", delay), bind.Duration("ttl", ttl),
				bind.Duration("wait", wait)); err != nil {
				return usageError{err}
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
					err = t.reply(ctx, args[0], sent[0].ID, wait)
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

// sendMessages sends a batch of messages that differ by their bodies, and prints their ids unless a
// reply is to follow.
func (t *target) sendMessages(ctx context.Context, queue string, m host.QueueMessageInput,
	bodies []host.Raw, key string) ([]host.Sent, error) {
	in := host.QueueSendInput{Queue: queue}
	for _, body := range bodies {
		m.Body = body
		in.Messages = append(in.Messages, m)
	}
	out, err := ask(ctx, t, method.QueueSend, &in, askOptions{key: key})
	if err != nil {
		return nil, err
	}
	if len(out.Messages) != len(bodies) {
		return nil, host.Errorf(host.Internal, "the node answers for %d messages and not %d",
			len(out.Messages), len(bodies))
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

// waitPiece bounds how long one request waits. Followers ask again, so a proxy need not wait
// longer.
const waitPiece = 20 * time.Second

// patiently calls ask until it finds a result or the time is over. piece is how long one call may
// wait.
func patiently(wait time.Duration, ask func(piece time.Duration) (found bool, err error)) (found bool, err error) {
	for until := time.Now().Add(wait); ; {
		found, err := ask(max(min(waitPiece, time.Until(until)), 0))
		if err != nil || found || time.Until(until) <= 0 {
			return found, err
		}
	}
}

// reply waits for the reply to a message and prints it.
func (t *target) reply(ctx context.Context, queue string, id uint64, wait time.Duration) error {
	var out host.QueueResultOutput
	done, err := patiently(wait, func(piece time.Duration) (_ bool, err error) {
		in := host.QueueResultInput{Queue: queue, ID: id, WaitMS: piece.Milliseconds()}
		out, err = ask(ctx, t, method.QueueResult, &in, askOptions{wait: piece})
		return out.Done, err
	})
	switch {
	case err != nil:
		return err
	case !done:
		return host.Errorf(host.DeadlineExceeded,
			"message %d has no reply after %v; it is still in the queue or being handled", id, wait)
	case out.Error != nil:
		return out.Error
	case t.c.json:
		return t.c.printJSON(struct {
			ID    uint64   `json:"id"`
			Reply host.Raw `json:"reply"`
		}{id, out.Reply})
	}
	printDocument(t.c.stdout, out.Reply)
	return nil
}
