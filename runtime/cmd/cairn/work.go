package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

const (
	// maxWorkers bounds --workers.
	maxWorkers = 256
	// tailBytes is how much of what a command wrote to standard error is kept with its message.
	tailBytes = 900
	// maxReplyOutput bounds the standard output that becomes a reply.
	maxReplyOutput = 1 << 20
	// killAfter is how long a command may take to end once it was asked to.
	killAfter = 10 * time.Second
	// settleFor is how long to go on trying to settle a message after its lock has ended.
	settleFor = time.Minute
	// workRetry is the first pause after the node could not be asked; it doubles up to maxWorkRetry.
	workRetry    = 250 * time.Millisecond
	maxWorkRetry = 10 * time.Second
)

// A worker runs a command for each message of a queue.
type worker struct {
	*target
	queue   string
	command []string
	lock    time.Duration
	reply   bool
	drain   bool // end when the queue is empty

	printing     sync.Mutex // of stdout and stderr, which several commands share
	done, failed atomic.Int64
}

func (c *cli) queueWorkCommand() *cobra.Command {
	w := &worker{}
	workers := 1
	cmd := &cobra.Command{
		Use:               "work TYPE/KEY... QUEUE [flags] -- COMMAND [ARG...]",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.completeNamed(completions["QUEUE"]),
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			switch {
			case dash != 2 || len(args) < 3:
				return usagef("work needs an actor, a queue and, after --, a command")
			case workers < 1 || workers > maxWorkers:
				return usagef("--workers %d: 1 to %d", workers, maxWorkers)
			}
			if err := duration("lock", w.lock); err != nil {
				return err
			}
			if w.lock < time.Second {
				return usagef("--lock %s: at least 1s", w.lock)
			}
			if _, err := exec.LookPath(args[2]); err != nil {
				return usageError{err}
			}
			return c.on(func(ctx context.Context, t *target, args []string) error {
				w.target, w.queue, w.command = t, args[0], args[1:]
				return w.run(ctx, workers)
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&workers, "workers", 1, "how many commands run at a time")
	flags.DurationVar(&w.lock, "lock", host.DefaultQueueLock, "for how long to lock a message at a time; the lock is extended while the command runs")
	flags.BoolVar(&w.reply, "reply", false, "the command's standard output, JSON, is the reply for a sender that waits for one")
	flags.BoolVar(&w.drain, "drain", false, "end when there is nothing to receive; the exit status is 1 if every attempt failed")
	return cmd
}

// run works until ctx ends or, with --drain, the queue is empty.
func (w *worker) run(ctx context.Context, workers int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			if err := w.loop(ctx); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	if !w.c.json {
		w.c.note("%s done, %s failed", table.Plural(w.done.Load(), "message"), table.Count(w.failed.Load()))
	}
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if failed := w.failed.Load(); w.drain && failed > 0 && w.done.Load() == 0 {
		return fmt.Errorf("no message was done: %s failed", table.Plural(failed, "attempt"))
	}
	return nil
}

// loop receives a message and handles it, again and again. It waits for a node that is away; the error is one that
// waiting does not mend.
func (w *worker) loop(ctx context.Context) error {
	pause := workRetry
	for ctx.Err() == nil {
		wait := waitPiece
		if w.drain {
			wait = 0
		}
		received, err := w.receive(ctx, w.queue, 1, w.lock, wait)
		switch {
		case ctx.Err() != nil:
			return nil // a message that was received just now is back when its lock ends
		case err != nil && !passes(err):
			return err
		case err != nil:
			if pause == workRetry {
				w.say("%s; trying again", table.OneLine(err.Error()))
			}
			wait := time.NewTimer(pause)
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
			}
			pause = min(2*pause, maxWorkRetry)
			continue
		case len(received.Messages) == 0 && w.drain:
			return nil
		}
		pause = workRetry
		for i := range received.Messages {
			w.handle(context.WithoutCancel(ctx), &received.Messages[i])
		}
	}
	return nil
}

// passes reports whether an error is one that may go away by itself.
func passes(err error) bool {
	var e *host.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case host.Unavailable, host.Overloaded, host.ActorPaused, host.ActorFailed, host.DeadlineExceeded, host.Canceled, host.Crashed, host.Internal:
		return true
	}
	return e.Retryable
}

// say prints a note of one of several workers.
func (w *worker) say(format string, args ...any) {
	w.printing.Lock()
	defer w.printing.Unlock()
	w.c.note(format, args...)
}

// handle runs the command for a message and settles it.
func (w *worker) handle(ctx context.Context, m *host.ReceivedMessage) {
	start := time.Now()
	out, cause := w.execute(ctx, m)
	var lost *lockLost
	switch {
	case errors.As(cause, &lost):
	case cause != nil:
		in := host.QueueNackInput{Queue: w.queue, Receipts: []string{m.Receipt}, Error: cause.Error()}
		if err := settle(ctx, w, method.QueueNack, &in); err != nil {
			cause = fmt.Errorf("%w; and the message could not be given back: %w", cause, err)
		}
	default:
		in := host.QueueAckInput{Queue: w.queue, Receipts: []string{m.Receipt}, Reply: out}
		cause = settle(ctx, w, method.QueueAck, &in)
	}
	w.report(m, cause, time.Since(start))
}

// report prints the result for a message.
func (w *worker) report(m *host.ReceivedMessage, cause error, took time.Duration) {
	w.printing.Lock()
	defer w.printing.Unlock()
	line := struct {
		ID      uint64  `json:"id"`
		Attempt int     `json:"attempt"`
		Done    bool    `json:"done"`
		Seconds float64 `json:"seconds"`
		Error   string  `json:"error,omitempty"`
	}{m.ID, m.Attempt, cause == nil, took.Round(time.Millisecond).Seconds(), ""}
	if cause == nil {
		w.done.Add(1)
	} else {
		w.failed.Add(1)
		line.Error = cause.Error()
	}
	if w.c.json {
		_ = w.c.printJSON(line) // the message is settled whether or not it can be said
	} else if cause != nil {
		w.c.note("message %d, attempt %d: %s", m.ID, m.Attempt, table.OneLine(line.Error))
	}
}

// lockLost says that a message is no longer this worker's.
type lockLost struct{}

func (*lockLost) Error() string {
	return "the lock was lost: another worker may handle the message too"
}

// settle acknowledges a message or gives it back, and goes on trying while the node is away.
func settle[In any](ctx context.Context, w *worker, m method.Typed[In, host.QueueSettleOutput], in *In) error {
	pause, until := workRetry, time.Now().Add(w.lock+settleFor)
	for {
		out, err := ask(ctx, w.target, m, in, askOptions{})
		switch {
		case err == nil && len(out.Lost) > 0:
			return new(lockLost)
		case err == nil:
			return nil
		case !passes(err) || time.Now().Add(pause).After(until):
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, maxWorkRetry)
	}
}

// execute runs the command with the message. The result is the reply, if --reply asks for one.
func (w *worker) execute(ctx context.Context, m *host.ReceivedMessage) (host.Raw, error) {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	cmd := exec.CommandContext(ctx, w.command[0], w.command[1:]...)
	cmd.Env = append(os.Environ(), "CAIRN_ACTOR="+w.String(), "CAIRN_QUEUE="+w.queue,
		"CAIRN_MESSAGE_ID="+strconv.FormatUint(m.ID, 10), "CAIRN_ATTEMPT="+strconv.Itoa(m.Attempt))
	cmd.Stdin = bytes.NewReader(m.Body)
	tail := &tail{}
	cmd.Stderr = &shared{mu: &w.printing, w: w.c.stderr, also: tail}
	var out capped
	switch {
	case w.reply:
		cmd.Stdout = &out
	case w.c.json:
		cmd.Stdout = &shared{mu: &w.printing, w: w.c.stderr}
	default:
		cmd.Stdout = &shared{mu: &w.printing, w: w.c.stdout}
	}
	cmd.WaitDelay = killAfter
	apart(cmd)

	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() { w.hold(ctx, m, ended, kill) })
	err := cmd.Run()
	close(ended)
	wg.Wait()
	var lost *lockLost
	switch {
	case errors.As(context.Cause(ctx), &lost):
		return nil, lost
	case err != nil && tail.text() != "":
		return nil, fmt.Errorf("%w: %s", err, tail.text())
	case err != nil:
		return nil, err
	case !w.reply:
		return nil, nil
	case out.over:
		return nil, fmt.Errorf("the command wrote more than %s, which is no reply", table.Size(maxReplyOutput))
	case !json.Valid(out.b.Bytes()):
		return nil, errors.New("what the command wrote is not JSON, so that it is no reply")
	}
	return bytes.TrimSpace(out.b.Bytes()), nil
}

// hold extends the lock of a message until the command ended, each time after a third of it. When the node says that the
// lock is lost it ends the command; a node that is away says nothing. Times of the node are not compared with the clock of
// this machine.
func (w *worker) hold(ctx context.Context, m *host.ReceivedMessage, ended <-chan struct{}, kill context.CancelCauseFunc) {
	pause := w.lock / 3
	for {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ended:
			timer.Stop()
			return
		}
		in := host.QueueExtendInput{Queue: w.queue, Receipts: []string{m.Receipt}, LockMS: w.lock.Milliseconds()}
		out, err := ask(ctx, w.target, method.QueueExtend, &in, askOptions{})
		switch {
		case err == nil && len(out.Lost) == 0:
			pause = w.lock / 3
		case err == nil, !passes(err):
			kill(new(lockLost))
			return
		default:
			pause = min(pause, workRetry)
		}
	}
}

// A shared writer lets several commands write to one stream, a piece at a time, and keeps the end in also.
type shared struct {
	mu   *sync.Mutex
	w    interface{ Write([]byte) (int, error) }
	also *tail
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.also != nil {
		s.also.add(b)
	}
	return s.w.Write(b)
}

// A tail keeps the end of what is added.
type tail struct{ b []byte }

func (t *tail) add(b []byte) {
	t.b = append(t.b, b...)
	if len(t.b) > 2*tailBytes {
		t.b = append(t.b[:0], t.b[len(t.b)-tailBytes:]...)
	}
}

// text is the end, as valid UTF-8 of at most tailBytes.
func (t *tail) text() string {
	b := bytes.TrimSpace(t.b)
	b = b[max(0, len(b)-tailBytes):]
	return string(bytes.ToValidUTF8(b, nil))
}

// A capped buffer takes maxReplyOutput and drops the rest.
type capped struct {
	b    bytes.Buffer
	over bool
}

func (l *capped) Write(b []byte) (int, error) {
	if l.b.Len()+len(b) > maxReplyOutput {
		l.over = true
		return len(b), nil
	}
	return l.b.Write(b)
}
