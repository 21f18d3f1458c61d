package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/work"
)

// maxWorkers bounds --workers.
const maxWorkers = 256

func (c *cli) queueWorkCommand() *cobra.Command {
	w := &work.Worker{Wait: waitPiece, Stdout: c.stdout, Stderr: c.stderr,
		Note: func(text string) { c.note("%s", text) }}
	cmd := &cobra.Command{
		Use:               "work TYPE/KEY... QUEUE [flags] -- COMMAND [ARG...]",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.completeNamed(completions["QUEUE"]),
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			switch {
			case dash != 2 || len(args) < 3:
				return usagef("work needs an actor, a queue and, after --, a command")
			case w.Count < 1 || w.Count > maxWorkers:
				return usagef("--workers %d: 1 to %d", w.Count, maxWorkers)
			}
			if err := bind.Duration("lock", w.Lock); err != nil {
				return usageError{err}
			}
			if w.Lock < time.Second {
				return usagef("--lock %s: at least 1s", w.Lock)
			}
			if _, err := exec.LookPath(args[2]); err != nil {
				return usageError{err}
			}
			return c.on(func(ctx context.Context, t *target,
				args []string) error {
				return t.work(ctx, w, args[0], args[1:])
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&w.Count, "workers", 1, "how many commands run at a time")
	flags.DurationVar(&w.Lock, "lock", host.DefaultQueueLock,
		"for how long to lock a message at a time; the lock is extended while the command runs")
	flags.BoolVar(&w.Reply, "reply", false,
		"the command's standard output, JSON, is the reply for a sender that waits for one")
	flags.BoolVar(&w.Drain, "drain", false,
		"end when there is nothing to receive; the exit status is 1 if every attempt failed")
	return cmd
}

// work runs a command for the messages of a queue. With --json the output of commands goes to
// standard error.
func (t *target) work(ctx context.Context, w *work.Worker, queue string, command []string) error {
	w.Queue, w.Command, w.Env = remoteQueue{t, queue}, command,
		[]string{"CAIRN_ACTOR=" + t.String(), "CAIRN_QUEUE=" + queue}
	w.Report = func(r work.Result) {
		if t.c.json {
			_ = t.c.printJSON(r) // the message is settled whether or not it can be said
		} else if r.Error != "" {
			t.c.note("message %d, attempt %d: %s", r.ID, r.Attempt, table.OneLine(r.Error))
		}
	}
	if t.c.json {
		w.Stdout = t.c.stderr
	}
	done, failed, err := w.Run(ctx)
	if !t.c.json {
		t.c.note("%s done, %s failed", table.Plural(done, "message"), table.Count(failed))
	}
	return err
}

// A remoteQueue is a queue of a node.
type remoteQueue struct {
	t    *target
	name string
}

// Receive implements [work.Queue], as do Ack, Nack and Extend.
func (q remoteQueue) Receive(ctx context.Context, lock, wait time.Duration) (*host.ReceivedMessage, error) {
	in := host.QueueReceiveInput{Queue: q.name, Limit: 1, LockMS: lock.Milliseconds(), WaitMS: wait.Milliseconds()}
	out, err := ask(ctx, q.t, method.QueueReceive, &in, askOptions{wait: wait})
	if err != nil || len(out.Messages) == 0 {
		return nil, err
	}
	return &out.Messages[0], nil
}

func (q remoteQueue) Ack(ctx context.Context, receipt string, reply host.Raw) (bool, error) {
	return lost(ask(ctx, q.t, method.QueueAck,
		&host.QueueAckInput{Queue: q.name, Receipts: []string{receipt}, Reply: reply}, askOptions{}))
}

func (q remoteQueue) Nack(ctx context.Context, receipt, cause string) (bool, error) {
	return lost(ask(ctx, q.t, method.QueueNack,
		&host.QueueNackInput{Queue: q.name, Receipts: []string{receipt}, Error: cause}, askOptions{}))
}

func (q remoteQueue) Extend(ctx context.Context, receipt string, lock time.Duration) (bool, error) {
	in := host.QueueExtendInput{Queue: q.name, Receipts: []string{receipt}, LockMS: lock.Milliseconds()}
	out, err := ask(ctx, q.t, method.QueueExtend, &in, askOptions{})
	return len(out.Lost) > 0, err
}

// lost reports whether a receipt is no longer valid.
func lost(out host.QueueSettleOutput, err error) (bool, error) { return len(out.Lost) > 0, err }
