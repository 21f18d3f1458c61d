package replay

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// An Exhausted policy says what happens when the attempts of a step are used up.
type ExhaustedPolicy uint8

const (
	// Fail returns the error to the workflow function.
	Fail ExhaustedPolicy = iota
	// PauseRun pauses the run until Resume, which grants the step as many attempts again.
	PauseRun
)

// A RetryPolicy says when a step is tried again. Zero fields have defaults.
type RetryPolicy struct {
	// MaxAttempts bounds the executions, including attempts cut off by a crash: 0 means 4, -1 no limit.
	MaxAttempts int
	// Initial is the wait after the first failure, 0 means 100 ms; Max bounds every wait, 0 means 30 s.
	Initial, Max time.Duration
	// Factor multiplies the wait after each further failure, 0 means 2, less than 1 is refused. Jitter shortens or prolongs it
	// by up to this fraction, at random: 0 means 0.2, -1 none, more than 1 is refused.
	Factor, Jitter float64
	// MaxElapsed bounds the time from the begin of the step to the begin of an attempt; 0 for no limit.
	MaxElapsed time.Duration
	// Retryable reports whether the step is tried again after an error; nil means after all errors except those of Permanent.
	// A result of false says nothing about the step's effects; Permanent does. Retryable runs on the body's goroutine.
	Retryable func(error) bool
	// OnExhausted applies when the attempts, or MaxElapsed, are used up.
	OnExhausted ExhaustedPolicy
}

func (p *RetryPolicy) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("RetryPolicy."+format, args...)) }
	if p.MaxAttempts < -1 {
		bad("MaxAttempts %d: want -1 for no limit, 0 for the default, or more", p.MaxAttempts)
	}
	if p.Initial < 0 || p.Max < 0 || p.MaxElapsed < 0 {
		bad("Initial %v, Max %v, MaxElapsed %v: negative", p.Initial, p.Max, p.MaxElapsed)
	}
	if p.Factor != 0 && !(p.Factor >= 1) || math.IsInf(p.Factor, 0) {
		bad("Factor %v: want 0 for the default, or at least 1", p.Factor)
	}
	if p.Jitter != -1 && !(p.Jitter >= 0 && p.Jitter <= 1) {
		bad("Jitter %v: want -1 for none, 0 for the default, or up to 1", p.Jitter)
	}
	if p.OnExhausted > PauseRun {
		bad("OnExhausted %d: unknown", p.OnExhausted)
	}
	return errors.Join(errs...)
}

// maxAttempts returns the bound, 0 for none.
func (p *RetryPolicy) maxAttempts() uint32 {
	switch {
	case p.MaxAttempts < 0:
		return 0
	case p.MaxAttempts == 0:
		return 4
	default:
		return uint32(min(p.MaxAttempts, math.MaxUint32))
	}
}

// wait returns the wait after the n-th failure. random is at least 0 and less than 1.
func (p *RetryPolicy) wait(n uint32, random float64) time.Duration {
	initial, limit, factor, jitter := p.Initial, p.Max, p.Factor, p.Jitter
	if initial == 0 {
		initial = 100 * time.Millisecond
	}
	if limit == 0 {
		limit = 30 * time.Second
	}
	if factor == 0 {
		factor = 2
	}
	switch jitter {
	case 0:
		jitter = 0.2
	case -1:
		jitter = 0
	}
	d := float64(initial) * math.Pow(factor, float64(n)-1)
	d = min(d, float64(limit)) * (1 + jitter*(2*random-1))
	return time.Duration(min(d, float64(limit)))
}

// stepOptions are what StepOptions set.
type stepOptions struct {
	retry         RetryPolicy
	timeout       time.Duration
	total         time.Duration
	failOnTimeout bool
	atMostOnce    bool
	deferred      bool
	sensitive     bool
	cancelable    bool
	undo          undoBy
}

// A StepOption is an option of a step.
type StepOption interface{ step(*stepOptions) error }

type stepOption func(*stepOptions) error

func (o stepOption) step(s *stepOptions) error { return o(s) }

// Retry sets how a step is tried again.
func Retry(p RetryPolicy) StepOption {
	return stepOption(func(o *stepOptions) error {
		o.retry = p
		return p.validate()
	})
}

// Timeout bounds one attempt.
func Timeout(d time.Duration) StepOption {
	return stepOption(func(o *stepOptions) error {
		o.timeout = d
		return notNegativeDuration("Timeout", d)
	})
}

// FailOnTimeout fails the step when an attempt exceeds its Timeout, instead of trying again.
func FailOnTimeout() StepOption {
	return stepOption(func(o *stepOptions) error { o.failOnTimeout = true; return nil })
}

// TotalTimeout bounds the step with all its attempts and the waits between them.
func TotalTimeout(d time.Duration) StepOption {
	return stepOption(func(o *stepOptions) error {
		o.total = d
		return notNegativeDuration("TotalTimeout", d)
	})
}

func notNegativeDuration(option string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s(%v): negative", option, d)
	}
	return nil
}

// AtMostOnce records that the body is about to run before it does.
func AtMostOnce() StepOption {
	return stepOption(func(o *stepOptions) error { o.atMostOnce = true; return nil })
}

// Deferred lets later operations begin before the step's result is durable.
func Deferred() StepOption {
	return stepOption(func(o *stepOptions) error { o.deferred = true; return nil })
}

// Sensitive hides the result of a step from readers of the history.
func Sensitive() StepOption {
	return stepOption(func(o *stepOptions) error { o.sensitive = true; return nil })
}

// A body is the function of a step: it returns the encoded result.
type body func(sc *StepCtx) ([]byte, error)

// A task is a step that has not ended: its attempts, one after another.
//
//  1. meta.Attempts counts the executions that have begun. While the next one waits for its time, meta.Due is set; while one
//     is running, it is zero. The first execution leaves no row before it ends; all further ones are recorded before they
//     begin. So a cold start knows which executions a crash has cut off.
//  2. attempt is the running one. The next is launched only after it has returned, even if the step has given it up.
type task struct {
	o       *op
	fn      body
	options *stepOptions
	meta    Metadata
	attempt *Attempt
	ready   bool   // it is launched as soon as attempt is nil
	since   uint64 // Run.turns when it was added to Run.starting
	retry   timer
	limit   timer             // TotalTimeout
	save    func()            // replaces record for an undo, which is never given up
	undoes  *pledge           // of an undo
	duty    *duty             // nil for a step that is never undone
	commits []func(*Tx) error // they run as the step ends
	refused *result           // the attempt's result if one of commits failed
	first   Attempt           // the memory of the first attempt
}

// A stepOp is the memory of a step, in one piece.
type stepOp struct {
	op   op
	task task
}

// Step runs fn outside of the run, where it may do anything, and records its result.
func Step[T any](ctx Context, name string, fn func(sc *StepCtx) (T, error), options ...StepOption) (T, error) {
	s := ctx.scope()
	o, err := s.startStep(name, bodyOf(s.run.program, fn), nil, options)
	if err != nil {
		var none T
		return none, err
	}
	mustEncode[T](s, o)
	o.wait(s.owner)
	return stepResult[T](o)
}

// bodyOf returns fn without its type.
func bodyOf[T any](p *Program, fn func(sc *StepCtx) (T, error)) body {
	if fn == nil {
		return nil
	}
	return func(sc *StepCtx) ([]byte, error) {
		v, err := fn(sc)
		if err != nil {
			return nil, err
		}
		data, err := p.encode(v)
		if err != nil {
			return nil, &resultError{err}
		}
		return data, nil
	}
}

// stepResult returns what a step that has ended came to.
func stepResult[T any](o *op) (v T, err error) {
	if err := o.stepError(); err != nil {
		return v, err
	}
	o.decodeOutput(&v)
	return v, nil
}

// decodeOutput decodes the recorded result. If it cannot be, the program is not the one that recorded it, and it does not
// return.
//
// REQUIRES: called on a coroutine.
func (o *op) decodeOutput(v any) {
	r := o.s.run
	if err := r.decode(o.entry.Output, v); err != nil {
		r.fail(PausedDiverged, fmt.Sprintf("the recorded result of %s %q is not what the code expects: %v%s", o.entry.Kind, o.s.pathOf(o.name), err, callSite()))
		r.hang(r.current.Load())
	}
}

// Do is Step without a result.
func Do(ctx Context, name string, fn func(sc *StepCtx) error, options ...StepOption) error {
	s := ctx.scope()
	var b body
	if fn != nil {
		b = func(sc *StepCtx) ([]byte, error) {
			if err := fn(sc); err != nil {
				return nil, err
			}
			return encodedNil, nil
		}
	}
	o, err := s.startStep(name, b, nil, options)
	if err != nil {
		return err
	}
	o.wait(s.owner)
	return o.stepError()
}

// encodedNil is what operations without a result record.
var encodedNil = []byte{0xF6}

// Begin begins a step and returns at once.
func Begin[T any](ctx Context, name string, fn func(sc *StepCtx) (T, error), options ...StepOption) (*Future[T], error) {
	s := ctx.scope()
	o, err := s.startStep(name, bodyOf(s.run.program, fn), nil, options)
	if err != nil {
		return nil, err
	}
	mustEncode[T](s, o)
	s.futures = append(s.futures, o)
	return &Future[T]{o, stepResult[T]}, nil
}

// startStep begins a step. undo is the function of the code that undoes it; nil for none.
func (s *scope) startStep(name string, fn body, undo undoing, options []StepOption) (*op, error) {
	var so *stepOp
	var o *op
	if s.run.image == nil {
		so = new(stepOp)
		o = &so.op
	} else {
		o = new(op) // most likely it has ended
	}
	if err := s.beginOp(o, KindStep, name); err != nil {
		return nil, err
	}
	if o.done || o.replay != 0 {
		o.reoblige(undo)
		return o, nil
	}
	var t *task
	if so != nil {
		t = &so.task
	} else {
		t = new(task)
	}
	opts, err := s.stepOptions(name, options)
	if fn == nil && err == nil {
		err = errors.New("the function is nil")
	}
	if err == nil {
		t.duty, err = o.dutyOf(opts.undo, undo)
	}
	if err != nil {
		s.misuse(s.owner, fmt.Sprintf("step %q: %v", s.pathOf(name), err))
	}
	s.attempt(o, t, fn, opts)
	return o, nil
}

// stepOptions returns the options of a step.
func (s *scope) stepOptions(name string, options []StepOption) (*stepOptions, error) {
	defaults := &s.run.program.config.steps
	if len(options) == 0 {
		return defaults, nil
	}
	all := *defaults
	for i, o := range options {
		if o == nil {
			return nil, fmt.Errorf("option %d is nil", i)
		}
		if err := o.step(&all); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

// attempt has the body of a live step executed until it has ended. t is the memory for it.
func (s *scope) attempt(o *op, t *task, fn body, options *stepOptions) {
	r := s.run
	t.o, t.fn, t.options = o, fn, options
	o.live = t
	o.entry.Sensitive = options.sensitive
	if o.entry.ID != 0 && r.image != nil {
		if m := r.image.metadata(o.entry.ID); m != nil {
			t.meta = *m
		}
	}
	t.takeDuty()
	if options.total > 0 {
		if o.entry.Deadline.IsZero() {
			o.entry.Deadline = after(o.entry.Created, options.total)
			r.put(o)
		}
		t.limit.fire = t.expire
		r.timers.set(&t.limit, o.entry.Deadline)
	}
	o.listen()
	if o.queued {
		return
	}
	switch {
	case options.atMostOnce && o.entry.Status == Running:
		t.settle(unknownOutcome(), Failed)
	case options.atMostOnce:
		o.entry.Status = Running
		r.put(o)
		_ = t.start()
	case !t.meta.Due.IsZero():
		t.schedule(t.meta.Due)
	default:
		if t.meta.Attempts > 0 && r.record.Boots == 0 {
			t.meta.Attempts-- // the host ended it in order
		}
		_ = t.start()
	}
}

// start has the next attempt launched, as soon as the one before has returned.
func (t *task) start() error {
	if bound := t.options.retry.maxAttempts(); bound != 0 && t.meta.Attempts >= bound && !t.meta.Due.IsZero() {
		if t.options.retry.OnExhausted == PauseRun {
			t.meta.Attempts = 0 // the run was resumed
		} else {
			t.settle(t.meta.Failure, Exhausted)
			return nil
		}
	}
	if t.attempt != nil {
		t.ready = true
		return nil
	}
	t.ready, t.since = false, t.o.s.run.turns
	t.o.s.run.starting = append(t.o.s.run.starting, t)
	return nil
}

// wasCutOff counts the execution that a crash has cut off, and reports whether there may be no further one. One whose result was
// lost by a fault of the function does not count.
func (t *task) wasCutOff() bool {
	if t.options.atMostOnce || t.o.queued {
		return t.o.queued
	}
	t.meta.Attempts = max(t.meta.Attempts, 1)
	if t.o.s.run.blamed() {
		t.meta.Attempts--
		return false
	}
	bound := t.options.retry.maxAttempts()
	if bound == 0 || t.meta.Attempts < bound {
		return false
	}
	if t.options.retry.OnExhausted == PauseRun {
		t.exhaust(unknownOutcome())
	} else {
		t.settle(unknownOutcome(), Exhausted)
	}
	return true
}

// launch makes the next attempt.
//
// REQUIRES: attempt is nil, and the transaction goes on.
func (t *task) launch() *Attempt {
	r := t.o.s.run
	t.meta.Attempts++
	due := !t.meta.Due.IsZero() // which is on record, and would hide that the attempt has begun
	t.meta.Due = time.Time{}
	t.oblige()
	a := &t.first
	if t.meta.Attempts > 1 || a.t != nil || due {
		a = new(Attempt)
		if !t.options.atMostOnce {
			t.meta.LastAttempt = r.clock()
			t.record()
		}
	}
	a.t, a.r, a.number, a.index = t, r, int(t.meta.Attempts), len(r.inflight)
	a.name = t.o.s.pathOf(t.o.name)
	a.before, a.run, a.epoch = t.meta.Progress, r.record.ID, t.epoch()
	r.inflight = append(r.inflight, a)
	t.attempt = a
	return a
}

// record writes what is known of a step that goes on.
func (t *task) record() {
	r := t.o.s.run
	if t.save != nil {
		t.save()
		return
	}
	if t.o.hidden || t.o.entry.ID == 0 {
		r.newID(t.o)
		r.put(t.o)
	}
	r.putMetadata(t.o, &t.meta)
}

// heard takes what an attempt tells: that it has returned, that its time is over, or that it has progress to keep.
func (t *task) heard(a *Attempt) error {
	o := t.o
	news := a.take()
	if news.progress != nil && !o.done && !o.queued && a == t.attempt {
		t.meta.Progress = news.progress
		t.record()
	}
	if news.returned {
		a.land()
		if t.attempt == a {
			t.attempt = nil
			t.returned()
		}
	}
	switch {
	case o.done || o.queued || a.settled:
	case t.duty != nil && !news.returned:
		if news.expired {
			t.linger()
		}
	case news.expired && !news.late:
		a.settled = true
		t.ended(result{
			failure:   &Failure{Reason: reasonTimeout, Message: fmt.Sprintf("attempt %d: %v (%v)", a.number, ErrTimeout, t.options.timeout)},
			permanent: t.options.failOnTimeout,
		})
	case news.returned && news.interrupted && !t.options.atMostOnce && o.s.cancel.err() == nil && !t.overdue():
		// The host ended it. It counts as not run.
		a.settled = true
		t.meta.Attempts--
		return t.start()
	case news.returned:
		a.settled = true
		if news.interrupted && t.options.atMostOnce {
			news.result = result{failure: unknownOutcome()}
		}
		t.ended(news.result)
	}
	if t.attempt == nil && !o.done && !o.queued {
		switch {
		case news.returned && o.s.cancel.err() != nil:
			t.unschedule()
			t.settle(nil, Canceled)
		case t.ready:
			return t.start()
		}
	}
	return o.s.run.err
}

func unknownOutcome() *Failure {
	return &Failure{Reason: reasonUnknown, Message: ErrOutcomeUnknown.Error()}
}

// ended takes the outcome of an attempt.
func (t *task) ended(res result) {
	if t.decide(res) {
		t.o.happened()
	}
}

// decide decides what follows from the outcome of an attempt: the end of the step, whose outcome is then in the entry, or
// another attempt.
func (t *task) decide(res result) (over bool) {
	o, p := t.o, &t.options.retry
	r := o.s.run
	o.clean = false
	t.doubts(&res)
	if res.failure == nil {
		t.commits = res.commits
		o.clean = len(res.commits) > 0
		o.entry.Status, o.entry.Output, o.entry.Failure = Completed, res.output, nil
		return true
	}
	if o.s.cancel.err() != nil {
		t.set(nil, Canceled)
		return true
	}
	if t.overdue() {
		t.set(t.totalTimeout(), TimedOut)
		return true
	}
	if res.misuse != "" {
		t.misused(&res)
		return false
	}
	if res.permanent && t.save != nil {
		t.exhaust(res.failure)
		return false
	}
	if t.options.atMostOnce || res.permanent {
		t.set(res.failure, Failed)
		return true
	}
	wait := p.wait(t.meta.Attempts, r.random(o.loc, t.meta.Attempts))
	if res.hasAfter {
		wait = res.after
	}
	due := after(r.clock(), wait)
	bound := p.maxAttempts()
	if bound != 0 && t.meta.Attempts >= bound || p.MaxElapsed > 0 && due.After(o.entry.Created.Add(p.MaxElapsed)) {
		if p.OnExhausted == PauseRun {
			t.exhaust(res.failure)
			return false
		}
		t.set(res.failure, Exhausted)
		return true
	}
	t.meta.Failure, t.meta.Due = res.failure, due
	if t.meta.LastAttempt.IsZero() {
		t.meta.LastAttempt = o.entry.Created
	}
	o.entry.Status = Pending
	t.record()
	t.schedule(due)
	return false
}

// exhaust pauses the run, because the attempts are used up.
func (t *task) exhaust(f *Failure) {
	r := t.o.s.run
	t.meta.Failure, t.meta.Due = f, r.clock()
	t.o.entry.Status = Pending
	t.record()
	r.halt = &Pause{
		Reason: PausedExhausted,
		Text:   fmt.Sprintf("step %q has used up its attempts, after %d: %s", t.o.s.pathOf(t.o.name), t.meta.Attempts, f.Message),
	}
}

// misused pauses the run, because the body breaks a rule, until an operator resumes it: the body is executed again then, unless
// it must not be.
func (t *task) misused(res *result) {
	r := t.o.s.run
	if !t.options.atMostOnce {
		t.meta.Failure, t.meta.Due = res.failure, r.clock()
		t.o.entry.Status = Pending
		t.record()
	}
	r.halt = &Pause{Reason: PausedMisuse, Text: bounded(fmt.Sprintf("step %q: %s", t.o.s.pathOf(t.o.name), res.misuse))}
}

// set gives the step an outcome without a result.
func (t *task) set(f *Failure, status EntryStatus) {
	o := t.o
	o.entry.Status, o.entry.Failure, o.entry.Output = status, f, nil
	if status == Canceled {
		o.setCanceled()
	}
	t.commits, o.clean = nil, false
}

// settle ends the step without a result.
func (t *task) settle(f *Failure, status EntryStatus) {
	t.set(f, status)
	t.o.happened()
}

// resolve ends the step, and runs what the body wants done in the transaction.
func (t *task) resolve() error {
	o := t.o
	r := o.s.run
	if res := t.refused; res != nil {
		t.refused = nil
		seq, ended := o.entry.Seq, o.entry.Ended
		o.entry.Seq, o.entry.Ended = 0, time.Time{} // should the step go on, its row says nothing of an end
		if !t.decide(*res) {
			return errNotYet
		}
		o.entry.Seq, o.entry.Ended = seq, ended
	}
	for _, fn := range t.commits {
		if err := r.transact(o, fn); err != nil {
			// What fn did is undone, and the attempt has failed. What follows is written in the next transaction.
			res := r.program.resultOf(err, &t.options.retry)
			t.refused, t.commits, o.clean = &res, nil, false
			return errUndo
		}
	}
	o.deferred = t.options.deferred && len(t.commits) == 0
	o.tries = t.meta.Attempts
	t.unschedule()
	r.timers.stop(&t.limit)
	t.quit()
	if t.save == nil && o.entry.ID != 0 {
		t.meta.Due = time.Time{}
		r.putMetadata(o, &t.meta)
	}
	return r.err
}

// canceled runs when the step's scope was canceled.
func (t *task) canceled(abandon bool) {
	if t.o.queued && (!abandon || t.duty != nil) {
		return // it has ended, and what it has brought counts
	}
	if t.attempt != nil {
		switch {
		case t.duty == nil:
			t.attempt.stop(t.o.s.cancel.err())
		case t.options.cancelable:
			t.attempt.stop(t.o.s.cancel.err())
			t.linger()
		}
		if !abandon || t.duty != nil {
			t.unschedule() // its time may be over, and the next one due
			return         // it ends when the body has returned
		}
		t.attempt.settled = true
	}
	t.unschedule()
	t.settle(nil, Canceled)
}

// expire runs when TotalTimeout has passed.
func (t *task) expire() error {
	if t.o.queued || t.o.done {
		return nil
	}
	t.unschedule()
	if t.attempt != nil {
		t.attempt.stop(ErrTimeout)
		if t.duty != nil {
			t.duty.overdue = true
			t.linger()
			return nil
		}
		t.attempt.settled = true
	}
	t.settle(t.totalTimeout(), TimedOut)
	return nil
}

func (t *task) totalTimeout() *Failure {
	return &Failure{Reason: reasonTimeout, Message: fmt.Sprintf("%v (%v in total)", ErrTimeout, t.options.total)}
}

// schedule has the next attempt start at a time.
func (t *task) schedule(at time.Time) {
	t.retry.fire = t.start
	t.o.s.run.timers.set(&t.retry, at)
}

// unschedule takes back start and schedule.
func (t *task) unschedule() {
	r := t.o.s.run
	if i := slices.Index(r.starting, t); i >= 0 {
		r.starting = slices.Delete(r.starting, i, i+1)
	}
	r.timers.stop(&t.retry)
	t.ready = false
}

// stepError returns the error of a step that has ended.
func (o *op) stepError() error {
	e := &o.entry
	switch e.Status {
	case Completed:
		return nil
	case Canceled:
		return o.canceledError()
	}
	return &StepError{Step: o.name, Attempts: max(int(o.tries), 1), Cause: o.s.run.errorOf(e.Failure)}
}

// random returns a number of at least 0 and less than 1 that depends on the run, a place in it and n.
func (r *Run) random(loc journal.Location, n uint32) float64 {
	h := fnv(fnv(r.seed, loc), strconv.AppendUint(nil, uint64(n), 10))
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	return float64(h>>11) / (1 << 53)
}
