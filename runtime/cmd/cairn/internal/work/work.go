// Package work runs a command for each message of a queue.
package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/retry"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// settleFor is how long to go on trying to settle a message after its lock has ended.
const settleFor = time.Minute

// A Queue is where messages come from. A receipt names a message that is locked; what is done with
// one reports whether the lock was lost, so that nothing was done. Its methods are called by
// several goroutines at a time.
type Queue interface {
	// Receive waits for a message and locks it; nil if there is none.
	Receive(ctx context.Context, lock, wait time.Duration) (*host.ReceivedMessage, error)
	// Ack removes a message that was handled. The reply, nil for none, is for a sender that waits
	// for one.
	Ack(ctx context.Context, receipt string, reply host.Raw) (lost bool, err error)
	// Nack gives a message back, which may be tried again.
	Nack(ctx context.Context, receipt, cause string) (lost bool, err error)
	// Extend makes the lock end so long from now.
	Extend(ctx context.Context, receipt string, lock time.Duration) (lost bool, err error)
}

// A Worker runs a command for each message of a queue.
type Worker struct {
	Queue   Queue
	Command []string      // the command and its arguments
	Env     []string      // what its environment has besides that of this process
	Count   int           // how many commands run at a time
	Lock    time.Duration // a message is locked for so long, and again before that ends
	Wait    time.Duration // how long one request waits for a message
	Reply   bool          // what the command writes is the reply, in JSON
	Drain   bool          // end when the queue is empty
	// Stdout and Stderr get what commands write, Note lines for the terminal, and Report the result
	// for each attempt; all of them one at a time.
	Stdout, Stderr io.Writer
	Note           func(text string)
	Report         func(Result)

	printing     sync.Mutex // one of Stdout, Stderr, Note and Report at a time
	done, failed atomic.Int64
}

// A Result is the result of one attempt to handle a message.
type Result struct {
	ID      uint64  `json:"id"`
	Attempt int     `json:"attempt"`
	Done    bool    `json:"done"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// Run works, once, until ctx ends or, with Drain, the queue is empty. It returns how many messages
// were done and how many attempts failed, and the error that waiting does not mend, or that of a
// queue that was emptied without one success.
func (w *Worker) Run(ctx context.Context) (done, failed int64, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range w.Count {
		wg.Go(func() {
			if err := w.loop(ctx); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	done, failed = w.done.Load(), w.failed.Load()
	switch err := context.Cause(ctx); {
	case err != nil && !errors.Is(err, context.Canceled):
		return done, failed, err
	case w.Drain && failed > 0 && done == 0:
		return done, failed, fmt.Errorf("no message was done: %s failed", table.Plural(failed, "attempt"))
	}
	return done, failed, nil
}

// loop receives a message and handles it, again and again. It waits for a node that is away; the
// error is one that waiting does not mend.
func (w *Worker) loop(ctx context.Context) error {
	wait := w.Wait
	if w.Drain {
		wait = 0
	}
	var away retry.Backoff
	for ctx.Err() == nil {
		m, err := w.Queue.Receive(ctx, w.Lock, wait)
		switch {
		case ctx.Err() != nil:
			return nil // a message that was received just now is back when its lock ends
		case err != nil && !retry.Passes(err):
			return err
		case err != nil:
			if away.First() {
				w.one(func() { w.Note(table.OneLine(err.Error()) + "; trying again") })
			}
			away.Wait(ctx)
			continue
		case m == nil && w.Drain:
			return nil
		}
		away.Reset()
		if m != nil {
			w.handle(context.WithoutCancel(ctx), m)
		}
	}
	return nil
}

// one calls f while nothing else is printed.
func (w *Worker) one(f func()) {
	w.printing.Lock()
	defer w.printing.Unlock()
	f()
}

// errLost says that a message is no longer this worker's.
var errLost = errors.New("the lock was lost: another worker may handle the message too")

// handle runs the command for a message, settles the message and reports.
func (w *Worker) handle(ctx context.Context, m *host.ReceivedMessage) {
	start := time.Now()
	out, cause := w.execute(ctx, m)
	switch {
	case errors.Is(cause, errLost):
	case cause != nil:
		if err := w.settle(func() (bool, error) { return w.Queue.Nack(ctx, m.Receipt, cause.Error()) }); err != nil {
			cause = fmt.Errorf("%w; and the message could not be given back: %w", cause, err)
		}
	default:
		cause = w.settle(func() (bool, error) { return w.Queue.Ack(ctx, m.Receipt, out) })
	}
	r := Result{ID: m.ID, Attempt: m.Attempt, Done: cause == nil,
		Seconds: time.Since(start).Round(time.Millisecond).Seconds()}
	if r.Done {
		w.done.Add(1)
	} else {
		w.failed.Add(1)
		r.Error = cause.Error()
	}
	w.one(func() { w.Report(r) })
}

// settle acknowledges a message or gives it back, and goes on trying while the node is away.
func (w *Worker) settle(try func() (lost bool, err error)) error {
	var away retry.Backoff
	for until := time.Now().Add(w.Lock + settleFor); ; away.Wait(context.Background()) {
		lost, err := try()
		switch {
		case err == nil && lost:
			return errLost
		case err == nil:
			return nil
		case !retry.Passes(err) || time.Now().Add(away.Peek()).After(until):
			return err
		}
	}
}

// hold extends the lock of a message until the command has ended, each time after a third of it.
// When the node says that the lock is lost it ends the command; a node that is away says nothing.
// Times of the node are not compared with the clock of this machine.
func (w *Worker) hold(ctx context.Context, m *host.ReceivedMessage, ended <-chan struct{},
	kill context.CancelCauseFunc) {
	pause := w.Lock / 3
	for {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ended:
			timer.Stop()
			return
		}
		lost, err := w.Queue.Extend(ctx, m.Receipt, w.Lock)
		switch {
		case err == nil && !lost:
			pause = w.Lock / 3
		case err == nil, !retry.Passes(err):
			kill(errLost)
			return
		default:
			pause = min(pause, retry.Shortest)
		}
	}
}
