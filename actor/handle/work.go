package handle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// minSettle is the least time to try to settle a message, even if its lock ends sooner.
const minSettle = time.Second

// A WorkConfig configures [Queue.Work]. Zero fields have defaults.
type WorkConfig struct {
	// Workers is how many messages are handled at a time; 0 is one.
	Workers int
	// Lock is how long a message is locked, and again with each extension, 1 ms to 30 days; 0 is
	// the queue's time.
	Lock time.Duration
}

// Work receives messages of a queue with workers and runs f on each. While f runs, Work extends the
// lock of the message. If f returns no error, the message is done, and a sender that waits for a
// reply gets the result of f. If f returns an error or panics, the message is given back as a
// failed attempt. f may also settle the message itself. Each message is handled at least once: a
// handled message comes again if the worker or the node dies before the acknowledgement is durable.
//
// The context of f ends with ctx. It also ends when the lock is lost because the node could not be
// reached in time; the result of f then does not count. A message that f gives up because ctx ended
// is tried again at once.
//
// Work goes on after retryable errors. When ctx ends, Work waits for f, settles the running
// messages and returns nil. After an error that is not retryable it does the same and returns the
// error. The error code is FailedPrecondition if the actor itself handles the queue, and Destroyed
// if the actor is destroyed: at once if a worker waits, otherwise when Work next calls the actor.
// If the actor was created again before that call, Work goes on with the messages of the new one.
func (q Queue[In, Out]) Work(
	ctx context.Context, cfg WorkConfig, f func(context.Context, *Delivery[In, Out]) (Out, error),
) error {
	var open opener
	if f != nil {
		open = func(m *host.ReceivedMessage) (*lease, handler) {
			d := &Delivery[In, Out]{lease: new(lease)}
			err := q.open(m, d.lease, &d.Message, &d.Body)
			return d.lease, func(ctx context.Context) (any, error) {
				if err != nil {
					return nil, err
				}
				out, err := f(ctx, d)
				return &out, err
			}
		}
	}
	return q.work(ctx, cfg, open)
}

func (q *queue) work(ctx context.Context, cfg WorkConfig, open opener) error {
	switch {
	case q.site.Fault != nil:
		return q.site.Fault
	case open == nil:
		return host.Errorf(host.InvalidArgument, "%s: Work needs a function", q.site.Contract)
	case cfg.Workers < 0:
		return host.Errorf(host.InvalidArgument, "%s: Work with %d workers", q.site.Contract, cfg.Workers)
	}
	lock := cmp.Or(cfg.Lock, q.lock)
	if lock < time.Millisecond {
		return host.Errorf(host.InvalidArgument, "%s: a lock of %s is too short", q.site.Contract, lock)
	}
	workers := max(cfg.Workers, 1)
	c := &crew{queue: q, lock: lock, free: make(chan struct{}, workers), open: open}
	for range workers {
		c.free <- struct{}{}
	}
	return c.run(ctx)
}

// An opener returns the lease of a message and its handler.
type opener func(*host.ReceivedMessage) (*lease, handler)

// A handler handles one message and returns a pointer to the reply.
type handler func(context.Context) (any, error)

// A crew is the workers of one Work: one goroutine receives for all of them.
//
//  1. free holds a token for each idle worker; each requested message takes a token.
//  2. No worker outlives run.
type crew struct {
	queue *queue
	lock  time.Duration
	free  chan struct{}
	open  opener
}

// run receives messages and hands them out until ctx ends or an error is permanent.
func (c *crew) run(ctx context.Context) error {
	receiving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	var pause site.Pacer
	for {
		workers := c.takeFree(receiving)
		if workers == 0 {
			break
		}
		start := time.Now()
		got, err := c.queue.receive(receiving, ReceiveConfig{Max: workers, Lock: c.lock, Wait: site.WaitSlice})
		got = got[:min(len(got), workers)]
		for range workers - len(got) {
			c.free <- struct{}{}
		}
		received := time.Now()
		for i := range got {
			running.Go(func() {
				defer func() { c.free <- struct{}{} }()
				if err := c.one(ctx, &got[i], received); err != nil {
					stop(err)
				}
			})
		}
		switch {
		case err == nil:
			pause.Waited(receiving, start, len(got) == 0)
		case receiving.Err() != nil:
		case site.Again(err):
			pause.Pause(receiving)
		default:
			stop(err)
		}
	}
	running.Wait()
	cause := context.Cause(receiving)
	if ctx.Err() != nil && cause == context.Cause(ctx) {
		return nil
	}
	return cause
}

// takeFree waits for an idle worker and takes all idle ones. It returns 0 when ctx has ended.
func (c *crew) takeFree(ctx context.Context) int {
	select {
	case <-c.free:
	case <-ctx.Done():
		return 0
	}
	n := 1
	for ; n < host.MaxQueueBatch; n++ {
		select {
		case <-c.free:
			continue
		default:
		}
		break
	}
	if ctx.Err() != nil {
		return 0 // the tokens are no longer needed
	}
	return n
}

// one handles a message and settles it. It returns an error if settling failed for good.
func (c *crew) one(ctx context.Context, m *host.ReceivedMessage, received time.Time) error {
	l, handle := c.open(m)
	handling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop() // also when the handler ends its goroutine
	k := &keeper{lease: l, lock: c.lock, held: received}
	var kept sync.WaitGroup
	kept.Go(func() { k.keep(keeping, cancel) })
	reply, err := protect(handling, l, handle)
	stop()
	kept.Wait()
	switch {
	case host.CodeOf(k.lost) == host.Destroyed:
		return k.lost
	case l.over(), k.lost != nil:
		return nil
	}
	settling, stop := context.WithTimeout(context.WithoutCancel(ctx), max(time.Until(k.held.Add(c.lock)), minSettle))
	defer stop()
	if err == nil {
		err = settle(settling, func() error { return l.ack(settling, reply) })
		if err == nil {
			return nil
		}
		// A refused reply, such as one that is too large, is a failure of the handler.
	}
	return settle(settling, func() error { return l.nack(settling, err, givenBack(ctx, err), false) })
}

// givenBack returns the pause before a message is tried again: 0 if it was given up because the
// work ends, and nil for the queue's pause.
func givenBack(ctx context.Context, err error) *int64 {
	if code := host.CodeOf(err); ctx.Err() != nil && (code == host.Canceled || code == host.DeadlineExceeded) {
		return new(int64)
	}
	return nil
}

// protect runs the handler, encodes its reply, and turns a panic into an error.
func protect(ctx context.Context, l *lease, handle handler) (reply host.Raw, err error) {
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, host.Errorf(host.Crashed, "the worker panicked: %v%s", p, panicPlace())
		}
	}()
	out, err := handle(ctx)
	if err != nil || l.over() {
		return nil, err
	}
	return l.of.encodeReply(out)
}

// panicPlace returns the place of the panic that is being recovered.
func panicPlace() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	panicking := false
	for {
		f, more := frames.Next()
		if panicking && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf(" (%s:%d)", filepath.Base(f.File), f.Line)
		}
		panicking = panicking || f.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

// settle repeats f after temporary errors until ctx ends. A message that is settled already, or
// cannot be settled in time, is no error: it comes again.
func settle(ctx context.Context, f func() error) error {
	var pause site.Pacer
	for {
		err := f()
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, &host.Error{Code: host.FailedPrecondition}):
			return nil
		case !site.Again(err):
			return err
		case !pause.Pause(ctx):
			return nil
		}
	}
}

// A keeper extends the lock of a message while it is handled.
type keeper struct {
	lease *lease
	lock  time.Duration

	// held is the last known beginning of the lock, and lost the reason of its end. keep writes
	// them; read them after it returned.
	held time.Time
	lost error
}

// keep extends the lock at half its time until ctx ends or the lock is lost: then it calls lost.
func (k *keeper) keep(ctx context.Context, lost context.CancelCauseFunc) {
	timer := time.NewTimer(k.lock / 2)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if k.lease.over() {
			return // settled by the handler
		}
		asked := time.Now()
		err := k.extend(ctx)
		switch {
		case err == nil:
			k.held = asked
			timer.Reset(k.lock / 2)
		case ctx.Err() != nil, k.lease.isSettled():
			return
		case k.lease.over(), !site.Again(err), time.Since(k.held) >= k.lock:
			k.lost = err
			lost(err)
			return
		default:
			timer.Reset(max(k.lock/8, time.Millisecond))
		}
	}
}

// extend extends the lock, and ends the call while there is time for another.
func (k *keeper) extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(k.lock/4, time.Millisecond))
	defer cancel()
	return k.lease.Extend(ctx, k.lock)
}
