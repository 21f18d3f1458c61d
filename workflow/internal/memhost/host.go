// Package memhost is a host of one workflow run in memory, for tests: ordered rows with transactions, queues, a small
// transactional state, and a clock that jumps. The process can be made to die before or after any commit.
package memhost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// A Host drives one run. Its methods are called from one goroutine.
//
// By default the clock stands still while there is work, and then jumps to the run's next wake time. The bodies of steps run
// one after another, on the calling goroutine. With Live, the clock is package time, for bubbles of testing/synctest, and
// bodies run on goroutines.
type Host struct {
	// Programs finds programs by name.
	Programs func(name string) *wfhost.Program
	// Options are the options of the run, except Programs.
	Options wfhost.RunOptions
	// Live: see Host.
	Live bool
	// Now is the clock unless Live.
	Now time.Time
	// CrashAt is the number of the commit at which the process dies, from 1: before it, or after it with CrashAfter. 0 means
	// never.
	CrashAt    int
	CrashAfter bool
	// View wraps the result of Turn.Value; nil returns the *State.
	View func(s *State) any

	// Commits counts transactions that wrote something, Advances calls of Advance, Reads reads of rows, Wakes jumps of the
	// clock, and Crashes deaths of the process.
	Commits, Advances, Reads, Wakes, Crashes int
	// Last is the outcome of the last Advance.
	Last wfhost.Outcome
	// Replies are the replies to messages, in order.
	Replies []string

	rows    *memory.Rows
	state   *State
	queues  *memory.Queues
	lastID  uint64
	run     *wfhost.Run
	stale   bool
	started bool
	launch  []*wfhost.Attempt
	cancel  context.CancelFunc
	ctx     context.Context
	events  chan struct{} // capacity 1
	done    chan *wfhost.Attempt
	running int
	resting bool
}

// A State is a map of strings that transactions change.
type State struct {
	values map[string]string
	before map[string]string // of the transaction that goes on; nil while nothing was changed
}

// Get returns a value, "" if there is none.
func (s *State) Get(key string) string { return s.values[key] }

// Set changes a value.
func (s *State) Set(key, value string) {
	if s.before == nil {
		s.before = maps.Clone(s.values)
	}
	s.values[key] = value
}

// New returns a host without a run. Its clock begins in November 2023.
func New(programs ...*wfhost.Program) *Host {
	h := &Host{
		Now: time.UnixMilli(1_700_000_000_000).UTC(), rows: memory.NewRows(), state: &State{values: map[string]string{}},
		queues: memory.NewQueues(), events: make(chan struct{}, 1),
	}
	h.Use(programs...)
	return h
}

// Use replaces the programs, as a deploy does. It takes effect when the run is opened the next time.
func (h *Host) Use(programs ...*wfhost.Program) {
	h.Programs = func(name string) *wfhost.Program {
		for _, p := range programs {
			if p.Name() == name {
				return p
			}
		}
		return nil
	}
}

func (h *Host) now() time.Time {
	if h.Live {
		return time.Now()
	}
	return h.Now
}

// State returns the committed state.
func (h *Host) State() *State { return h.state }

// Start starts a run in a transaction.
func (h *Host) Start(p *wfhost.Program, in any) error {
	input, err := p.EncodeInput(in)
	if err != nil {
		return err
	}
	return h.Transact(func(t wfhost.Turn) error {
		_, err := wfhost.Start(t, p, input, wfhost.StartOptions{})
		return err
	})
}

// Transact runs f in a transaction of its own, which is not counted, and has the run advance after it.
func (h *Host) Transact(f func(t wfhost.Turn) error) error {
	t := h.begin()
	if err := f(t); err != nil {
		t.undo()
		return err
	}
	t.commit()
	h.Changed()
	return nil
}

// Changed has the run advance, and read the control rows again.
func (h *Host) Changed() {
	if h.run != nil {
		h.run.ControlChanged()
	}
	h.started, h.stale, h.Last = true, true, wfhost.Outcome{}
}

// Send puts a message into a queue. body is in CBOR.
func (h *Host) Send(queue string, body []byte) {
	h.lastID++
	h.queues.Add(wfhost.Delivery{Queue: queue, ID: h.lastID, Body: body, Sent: h.now(), WantReply: true})
	h.stale = true
}

// Queued returns how many messages a queue has.
func (h *Host) Queued(queue string) int { return len(h.queues.Lists()[queue]) }

// Set changes the state in a transaction.
func (h *Host) Set(key, value string) {
	h.state.Set(key, value)
	h.state.before = nil
	h.stale = true
}

// Rows returns a copy of all rows.
func (h *Host) Rows() map[string]string { return h.rows.All() }

// Load replaces all rows.
func (h *Host) Load(all map[string]string) {
	h.rows = memory.NewRows()
	for k, v := range all {
		_ = h.rows.Put([]byte(k), []byte(v)) // never fails
	}
	h.rows.Commit()
	h.started, h.stale = true, true
}

// Reader reads the committed rows.
func (h *Host) Reader() wfhost.Reader { return h.begin() }

// Run returns the run in memory, nil if there is none.
func (h *Host) Run() *wfhost.Run { return h.run }

// open opens the run, unless it is in memory.
func (h *Host) open() {
	if h.run != nil {
		return
	}
	o := h.Options
	o.Programs = h.Programs
	h.run = wfhost.Open(o)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.done = make(chan *wfhost.Attempt, 1024)
}

// Close drops what is in memory, as the death of the process does, and waits until it is gone. The next Drive opens the
// run again.
func (h *Host) Close() {
	if h.run == nil {
		return
	}
	h.cancel()
	h.run.Close()
	for ; h.running > 0; h.running-- {
		<-h.done
	}
	h.run, h.launch, h.Last = nil, nil, wfhost.Outcome{}
	h.stale = true
}

// Rest closes the run in order, as when its actor goes to sleep.
func (h *Host) Rest() error {
	if h.run == nil {
		return nil
	}
	h.cancel()
	for ; h.running > 0; h.running-- {
		<-h.done
	}
	h.launch = nil
	h.resting = true
	err := h.Advance()
	h.resting = false
	if err != nil || h.run == nil {
		return err
	}
	t := h.begin()
	err = h.run.Rest(t)
	t.commit()
	h.Close()
	return err
}

func (h *Host) crash() {
	h.Crashes++
	h.Close()
}

// commit commits, unless the process dies before.
func (h *Host) commit(t *turn) (died bool) {
	if !t.wrote() {
		t.commit()
		return false
	}
	h.Commits++
	if h.Commits != h.CrashAt {
		t.commit()
		return false
	}
	if h.CrashAfter {
		t.commit()
	} else {
		t.undo()
	}
	h.crash()
	return true
}

// Advance advances the run once, in a transaction.
func (h *Host) Advance() error {
	h.open()
	h.stale = false
	h.Advances++
	t := h.begin()
	out, err := h.run.Advance(t)
	if err != nil {
		t.undo()
		h.Close()
		return err
	}
	if out.Undo {
		t.undo()
		h.stale = true
		return nil
	}
	if h.commit(t) {
		return nil
	}
	h.Last = out
	if out.Again {
		h.stale = true
	}
	for _, a := range out.Launch {
		if h.resting {
			break
		}
		if h.Live {
			h.start(a)
		} else {
			h.launch = append(h.launch, a)
		}
	}
	return nil
}

func (h *Host) start(a *wfhost.Attempt) {
	h.running++
	ctx, done := h.ctx, h.done
	go func() {
		returned := false
		defer func() {
			if !returned { // Goexit
				done <- a
			}
		}()
		_ = a.Run(ctx, h, h.notify)
		returned = true
		done <- a
	}()
}

func (h *Host) notify() {
	select {
	case h.events <- struct{}{}:
	default:
	}
}

// ErrStuck is returned by Drive if the run does not come to rest.
var ErrStuck = errors.New("the run does not come to rest")

// Drive has the run go on until nothing is left to do, or until until, if it is not nil, returns true.
func (h *Host) Drive(until func() bool) error {
	for range 1_000_000 {
		if until != nil && until() {
			return nil
		}
		more, err := h.Step()
		if err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("%w: %+v", ErrStuck, h.Last)
}

// Step does one thing, and reports whether there was one.
func (h *Host) Step() (bool, error) {
	if !h.started {
		return false, nil
	}
	h.open()
	if h.stale {
		return true, h.Advance()
	}
	if len(h.launch) > 0 {
		a := h.launch[0]
		h.launch = slices.Delete(h.launch, 0, 1)
		run := h.run
		_ = a.Run(h.ctx, h, h.notify)
		if h.run == run {
			h.stale = true
		}
		return true, nil
	}
	wake := h.Last.Wake
	if h.Live {
		return h.wait(wake), nil
	}
	select {
	case <-h.events:
		h.stale = true
		return true, nil
	default:
	}
	if wake.IsZero() || h.Last.Ended {
		return false, nil
	}
	if wake.After(h.Now) {
		h.Now = wake
	}
	h.Wakes++
	h.stale = true
	return true, nil
}

// wait waits for something to happen.
func (h *Host) wait(wake time.Time) bool {
	if h.running == 0 && wake.IsZero() {
		return false
	}
	var timer <-chan time.Time
	if !wake.IsZero() {
		t := time.NewTimer(time.Until(wake))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-h.done:
		h.running--
	case <-h.events:
	case <-timer:
		h.Wakes++
	}
	h.stale = true
	return true
}

// Idle reports whether the run has nothing to do before something happens.
func (h *Host) Idle() bool { return !h.stale && len(h.launch) == 0 && len(h.events) == 0 }

// Running returns how many bodies run on goroutines.
func (h *Host) Running() int { return h.running }
