package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

// A world is some actors in memory, one run each, on one goroutine and with a clock that jumps to the next thing to do. Bodies of
// steps run one after another, unless they block. Transactions are counted over all actors, and the process can be
// made to die before or after any of them.
type world struct {
	t        testing.TB
	programs map[string]*Program
	actors   map[string]*rig
	order    []*rig
	now      time.Time
	mail     []letterTo
	commits  int
	crashAt  int        // number of the commit, 0 for none
	after    bool       // the crash comes after it
	chance   *rand.Rand // if set, every fifth commit or so, instead
	crashes  int
	steps    int
	label    string
	// lenient: what was done may be done again, and what was not done undone, because runs are rewound.
	lenient bool
	// refuse has letters to an actor bounce.
	refuse map[string]bool
	// script runs when nothing else is left to do, one after another.
	script []func()
}

type letterTo struct {
	from Destination
	m    Outgoing
}

// A rig is one actor.
type rig struct {
	w    *world
	self Destination
	rows map[string][]byte
	keys []string // sorted; nil if unknown
	// queues and log are part of the actor's state.
	queues  map[string][]Delivery
	nextID  uint64
	state   map[string]string
	replies []string

	run      *Run
	out      Outcome
	pending  []*attempting
	stale    bool // Advance must be called
	paused   bool
	ended    bool
	lastErr  error
	advances int
	pauses   int
}

// attempting is an attempt that was launched.
type attempting struct {
	a       *Attempt
	start   func() // nil once it runs
	cancel  context.CancelFunc
	done    chan struct{}
	blocked chan struct{}
	once    sync.Once
}

// stopped reports whether the run has ended the context of the body.
func (at *attempting) stopped() bool {
	at.a.r.mu.Lock()
	defer at.a.r.mu.Unlock()
	return at.a.stopped != nil
}

type attemptKey struct{}

// block has the body of a step wait until its context ends. It returns the context's error.
func block(sc *StepCtx) error {
	at := sc.Value(attemptKey{}).(*attempting)
	at.once.Do(func() { close(at.blocked) })
	<-sc.Done()
	return sc.Err()
}

func newWorld(t testing.TB, programs ...*Program) *world {
	w := &world{t: t, programs: map[string]*Program{}, actors: map[string]*rig{}, now: time.UnixMilli(1_700_000_000_000).UTC(), refuse: map[string]bool{}}
	for _, p := range programs {
		if p.err != nil {
			t.Fatal(p.err)
		}
		w.programs[p.name] = p
	}
	t.Cleanup(func() {
		for _, h := range w.order {
			h.close()
		}
	})
	return w
}

func (w *world) lookup(name string) *Program { return w.programs[name] }

// copy returns a world with what is stored in this one, at the same time.
func (w *world) copy() *world {
	c := newWorld(w.t)
	c.programs, c.now = w.programs, w.now
	for _, h := range w.order {
		again := c.actor(h.self.Key[0])
		again.rows, again.state, again.nextID, again.ended = maps.Clone(h.rows), maps.Clone(h.state), h.nextID, h.ended
		for queue, list := range h.queues {
			again.queues[queue] = slices.Clone(list)
		}
	}
	return c
}

// actor returns the actor of a name, and makes it if need be.
func (w *world) actor(name string) *rig {
	if h := w.actors[name]; h != nil {
		return h
	}
	h := &rig{w: w, self: Destination{Type: "test", Key: []string{name}}, rows: map[string][]byte{}, queues: map[string][]Delivery{}, state: map[string]string{}}
	w.actors[name] = h
	w.order = append(w.order, h)
	return h
}

// start starts a run in the actor "main".
func (w *world) start(p *Program, in any) *rig {
	h := w.actor("main")
	input, err := p.EncodeInput(in)
	must(w.t, err)
	h.transact(func(t *rigTurn) error {
		_, err := Start(t, p, input, StartOptions{ID: [16]byte{1}})
		return err
	})
	h.stale = true
	return h
}

// transact runs something in a transaction of its own, which is not counted.
func (h *rig) transact(f func(t *rigTurn) error) {
	h.w.t.Helper()
	t := h.begin()
	if err := f(t); err != nil {
		t.undo()
		h.w.t.Fatal(err)
	}
	t.commit()
}

// send puts a message into a queue.
func (h *rig) send(queue string, body any) {
	b, err := rowEncoding.Marshal(body)
	must(h.w.t, err)
	h.nextID++
	h.queues[queue] = append(h.queues[queue], Delivery{Queue: queue, ID: h.nextID, Body: b, Sent: h.w.now, WantReply: true})
	h.stale = true
}

// control runs a control function.
func (h *rig) control(f func(t Turn) error) {
	h.w.t.Helper()
	h.transact(func(t *rigTurn) error { return f(t) })
	if h.run != nil {
		h.run.ControlChanged()
	}
	h.paused, h.stale = false, true
}

func (h *rig) open() {
	if h.run == nil {
		h.run = Open(RunOptions{Programs: h.w.lookup, Self: h.self})
	}
}

// close kills what is in memory.
func (h *rig) close() {
	if h.run != nil {
		h.run.Close()
		h.run = nil
	}
	for _, at := range h.pending {
		at.cancel()
		if at.start == nil {
			<-at.done
		}
	}
	h.pending, h.out = nil, Outcome{}
	h.stale = true
}

// crash is what the death of the process leaves.
func (w *world) crash() {
	w.crashes++
	for _, h := range w.order {
		h.close()
	}
}

// committed counts a commit, and reports whether the process dies before or after it.
func (w *world) committed(t *rigTurn) (dies bool) {
	w.commits++
	dies, after := w.commits == w.crashAt, w.after
	if w.chance != nil {
		dies, after = w.chance.IntN(5) == 0, w.chance.IntN(2) == 0
	}
	if !dies {
		t.commit()
		return false
	}
	if after {
		t.commit()
	} else {
		t.undo()
	}
	w.crash()
	return true
}

// until drives everything until nothing is left to do, or until done.
func (w *world) until(done func() bool) {
	w.t.Helper()
	for {
		w.steps++
		fatalIf(w.t, w.steps > 2_000_000, "the world does not come to rest")
		if done != nil && done() {
			return
		}
		if !w.step() {
			return
		}
	}
}

func (w *world) run() *world { w.t.Helper(); w.until(nil); return w }

// step does one thing, and reports whether there was one.
func (w *world) step() bool {
	for _, h := range w.order {
		if h.stale && !h.ended && !h.paused && h.started() {
			h.stale = false
			h.advance()
			return true
		}
	}
	for _, h := range w.order {
		for i, at := range h.pending {
			if at.start == nil {
				select {
				case <-at.done:
				default:
					// It blocks; should its context be over, it is about to return.
					if !at.stopped() {
						continue
					}
					<-at.done
				}
			} else {
				at.start()
				at.start = nil
				select {
				case <-at.done:
				case <-at.blocked:
					return true
				}
			}
			h.pending = slices.Delete(h.pending, i, i+1)
			h.stale = true
			return true
		}
	}
	if len(w.mail) > 0 {
		l := w.mail[0]
		w.deliver(l)
		return true
	}
	var next *rig
	for _, h := range w.order {
		if !h.ended && !h.out.Wake.IsZero() && (next == nil || h.out.Wake.Before(next.out.Wake)) {
			next = h
		}
	}
	if next != nil {
		if next.out.Wake.After(w.now) {
			w.now = next.out.Wake
		}
		next.paused, next.stale = false, true
		return true
	}
	if len(w.script) > 0 {
		f := w.script[0]
		w.script = w.script[1:]
		f()
		return true
	}
	return false
}

func (h *rig) started() bool { return h.rows["\x07\x15\x03\x15\x01"] != nil }

func (w *world) deliver(l letterTo) {
	name := l.m.To.Key[0]
	target, bounce := w.actor(name), w.refuse[name]
	if bounce {
		target = w.actor(l.from.Key[0])
	}
	t := target.begin()
	var err error
	if bounce {
		err = Undeliverable(t, &l.m, errors.New("no such actor"))
	} else {
		err = Deliver(t, w.lookup, l.m.Body)
	}
	must(w.t, err)
	// The letter is taken out by the transaction.
	w.mail = w.mail[1:]
	t.undone = func() { w.mail = append([]letterTo{l}, w.mail...) }
	if w.committed(t) {
		return
	}
	if w.lenient && target.ended { // another run of the same child may have taken its place
		target.close()
		target.ended = false
	}
	target.stale = true
	target.paused = false
	if target.run != nil {
		target.run.ControlChanged()
	}
}

// advance calls Advance in a transaction.
func (h *rig) advance() {
	h.open()
	h.advances++
	t := h.begin()
	out, err := h.run.Advance(t)
	switch {
	case err != nil:
		t.undo()
		h.lastErr = err
		if errors.Is(err, ErrNoRun) {
			h.ended = true
			return
		}
		h.w.t.Fatalf("Advance: %v", err)
	case out.Undo:
		t.undo()
		h.stale = true
		return
	}
	if t.wrote() {
		if h.w.committed(t) {
			return
		}
	} else {
		t.commit()
	}
	h.out = out
	for _, a := range out.Launch {
		h.launch(a)
	}
	switch {
	case out.Ended:
		h.ended = true
	case out.Paused:
		h.paused = true
		if h.pauses++; h.pauses > 100 {
			h.w.t.Fatalf("%s: pauses for ever: %s\n%s", h.w.label, h.outcome(), h.history())
		}
	case out.Again:
		h.stale = true
	}
}

func (h *rig) launch(a *Attempt) {
	at := &attempting{a: a, done: make(chan struct{}), blocked: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), attemptKey{}, at))
	at.cancel = cancel
	at.start = func() {
		go func() {
			defer close(at.done)
			_ = a.Run(ctx, h, func() {})
		}()
	}
	h.pending = append(h.pending, at)
}

// outcome says how the run of an actor ended.
func (h *rig) outcome() string {
	f, err := loadFields(h.begin())
	must(h.w.t, err)
	switch {
	case f.pause != nil:
		return fmt.Sprintf("%s paused %s: %s", f.state, f.pause.Reason, f.pause.Text)
	case f.failure != nil:
		return fmt.Sprintf("%s: %s", f.state, f.failure.Message)
	case f.output != nil:
		var v any
		must(h.w.t, rowDecoding.Unmarshal(f.output, &v))
		return fmt.Sprintf("%s %v", f.state, v)
	}
	return string(f.state)
}

// want checks how the run of the actor ended.
func (h *rig) want(outcome string) {
	h.w.t.Helper()
	if got := attempts.ReplaceAllString(h.outcome(), ""); got != outcome {
		h.w.t.Errorf("outcome %q, want %q", got, outcome)
	}
}

// history prints what is recorded, without what depends on time and on crashes.
func (h *rig) history() string {
	t := h.begin()
	im, err := loadImage(t)
	must(h.w.t, err)
	im.reader = t
	var b strings.Builder
	for i := range im.records {
		rec := &im.records[i]
		e, err := rec.decode()
		must(h.w.t, err)
		fmt.Fprintf(&b, "%s: %s %s #%d", im.names.Path(rec.loc), e.Kind, e.Status, e.Ordinal)
		if e.Output != nil {
			fmt.Fprintf(&b, " -> %x", e.Output)
		}
		if e.Failure != nil {
			b.WriteString(" !") // the text may tell of attempts
		}
		if e.State != nil && e.Kind != KindSpawn {
			fmt.Fprintf(&b, " state %d %x", e.Iteration, e.State)
		}
		if e.Winner != "" {
			fmt.Fprintf(&b, " winner %s", e.Winner)
		}
		for _, m := range e.Messages {
			fmt.Fprintf(&b, " got %s/%d", m.Queue, m.ID)
		}
		b.WriteByte('\n')
	}
	var owes []string // in an order that does not depend on when what runs at once has ended
	for _, row := range im.obligations {
		o, err := decodeObligation(row)
		must(h.w.t, err)
		owes = append(owes, "owes "+im.names.Path(o.Entry)+"\n")
	}
	slices.Sort(owes)
	b.WriteString(strings.Join(owes, ""))
	return b.String()
}

// entries returns the paths of what is recorded.
func (h *rig) entries() (list []string) {
	im, err := loadImage(h.begin())
	must(h.w.t, err)
	for i := range im.records {
		list = append(list, im.names.Path(im.records[i].loc))
	}
	return list
}

// A rigTurn is a transaction: it writes through, and knows how it was before.
type rigTurn struct {
	h       *rig
	before  map[string][]byte // nil value: was not there
	queues  map[string][]Delivery
	state   map[string]string
	replies int
	sent    []letterTo
	changed bool
	undone  func() // also does this when it is undone
}

func (h *rig) begin() *rigTurn {
	return &rigTurn{h: h, before: map[string][]byte{}, queues: maps.Clone(h.queues), state: maps.Clone(h.state), replies: len(h.replies)}
}

func (t *rigTurn) wrote() bool { return len(t.before) > 0 || len(t.sent) > 0 || t.changed }

func (t *rigTurn) commit() { t.h.w.mail = append(t.h.w.mail, t.sent...) }

func (t *rigTurn) undo() {
	h := t.h
	for k, v := range t.before {
		if v == nil {
			delete(h.rows, k)
		} else {
			h.rows[k] = v
		}
	}
	h.keys = nil
	h.queues, h.state, h.replies = t.queues, t.state, h.replies[:t.replies]
	if t.undone != nil {
		t.undone()
	}
}

func (t *rigTurn) remember(k string) {
	if _, ok := t.before[k]; !ok {
		t.before[k] = t.h.rows[k]
	}
}

func (t *rigTurn) Get(key []byte) ([]byte, bool, error) {
	v, ok := t.h.rows[string(key)]
	return v, ok, nil
}

func (t *rigTurn) sorted() []string {
	if t.h.keys == nil {
		t.h.keys = slices.Sorted(maps.Keys(t.h.rows))
	}
	return t.h.keys
}

func (t *rigTurn) span(start, end []byte) []string {
	keys := t.sorted()
	from := sort.SearchStrings(keys, string(start))
	to := sort.SearchStrings(keys, string(end))
	if from >= to {
		return nil
	}
	return keys[from:to]
}

func (t *rigTurn) Scan(start, end []byte, visit func(key, value []byte) error) error {
	for _, k := range slices.Clone(t.span(start, end)) {
		if err := visit([]byte(k), t.h.rows[k]); err != nil {
			return err
		}
	}
	return nil
}

func (t *rigTurn) Put(key, value []byte) error {
	k := string(key)
	t.remember(k)
	if t.h.rows[k] == nil {
		t.h.keys = nil
	}
	t.h.rows[k] = append(make([]byte, 0, len(value)), value...)
	return nil
}

// PutNew implements NewPutter, and checks what it is told.
func (t *rigTurn) PutNew(key, value []byte) error {
	if _, ok := t.h.rows[string(key)]; ok {
		return fmt.Errorf("PutNew of %x, which has a row", key)
	}
	return t.Put(key, value)
}

func (t *rigTurn) Delete(key []byte) error {
	k := string(key)
	if _, ok := t.h.rows[k]; ok {
		t.remember(k)
		delete(t.h.rows, k)
		t.h.keys = nil
	}
	return nil
}

func (t *rigTurn) DeleteRange(start, end []byte) error {
	for _, k := range slices.Clone(t.span(start, end)) {
		t.remember(k)
		delete(t.h.rows, k)
		t.h.keys = nil
	}
	return nil
}

func (t *rigTurn) Now() time.Time { return t.h.w.now }
func (t *rigTurn) Value() any     { return t }

func (t *rigTurn) Receive(queues []string, limit int) (list []Delivery, err error) {
	for _, q := range queues {
		for len(list) < limit && len(t.h.queues[q]) > 0 {
			list = append(list, t.h.queues[q][0])
			t.h.queues[q] = t.h.queues[q][1:]
			t.changed = true
		}
	}
	return list, nil
}

func (t *rigTurn) Return(messages []Delivery) error {
	for _, m := range slices.Backward(messages) {
		t.h.queues[m.Queue] = append([]Delivery{m}, t.h.queues[m.Queue]...)
		t.changed = true
	}
	return nil
}

func (t *rigTurn) Reply(m *Delivery, reply []byte, failure *Failure) error {
	t.h.replies = append(t.h.replies, fmt.Sprintf("%s/%d", m.Queue, m.ID))
	t.changed = true
	return nil
}

func (t *rigTurn) Send(m *Outgoing) error {
	c := *m
	c.Body = bytes.Clone(m.Body)
	t.sent = append(t.sent, letterTo{t.h.self, c})
	return nil
}

// everywhere runs a scenario once, and then with a crash before and after each commit. It must come to the same result
// each time. The result is what the scenario returns and, in all actors, how the run ended, what it recorded, and the state.
func everywhere(t *testing.T, scenario func(w *world) string) {
	t.Helper()
	run := func(at int, after bool) (*world, string) {
		w := newWorld(t)
		w.crashAt, w.after = at, after
		var b strings.Builder
		b.WriteString(scenario(w))
		for _, h := range w.order {
			fmt.Fprintf(&b, "\n%s: %s\n%s", h.self.Key[0], h.outcome(), h.history())
			keys := make([]string, 0, len(h.state))
			for k, v := range h.state {
				keys = append(keys, k+"="+v)
			}
			slices.Sort(keys)
			fmt.Fprintf(&b, "state %v replies %v", keys, h.replies)
			for _, q := range []string{"in", "out"} {
				for _, m := range h.queues[q] {
					fmt.Fprintf(&b, " %s/%d", q, m.ID)
				}
			}
		}
		for _, h := range w.order {
			h.close()
		}
		return w, attempts.ReplaceAllString(b.String(), "")
	}
	w, want := run(0, false)
	if t.Failed() {
		t.Log(want)
		return
	}
	for at := 1; at <= w.commits; at++ {
		for _, after := range []bool{false, true} {
			c, got := run(at, after)
			errorIf(t, c.crashes != 1, "crash at commit %d (after: %v): %d crashes", at, after, c.crashes)
			fatalIf(t, got != want, "crash at commit %d (after: %v):\n%s\n\nwithout a crash:\n%s", at, after, got, want)
			fatalIf(t, t.Failed(), "crash at commit %d (after: %v)", at, after)
		}
	}
}

// attempts is what texts say about executions, which crashes add to.
var attempts = regexp.MustCompile(` after \d+ attempts`)

// with registers programs and starts the first.
func (w *world) with(in any, programs ...*Program) *rig {
	w.t.Helper()
	for _, p := range programs {
		if p.err != nil {
			w.t.Fatal(p.err)
		}
		w.programs[p.name] = p
	}
	return w.start(programs[0], in)
}

// program makes a program without input.
func program[Out any](fn func(ctx Context) (Out, error), options ...Option) *Program {
	return NewFunction("test", func(ctx Context, _ int) (Out, error) { return fn(ctx) }, options...).Program()
}

// mark is a step that leaves a mark in the state, with an undo that replaces it.
func mark(ctx Context, name string) error {
	_, err := Compensated(ctx, name, func(sc *StepCtx) (string, error) {
		note(sc, name, "done")
		return name, nil
	}, func(sc *StepCtx, was string) error {
		note(sc, was, "undone")
		return nil
	})
	return err
}

// note sets a key of the actor's state in the transaction of a step. "undone" also appends to the order of undoing.
func note(sc *StepCtx, key, value string) {
	sc.OnCommit(func(tx *Tx) error {
		t := tx.Host().(*rigTurn)
		t.changed = true
		t.h.state[key] = value
		if value == "undone" {
			t.h.state["order"] += " " + key
		}
		return nil
	})
}

func pass(ctx Context, name string) error {
	return Do(ctx, name, func(*StepCtx) error { return nil })
}

// sagaOf is a saga without a result.
func sagaOf(ctx Context, name string, fn func(ctx Context) error, options ...SagaOption) error {
	_, err := Saga(ctx, name, func(ctx Context) (any, error) { return nil, fn(ctx) }, options...)
	return err
}

var errBad = errors.New("bad")

func fail(ctx Context, name string) error {
	return Do(ctx, name, func(*StepCtx) error { return Permanent(errBad) })
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// fatalIf ends the test with a message if something is wrong.
func fatalIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// errorIf is fatalIf for a test that goes on.
func errorIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Errorf(format, args...)
	}
}
