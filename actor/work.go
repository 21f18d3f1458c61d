package actor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// minSettle is how long settling a message is tried at least, however little of its lock is left.
const minSettle = time.Second

// Work receives messages of a queue that was declared with [Workers] and runs f on each, up to
// workers at a time. While f runs, the message's lock is extended. When f returns nil the message
// is done. When it returns an error or panics, the message is given back as a failed attempt. f may
// also settle it by itself. Each message is handled at least once: a handled message comes again if
// the worker or the node dies before the acknowledgement is durable.
//
// The context of f ends with ctx, and when the lock was lost, because the node could not be reached
// for its whole time; then what f returns does not count. A message that f gives up because ctx
// ended is tried again at once.
//
// Work goes on after errors that are retryable. It returns nil when ctx has ended and what was
// running is settled, or the [*Error] that it cannot work around, after the same. It waits for f to
// return.
func (q *Queue[S, In]) Work(
	ctx context.Context, ref Ref[S], workers int, f func(context.Context, *Delivery[In]) error, opts ...WorkOption,
) error {
	if f == nil {
		return Errorf(InvalidArgument, "%s: Work needs a function", q.decl)
	}
	return work(ctx, &q.queue, ref, workers, opts, func(ctx context.Context, m Message, body In, l *lease) (host.Raw, error) {
		return nil, f(ctx, &Delivery[In]{Message: m, Body: body, lease: l})
	})
}

// Work is [Queue.Work]; what f returns is the reply.
func (q *RequestQueue[S, In, Out]) Work(
	ctx context.Context, ref Ref[S], workers int, f func(context.Context, *RequestDelivery[In, Out]) (Out, error), opts ...WorkOption,
) error {
	if f == nil {
		return Errorf(InvalidArgument, "%s: Work needs a function", q.decl)
	}
	return work(ctx, &q.queue, ref, workers, opts, func(ctx context.Context, m Message, body In, l *lease) (host.Raw, error) {
		out, err := f(ctx, q.delivery(m, body, l))
		if err != nil || l.over() {
			return nil, err
		}
		return q.encodeReply(&out)
	})
}

func work[S, In any](
	ctx context.Context, q *queue[S, In], ref Ref[S], workers int, opts []WorkOption,
	f func(context.Context, Message, In, *lease) (host.Raw, error),
) error {
	at, err := q.site(ref)
	if err != nil {
		return err
	}
	if workers < 1 {
		return Errorf(InvalidArgument, "%s: Work with %d workers", q.decl, workers)
	}
	settings := q.decl.queue
	settings.EnsureDefaults()
	r := receiving{lock: settings.Lock}
	for _, o := range opts {
		o.applyWork(&r)
	}
	if r.lock < time.Millisecond {
		return Errorf(InvalidArgument, "%s: a lock of %s is too short", q.decl, r.lock)
	}
	c := &crew{site: at, queue: q.name, lock: r.lock, free: make(chan struct{}, workers)}
	c.handle = func(ctx context.Context, l *lease, m *host.ReceivedMessage) (host.Raw, error) {
		body, err := q.decodeBody(m)
		if err != nil {
			return nil, err
		}
		return f(ctx, messageOf(m), body, l)
	}
	for range workers {
		c.free <- struct{}{}
	}
	return c.run(ctx)
}

// A crew is the workers of one Work: one goroutine receives for all of them.
//
//  1. free holds a token for each idle worker; each requested message takes a token.
//  2. No worker outlives run.
type crew struct {
	site   site
	queue  string
	lock   time.Duration
	free   chan struct{}
	handle func(context.Context, *lease, *host.ReceivedMessage) (host.Raw, error)
}

// run receives messages and hands them out until ctx ends or something fails for good.
func (c *crew) run(ctx context.Context) error {
	receiving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	var pause pacer
	for {
		workers := c.takeFree(receiving)
		if workers == 0 {
			break
		}
		start := time.Now()
		got, err := c.site.receive(receiving, c.queue, c.asks(workers))
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
			pause.waited(receiving, start, len(got) == 0)
		case receiving.Err() != nil:
		case again(err):
			pause.pause(receiving)
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

func (c *crew) asks(workers int) receiving {
	return receiving{limit: workers, lock: c.lock, wait: waitSlice}
}

// takeFree waits for a worker that has nothing to do and takes all there are. It returns 0 when ctx
// has ended.
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

// one handles a message and settles it. The error is why settling it failed for good.
func (c *crew) one(ctx context.Context, m *host.ReceivedMessage, received time.Time) error {
	l := newLease(c.site, m)
	handling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop() // also when the handler ends its goroutine
	k := &keeper{lease: l, lock: c.lock, held: received}
	var kept sync.WaitGroup
	kept.Go(func() { k.keep(keeping, cancel) })
	reply, err := c.protect(handling, l, m)
	stop()
	kept.Wait()
	if l.over() || k.gone {
		return nil
	}
	settling, stop := context.WithTimeout(context.WithoutCancel(ctx), max(time.Until(k.held.Add(c.lock)), minSettle))
	defer stop()
	if err == nil {
		err = settle(settling, func() error { return l.ack(settling, reply) })
		if err == nil {
			return nil
		}
		// The reply was refused, because it is too large, say: that is a failure of the handler.
	}
	return settle(settling, func() error { return l.nack(settling, err, nackOptions(ctx, err)) })
}

// nackOptions makes a message that was given up because the work ends be tried again at once.
func nackOptions(ctx context.Context, err error) []NackOption {
	if ctx.Err() == nil {
		return nil
	}
	if code := CodeOf(err); code != Canceled && code != DeadlineExceeded {
		return nil
	}
	return []NackOption{RetryAfter(0)}
}

// protect runs the handler and makes an error of a panic.
func (c *crew) protect(ctx context.Context, l *lease, m *host.ReceivedMessage) (reply host.Raw, err error) {
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, Errorf(Crashed, "the worker panicked: %v%s", p, panicPlace())
		}
	}()
	return c.handle(ctx, l, m)
}

// panicPlace says where the panic came from that is being recovered.
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

// settle repeats f while it fails in a way that may pass and ctx lasts. A message that is settled
// already, or cannot be settled in time, is no error: it comes again.
func settle(ctx context.Context, f func() error) error {
	var pause pacer
	for {
		err := f()
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, &Error{Code: FailedPrecondition}):
			return nil
		case !again(err):
			return err
		case !pause.pause(ctx):
			return nil
		}
	}
}

// A keeper extends the lock of a message while it is handled.
type keeper struct {
	lease *lease
	lock  time.Duration

	// held is when the lock was last known to begin, and gone says that it ended. Written by keep,
	// to be read after it.
	held time.Time
	gone bool
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
		case k.lease.over(), !again(err), time.Since(k.held) >= k.lock:
			k.gone = true
			lost(err)
			return
		default:
			timer.Reset(max(k.lock/8, time.Millisecond))
		}
	}
}

// extend asks for a longer lock, and gives up the call while there is time for another.
func (k *keeper) extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(k.lock/4, time.Millisecond))
	defer cancel()
	return k.lease.extend(ctx, k.lock)
}
