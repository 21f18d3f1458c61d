package replay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
	"github.com/cairn-run/cairn/workflow/lazy"
)

// An Attempt is one execution of a step's body.
type Attempt struct {
	r       *Run
	t       *task
	number  int
	index   int    // in Run.inflight
	settled bool   // the step has the attempt's result, or needs none
	before  []byte // the progress that earlier attempts saved
	run     [16]byte
	epoch   uint32
	name    string // the path of the step
	ctx     StepCtx
	life    lazy.Context // ends when the body must end
	instead body         // of Replace; nil for the step's own
	asked   atomic.Bool  // an undo function has called Undoes

	// Guarded by Run.mu.
	running  bool  // the body runs
	stopped  error // not nil: the cause for which it must end
	listed   bool  // stands in Run.reported
	returned bool
	news     news
	commits  []func(*Tx) error
	notify   func()
	telling  bool // notify was called for progress that no Advance has read yet
}

// news is an attempt's report to its run.
type news struct {
	progress []byte // nil for none
	expired  bool   // its time limit passed before it returned
	late     bool   // it returned a result after its time limit, which counts
	returned bool
	// interrupted: the host ended its context, and it returned an error.
	interrupted bool
	result      result
}

// A result is the result of an attempt.
type result struct {
	output    []byte
	failure   *Failure
	misuse    string // not empty: the body breaks a rule, which pauses the run
	permanent bool   // the step must not be tried again
	definite  bool   // the failure is certain: there is nothing to undo
	after     time.Duration
	hasAfter  bool
	commits   []func(*Tx) error
}

// StepCtx is the context of a step's body.
type StepCtx struct {
	context.Context
	a    *Attempt
	host any
}

// Host returns the value that the host gives to bodies, such as its actor.
func (sc *StepCtx) Host() any { return sc.host }

// Attempt returns the number of the execution, from 1. Executions that a crash cut off count.
func (sc *StepCtx) Attempt() int { return sc.a.number }

// IdempotencyKey returns a string that is the same for all attempts of the step and for no other
// step, for services that recognize a repeated request.
func (sc *StepCtx) IdempotencyKey() string {
	return sc.a.key(sc.a.t.o.loc)
}

// key returns the idempotency key of the step at a location.
func (a *Attempt) key(loc journal.Location) string {
	dst := hex.AppendEncode(make([]byte, 0, 64), a.run[:])
	dst = append(dst, '.')
	dst = strconv.AppendUint(dst, uint64(a.epoch), 10)
	dst = append(dst, '.')
	return string(hex.AppendEncode(dst, loc))
}

// OnCommit registers fn to run within the transaction that records the step's success. Functions
// run in the order of the calls. If fn fails or panics, the transaction is undone, and the attempt
// fails with that error. If the step does not succeed, fn does not run. It must be quick, do
// nothing outside of the transaction, and not be nil.
func (sc *StepCtx) OnCommit(fn func(tx *Tx) error) {
	r := sc.a.r
	r.mu.Lock()
	defer r.mu.Unlock()
	sc.a.commits = append(sc.a.commits, fn)
}

// Progress saves a value for the next attempt, in case this one is cut off or fails. It is written
// soon, but Progress does not wait for that. Of values that follow quickly, only the last is
// written. The error is a *CodecError or a *TooLargeError.
func (sc *StepCtx) Progress(v any) error {
	a := sc.a
	data, err := a.r.program.encode(v)
	if err != nil {
		return err
	}
	if err := a.r.fits("progress of a step", data); err != nil {
		return err
	}
	a.r.mu.Lock()
	if a.returned { // a goroutine that the body left behind
		a.r.mu.Unlock()
		return nil
	}
	a.news.progress = data
	notify := a.notify
	if a.telling {
		notify = nil
	}
	a.telling = true
	a.list()
	a.r.mu.Unlock()
	if notify != nil {
		notify()
	}
	return nil
}

// LastProgress returns the value that an earlier attempt, or this one, saved last.
func LastProgress[T any](sc *StepCtx) (v T, ok bool) {
	a := sc.a
	a.r.mu.Lock()
	data := a.before
	if a.news.progress != nil {
		data = a.news.progress
	}
	a.r.mu.Unlock()
	if data == nil || a.r.program.decode(data, &v) != nil {
		var none T
		return none, false
	}
	return v, true
}

// A PanicError is the error of a step's body, or of a function within a transaction, that panics.
type PanicError struct {
	Value string // of the panic, printed
	Stack string
}

func (e *PanicError) Error() string { return "panic: " + e.Value }

var (
	errAttemptTimeout = fmt.Errorf("%w of the attempt", ErrTimeout)
	errGoexit         = errors.New("the function called runtime.Goexit, which a failed assertion of a test does")
)

// Name returns the path of the step, for logs.
func (a *Attempt) Name() string { return a.name }

// Replace makes Run execute fn instead of the step's body, and encode its result. It is for tests,
// and called before Run.
func (a *Attempt) Replace(fn func(sc *StepCtx) (any, error)) { a.instead = bodyOf(a.r.program, fn) }

// Run executes the body, on the calling goroutine. The host ends ctx to end the body: an error that
// the body returns afterwards is no outcome, and the attempt counts as not run. StepCtx.Host
// returns value. notify is called when the run must Advance before the body has returned. That may
// be on any goroutine; notify must not block, and may be nil.
//
// The next Advance after Run has returned handles the body's result. The error is only for the
// host's metrics and logs.
func (a *Attempt) Run(ctx context.Context, value any, notify func()) (err error) {
	host := ctx
	a.life.Init(host)
	ctx = &a.life
	defer a.life.Cancel(nil)
	a.r.mu.Lock()
	a.running, a.notify = true, notify
	if a.stopped != nil {
		a.life.Cancel(a.stopped)
	}
	a.r.mu.Unlock()
	if limit := a.t.options.timeout; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, errAttemptTimeout)
		defer stop()
		timed, over := ctx, make(chan struct{})
		release := context.AfterFunc(timed, func() {
			defer close(over)
			if context.Cause(timed) == errAttemptTimeout {
				a.expire()
			}
		})
		defer func() {
			if !release() {
				<-over
			}
		}()
	}
	a.ctx = StepCtx{Context: ctx, a: a, host: value}
	output, err := []byte(nil), errGoexit
	defer func() {
		a.finish(ctx, host, output, err)
		if err == errGoexit && notify != nil {
			notify() // the host's goroutine is on its way out
		}
	}()
	output, err = a.call()
	return err
}

// call runs the body.
func (a *Attempt) call() (output []byte, err error) {
	normal := false
	defer func() {
		if normal {
			return
		}
		if p := recover(); p != nil {
			if m, ok := p.(*MisuseError); ok {
				output, err = nil, &MisuseError{m.Text + "\n\n" + string(debug.Stack())}
				return
			}
			output, err = nil, &PanicError{fmt.Sprint(p), string(debug.Stack())}
		}
	}()
	fn := a.t.fn
	if a.instead != nil {
		fn = a.instead
	}
	output, err = fn(&a.ctx)
	normal = true
	if err == nil {
		err = a.r.checkSize(output)
	}
	return output, err
}

// checkSize refuses a result that is too large to be recorded. It runs on any goroutine.
func (r *Run) checkSize(output []byte) error {
	return Permanent(r.fits("the result", output))
}

// finish reports to the run that the body has returned.
func (a *Attempt) finish(ctx, host context.Context, output []byte, err error) {
	var res result
	if err != nil {
		res = a.r.program.resultOf(err, &a.t.options.retry)
		var permanent *permanentError
		res.definite = errors.As(err, &permanent) && res.misuse == "" && ctx.Err() == nil && !unclear(err)
	} else {
		res.output = output
	}
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	a.running = false
	a.returned, a.news.returned = true, true
	if context.Cause(ctx) == errAttemptTimeout {
		a.news.expired = true
	}
	if a.news.late = a.news.expired && err == nil && a.t.duty != nil; !a.news.expired || a.news.late {
		if err == nil {
			res.commits = a.commits
		}
		a.news.result = res
		a.news.interrupted = err != nil && host.Err() != nil
	}
	a.commits = nil
	a.list()
}

// expire reports to the run that the attempt's time is over.
func (a *Attempt) expire() {
	a.r.mu.Lock()
	if a.returned {
		a.r.mu.Unlock()
		return
	}
	a.news.expired = true
	a.list()
	notify := a.notify
	a.r.mu.Unlock()
	if notify != nil {
		notify()
	}
}

// stop ends the context of the attempt.
func (a *Attempt) stop(cause error) {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	a.stopped = cause
	if a.running {
		a.life.Cancel(cause)
	}
}

// list adds the attempt to Run.reported.
//
// REQUIRES: Run.mu is held.
func (a *Attempt) list() {
	if !a.listed {
		a.listed = true
		a.r.reported.push(a)
	}
}

// take returns the attempt's news and clears them.
func (a *Attempt) take() news {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	n := a.news
	if n.progress != nil {
		a.before = n.progress
	}
	a.news = news{expired: n.expired}
	a.telling = false
	return n
}

// nextReported returns the next attempt with news; nil if there is none.
func (r *Run) nextReported() *Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported.len() == 0 {
		return nil
	}
	a := r.reported.pop()
	a.listed = false
	return a
}

// land removes an attempt that has returned from Run.inflight.
func (a *Attempt) land() {
	r := a.r
	last := len(r.inflight) - 1
	if a.index > last || r.inflight[a.index] != a {
		return
	}
	r.inflight[a.index], r.inflight[last].index = r.inflight[last], a.index
	r.inflight[last] = nil
	r.inflight = r.inflight[:last]
}

// resultOf returns the result of an attempt whose body returned err. It runs on any goroutine.
func (p *Program) resultOf(err error, policy *RetryPolicy) (res result) {
	res.failure, res.misuse = p.failureOf(err), misuseOf(err)
	defer func() {
		if e := recover(); e != nil {
			res.permanent = true
			res.failure.Message += fmt.Sprintf(" (and a method of the error, or RetryPolicy.Retryable, panicked: %v)", e)
		}
	}()
	var permanent *permanentError
	if errors.As(err, &permanent) {
		res.permanent = true
		if res.failure.Reason == "" {
			res.failure.Reason = reasonPermanent
		}
		return res
	}
	var after *retryAfterError
	if errors.As(err, &after) {
		res.after, res.hasAfter = after.after, true
	}
	if policy.Retryable == nil {
		return res
	}
	res.permanent = !policy.Retryable(err)
	return res
}
