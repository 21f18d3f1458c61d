package replay_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"

	"github.com/cairn-run/cairn/workflow/internal/memory"
	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// A line is a statement of a workflow function, or a command of a scenario: words, some of which
// are options (a word or name=value), and a block.
type line struct {
	words []string
	block []*line
}

// parse reads lines from the words of a script, up to the closing brace or the end.
func parse(t testing.TB, words []string) (list []*line, rest []string) {
	l := &line{}
	end := func() {
		if len(l.words) > 0 {
			list = append(list, l)
		}
		l = &line{}
	}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		switch word {
		case ";":
			end()
		case "{":
			l.block, words = parse(t, words)
			end()
		case "}":
			end()
			return list, words
		default:
			l.words = append(l.words, word)
		}
	}
	end()
	return list, nil
}

// split splits a script into words. Quotes hold words with spaces. A line that begins with # is a
// comment.
func split(t testing.TB, text string) (words []string) {
	for row := range strings.Lines(text) {
		row = strings.TrimSpace(row)
		if strings.HasPrefix(row, "#") {
			continue
		}
		for row != "" {
			if quoted, err := strconv.QuotedPrefix(row); err == nil {
				word, err := strconv.Unquote(quoted)
				must(t, err)
				words, row = append(words, word), strings.TrimSpace(row[len(quoted):])
				continue
			}
			word, more, _ := strings.Cut(row, " ")
			if n := strings.IndexAny(word, ";{}"); n == 0 {
				word, more = word[:1], row[1:]
			} else if n > 0 {
				word, more = word[:n], row[n:]
			}
			words, row = append(words, word), strings.TrimSpace(more)
		}
		words = append(words, ";")
	}
	return words
}

func (l *line) arg(n int) string {
	if n < len(l.words) {
		return l.words[n]
	}
	return ""
}

// option returns the value of an option, "" if it is absent.
func (l *line) option(name string) string {
	for _, w := range l.words {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			return v
		}
	}
	return ""
}

// count returns the number after the name.
func (l *line) count() int {
	n, _ := strconv.Atoi(l.arg(2))
	return n
}

func (l *line) number(name string) int {
	n, _ := strconv.Atoi(l.option(name))
	return n
}

// is reports whether a word follows the name.
func (l *line) is(word string) bool {
	for i, w := range l.words {
		if i > 1 && w == word {
			return true
		}
	}
	return false
}

func (s *script) duration(text string) time.Duration {
	if text == "forever" {
		return 1<<63 - 1
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
	return d
}

// An env holds the variables of one execution of a workflow function.
type env struct {
	*script
	in      string
	path    string // the input, and the outer iterations and elements
	futures map[string]func(ctx Context) (string, error)
	over    map[string]func() bool
	kids    map[string]*Child[string]
	inner   map[string]Context
	stop    map[string]func(error)
	got     map[string]Received[string]
}

// function makes the function of a "code" command.
func (s *script) function(c *line) *Function[string, string] {
	options := []Option{WithErrorValue("bad", errBad)}
	if !c.is("undo=none") {
		options = append(options, WithUndo("undo", func(sc *StepCtx, name string) error { return s.undo(sc, c, name, name) }))
	}
	return NewFunction(c.arg(1), func(ctx Context, in string) (string, error) {
		e := &env{
			script: s, in: in, path: in, futures: map[string]func(Context) (string, error){}, over: map[string]func() bool{},
			kids: map[string]*Child[string]{}, got: map[string]Received[string]{},
			inner: map[string]Context{}, stop: map[string]func(error){},
		}
		s.calls++
		return e.run(ctx, c.block)
	}, options...)
}

// run executes statements, and returns their values.
func (e *env) run(ctx Context, block []*line) (string, error) {
	var values []string
	for _, l := range block {
		if l.words[0] == "settle" { // the values up to here
			Publish(ctx, strings.Join(values, " "))
			continue
		}
		if e.stumbles != nil && e.stumbles.IntN(12) == 0 {
			panic("stumbled")
		}
		v, err := e.do(ctx, l)
		if err != nil {
			return "", err
		}
		if v != "" {
			values = append(values, v)
		}
	}
	return strings.Join(values, " "), nil
}

// describe prints an error, without the parts that crashes change.
func describe(err error) string {
	text := attempts.ReplaceAllString(err.Error(), "")
	for word, target := range map[string]error{"canceled": ErrCanceled, "timeout": ErrTimeout, "unknown": ErrOutcomeUnknown} {
		if errors.Is(err, target) {
			text += ", " + word
		}
	}
	var failed *JoinError
	if errors.As(err, &failed) {
		text += ", first " + failed.First().Branch
	}
	return "(" + text + ")"
}

// body is the body of a step. It fails as the options say, and leaves a mark in the state with the
// option "marks", or with "numbered" the number of the execution, which is also its value.
func (e *env) body(l *line, name string) func(sc *StepCtx) (string, error) {
	return func(sc *StepCtx) (string, error) {
		run, over := e.execute(name, sc.IdempotencyKey(), "")
		defer over()
		if key, known := sc.Undoes(); key != "" || known {
			return "", Permanent(fmt.Errorf("a step undoes %q", key))
		}
		if l.is("numbered") {
			note(sc, name, strconv.Itoa(run))
		}
		if err := e.take(l, sc, run); err != nil {
			return "", err
		}
		if l.is("outside") && !l.is("fails") {
			e.outside(sc.IdempotencyKey(), "")
			select {
			case <-time.After(e.duration(l.option("lasts"))):
			case <-sc.Done():
				return "", Permanent(sc.Err()) // a body whose context has ended cannot know
			}
		}
		progress, err := e.count(l, sc)
		if err != nil {
			return "", err
		}
		switch n := l.number("errs"); {
		case progress != "":
			return progress, nil
		case l.option("later") != "" && sc.Attempt() == max(l.number("at"), 1):
			return "", RetryAfter(errBad, e.duration(l.option("later")))
		case l.is("errs"), n >= sc.Attempt():
			return "", errBad
		case l.is("hangs"): // until its context ends
			if err := memory.Block(sc); !l.is("marks") {
				return "", err
			}
		case l.is("fails"):
			return "", Permanent(errBad)
		case l.is("partly"):
			return "", Permanent(fmt.Errorf("partly: %w", ErrOutcomeUnknown))
		case l.is("panics"):
			panic("ouch")
		case l.is("leaves"):
			runtime.Goexit()
		case l.option("broken") != "" && !e.flags[l.option("broken")]:
			return "", errBad
		}
		if l.words[0] == "mark" || l.is("marks") {
			e.note(sc, name, "done")
		}
		if l.number("commit-errs") >= sc.Attempt() {
			sc.OnCommit(func(*Tx) error { return errBad })
		}
		if l.is("outside") {
			return sc.IdempotencyKey(), nil
		}
		if size := l.number("size"); size > 0 {
			return l.option("value") + strings.Repeat("x", size), nil
		}
		if l.is("numbered") {
			return strconv.Itoa(run), nil
		}
		return l.option("value"), nil
	}
}

// take makes a body take the time of "takes=1h", or of "takes=1h,1m" by its executions. It ends
// early with its context, with an error unless it is stubborn, except at "1h!", which is deaf.
func (e *env) take(l *line, sc *StepCtx, run int) error {
	times := strings.Split(l.option("takes"), ",")
	if times[0] == "" {
		return nil
	}
	text, deaf := strings.CutSuffix(times[min(run, len(times))-1], "!")
	if deaf {
		time.Sleep(e.duration(text))
		return nil
	}
	select {
	case <-time.After(e.duration(text)):
	case <-sc.Done():
		if !l.is("stubborn") {
			return context.Cause(sc)
		}
	}
	return nil
}

// count makes a body count by ten, with that as its progress, until it returns the number of
// "counts".
func (e *env) count(l *line, sc *StepCtx) (string, error) {
	n, _ := LastProgress[int](sc)
	if _, ok := LastProgress[string](sc); ok {
		return "", Permanent(errors.New("progress of another type"))
	}
	if l.option("counts") == strconv.Itoa(n) {
		return l.option("counts"), nil
	}
	for range min(l.number("counts"), 10) {
		n++
		if err := sc.Progress(n); err != nil {
			return "", err
		}
		if got, _ := LastProgress[int](sc); got != n {
			return "", Permanent(fmt.Errorf("own progress %d, want %d", got, n))
		}
	}
	return "", nil
}

// undo is the undo of a mark. It leaves a mark of its own if the result is unknown.
func (s *script) undo(sc *StepCtx, l *line, name, result string) error {
	if f := l.option("undo-blind"); f != "" && !s.flags[f] { // it does not check whether the result is known
		return nil
	}
	key, known := sc.Undoes()
	_, over := s.execute("undo "+name, sc.IdempotencyKey(), key)
	defer over()
	s.bodies.Lock()
	keys := s.keys[name]
	s.bodies.Unlock()
	if len(keys) > 0 && !slices.Contains(keys, key) {
		return fmt.Errorf("the undo of %s has the key of no execution", name)
	}
	if slices.Contains(keys, sc.IdempotencyKey()) {
		return fmt.Errorf("the undo of %s has no key of its own", name)
	}
	if d := l.option("undo-takes"); d != "" {
		time.Sleep(s.duration(d))
	}
	switch {
	case l.option("undo-hangs") != "" && !s.flags[l.option("undo-hangs")]:
		return memory.Block(sc)
	case l.number("undo-errs") >= sc.Attempt():
		return errBad
	case l.option("undo-broken") != "" && !s.flags[l.option("undo-broken")]:
		if l.is("permanent") {
			return Permanent(errBad)
		}
		return errBad
	}
	if result != name && result != "" && (!known || !strings.HasPrefix(result, l.option("value"))) {
		return fmt.Errorf("a result is %q, known: %v", result, known)
	}
	if l.is("outside") {
		s.outside(key, sc.IdempotencyKey())
	}
	if l.number("undo-lost") >= sc.Attempt() { // its answer
		return errBad
	}
	if !known {
		note(sc, name+"?", "undone")
	}
	s.note(sc, name, "undone")
	return nil
}

// outside has an outside effect, or undoes it by an undo: each once per key. No crash reverts it.
func (s *script) outside(key, undo string) {
	s.bodies.Lock()
	defer s.bodies.Unlock()
	if undo == "" {
		errorIf(s.t, !s.did[key] && len(s.undid[key]) > 0, "%s: %s is done after it was undone", s.at, key)
		s.did[key] = true
	} else if !slices.Contains(s.undid[key], undo) {
		s.undid[key] = append(s.undid[key], undo)
	}
}

// note records that an effect was done or undone. Neither may happen twice in a strict script.
func (s *script) note(sc *StepCtx, name, what string) {
	sc.OnCommit(func(tx *Tx) error {
		if s.strict && (*tx.Host().(*state))[name] == what {
			return Permanent(fmt.Errorf("%s is %s twice", name, what))
		}
		return nil
	})
	note(sc, name, what)
}

// execute records that a body runs, and returns the number of its executions; over must be called
// when it has ended. No body runs beside another with its key, nor an undo beside its step.
func (s *script) execute(name, key, undoes string) (run int, over func()) {
	s.bodies.Lock()
	defer s.bodies.Unlock()
	for _, k := range []string{key, undoes} {
		errorIf(s.t, k != "" && s.active[k], "%s: a body of %s runs beside one of the same step", s.at, name)
	}
	s.active[key] = true
	s.most = max(s.most, len(s.active))
	s.ran[name]++
	s.times[name] = append(s.times[name], s.Time().Sub(s.began))
	if !slices.Contains(s.keys[name], key) {
		s.keys[name] = append(s.keys[name], key)
	}
	return s.ran[name], func() {
		s.bodies.Lock()
		defer s.bodies.Unlock()
		delete(s.active, key)
	}
}

func (e *env) options(l *line, name string) (list []StepOption) {
	p := RetryPolicy{MaxAttempts: l.number("attempts"), Factor: float64(l.number("factor"))}
	for option, d := range map[string]*time.Duration{"initial": &p.Initial, "max": &p.Max, "elapsed": &p.MaxElapsed} {
		if text := l.option(option); text != "" {
			*d, p.Jitter = e.duration(text), -1
		}
	}
	if l.is("pauses") {
		p.OnExhausted = PauseRun
	}
	if l.is("hopeless") {
		p.Retryable = func(error) bool { return false }
	}
	list = append(list, Retry(p))
	for word, option := range map[string]StepOption{"once": AtMostOnce(), "cancelled": CancelBody(), "limited": FailOnTimeout()} {
		if l.is(word) {
			list = append(list, option)
		}
	}
	if d := l.option("timeout"); d != "" {
		list = append(list, Timeout(e.duration(d)))
	}
	if d := l.option("total"); d != "" {
		list = append(list, TotalTimeout(e.duration(d)))
	}
	if by := l.option("undo-by"); by != "" {
		list = append(list, UndoBy(by, name))
	}
	return list
}

func (e *env) wait(l *line) (list []WaitOption) {
	if d := l.option("within"); d != "" {
		list = append(list, Within(e.duration(d)))
	}
	return list
}

// branches runs f for each branch of a block: a name and the branch's own block.
func (e *env) branches(l *line, f func(name string, body func(ctx Context) (string, error))) {
	for _, b := range l.block {
		f(b.words[0], func(ctx Context) (string, error) { return e.run(ctx, b.block) })
	}
}

// do executes a statement.
func (e *env) do(ctx Context, l *line) (string, error) {
	if strings.Contains(strings.Join(l.words, ""), "$") {
		l = &line{slices.Clone(l.words), l.block}
		for i, w := range l.words { // the path, and the number of an iteration or element
			l.words[i] = strings.ReplaceAll(strings.ReplaceAll(w, "$$", e.path), "$", e.in)
		}
	}
	name := l.arg(1)
	if e.life > 0 {
		l = &line{append(slices.Clone(l.words), fmt.Sprint("value=", e.life)), l.block}
	}
	switch l.words[0] {
	case "try": // the error is the value
		v, err := e.do(ctx, &line{l.words[1:], l.block})
		if err != nil {
			return describe(err), nil
		}
		return v, nil
	case "or": // a word is the value of an error
		v, err := e.do(ctx, &line{l.words[2:], l.block})
		if err != nil {
			return name, nil
		}
		return v, nil
	case "ignore": // an error is no value
		_, _ = e.do(ctx, &line{l.words[1:], l.block})
		return "", nil
	case "detach":
		return e.run(Detach(ctx), l.block)
	case "cancelable": // the same Context each time
		if e.inner[name] == nil {
			e.inner[name], e.stop[name] = WithCancel(ctx)
		}
		return e.run(e.inner[name], l.block)
	case "stop":
		e.stop[name](errBad)
		return "", nil
	case "say":
		return name, nil
	case "input":
		return e.in, nil
	case "if":
		if e.in == name {
			return e.run(ctx, l.block)
		}
		return "", nil
	case "unless", "whether": // a function that a command changes
		if e.flags[name] == (l.words[0] == "whether") {
			return e.run(ctx, l.block)
		}
		return "", nil
	case "fail":
		return "", errors.New(name)
	case "panic":
		panic(name)
	case "publish":
		Publish(ctx, name)
		return "", nil
	case "restart":
		return "", Restart(ctx, name)
	case "replaying":
		return fmt.Sprint(ctx.Info().Replaying), nil
	case "epoch":
		return fmt.Sprint(ctx.Info().Epoch), nil
	case "now":
		return ctx.Now().Sub(e.began).String(), nil
	case "version":
		return fmt.Sprint(Version(ctx, name, l.number("latest"))), nil
	case "patched":
		if Patched(ctx, name) {
			return e.run(ctx, l.block)
		}
		return "", nil
	case "removed":
		for kind := range journal.KindLast + 1 {
			if kind.String() == l.arg(2) {
				Removed(ctx, name, kind)
			}
		}
		return "", nil
	case "renamed":
		Renamed(ctx, name, l.arg(2))
		return "", nil
	case "step":
		return Step(ctx, name, e.body(l, name), e.options(l, name)...)
	case "mark":
		undo := func(sc *StepCtx, v string) error { return e.undo(sc, l, name, v) }
		return Compensated(ctx, name, e.body(l, name), undo, e.options(l, name)...)
	case "do":
		return "", pass(ctx, name)
	case "draw": // a step whose name is a random number
		return "", pass(ctx, fmt.Sprint("drawn ", ctx.Rand().Uint64(), " ", ctx.Info().Epoch))
	case "update":
		return Update(ctx, name, func(tx *Tx) (string, error) {
			if (*tx.Host().(*state))[name] += "x"; e.strict && (*tx.Host().(*state))[name] != "x" {
				return "", fmt.Errorf("%s is updated twice", name)
			}
			switch {
			case l.is("fails"):
				return "", errBad
			case l.is("panics"):
				panic("ouch")
			}
			return l.option("value"), nil
		})
	case "begin":
		f, err := Begin(ctx, name, e.body(l, name), e.options(l, name)...)
		if err != nil {
			return "", err
		}
		e.futures[name] = f.Get
		return "", nil
	case "timer":
		f, err := Timer(ctx, name, e.duration(l.arg(2)))
		if err != nil {
			return "", err
		}
		e.futures[name] = func(ctx Context) (string, error) {
			at, err := f.Get(ctx)
			return at.Sub(e.began).String(), err
		}
		e.over[name] = f.Done
		return "", nil
	case "done":
		return fmt.Sprint(e.over[name]()), nil
	case "get":
		return e.futures[name](ctx)
	case "sleepto": // a time after the beginning
		return "", SleepUntil(ctx, name, e.began.Add(e.duration(l.arg(2))))
	case "sleep":
		return "", Sleep(ctx, name, e.duration(l.arg(2)))
	case "receive":
		m, err := Receive(ctx, name, Inbox[string]{Name: l.arg(2)}, e.wait(l)...)
		e.got[name] = m
		return m.Body, err
	case "batch":
		list, err := ReceiveBatch(ctx, name, Inbox[string]{Name: l.arg(2)}, l.number("limit"), e.wait(l)...)
		out := fmt.Sprint(len(list))
		for _, m := range list {
			out += " " + m.Body
		}
		return out, err
	case "any":
		m, err := ReceiveAny(ctx, name, strings.Split(l.arg(2), ","), e.wait(l)...)
		return m.Queue, err
	case "reply":
		return Update(ctx, name, func(tx *Tx) (string, error) { return "", Reply(tx, e.got[l.arg(2)], "ok") })
	case "await":
		return Await(ctx, name, func(s *state) (string, bool) { v, ok := (*s)[l.arg(2)]; return v, ok }, e.wait(l)...)
	case "scope":
		return Scope(ctx, name, func(ctx Context) (string, error) { return e.run(ctx, l.block) })
	case "saga":
		options := []SagaOption{UndoParallel(l.number("parallel"))}
		if n := l.number("undo-attempts"); n > 0 {
			options = append(options, UndoRetry(RetryPolicy{MaxAttempts: n}))
		}
		return Saga(ctx, name, func(ctx Context) (string, error) { return e.run(ctx, l.block) }, options...)
	case "loop":
		options := []LoopOption{Keep(l.number("keep"))}
		if l.option("trim") != "" {
			options = append(options, TrimEvery(l.number("trim")))
		}
		return Loop(ctx, name, "", func(it *Iter[string, string]) error {
			v, err := e.of(int(it.Iteration())).run(it, l.block)
			if it.State += v; err == nil && strconv.Itoa(int(it.Iteration())+1) == l.arg(2) {
				return it.Break(it.State)
			}
			return err
		}, options...)
	case "join", "joinfast":
		outs := make([]string, len(l.block))
		var list []Branch
		e.branches(l, func(name string, body func(ctx Context) (string, error)) {
			list = append(list, B(name, &outs[len(list)], body))
		})
		if l.words[0] == "join" {
			return "", errors.Join(Join(ctx, name, list...), e.keep(name, outs))
		}
		return "", errors.Join(JoinFast(ctx, name, list...), e.keep(name, outs))
	case "values": // of a join, even of a failed one
		return e.futures[name](ctx)
	case "race":
		var list []Case[string]
		e.branches(l, func(name string, body func(ctx Context) (string, error)) { list = append(list, C(name, body)) })
		winner, v, err := Race(ctx, name, list...)
		return strings.TrimSpace(winner + " " + v), err
	case "map":
		out, err := ForEach(ctx, name, make([]int, l.count()), func(ctx Context, i, _ int) (string, error) {
			return e.of(i).run(ctx, l.block)
		}, Concurrency(l.number("at-once")))
		return "", errors.Join(err, e.keep(name, out))
	case "spawn":
		var options []SpawnOption
		if to := l.option("on"); to != "" {
			options = append(options, OnActor(destination(to)))
		}
		if p, ok := map[string]ParentClose{"abandon": CloseAbandon, "cancel": CloseCancel,
			"terminate": CloseTerminate}[l.option("close")]; ok {
			options = append(options, OnParentClose(p))
		}
		c, err := Spawn(ctx, name, e.functions[l.arg(2)], l.option("in")+strings.Repeat("x", l.number("size")), options...)
		e.kids[name] = c
		return "", err
	case "cancel":
		return "", e.kids[name].Cancel(ctx, "enough")
	case "result":
		return e.kids[name].Result(ctx)
	}
	e.t.Fatalf("%s: no statement %q", e.at, l.words[0])
	return "", nil
}

// of returns the variables of an iteration or element.
func (e *env) of(n int) *env {
	inner := *e
	inner.in, inner.path = strconv.Itoa(n), fmt.Sprint(e.path, ".", n)
	return &inner
}

// keep makes "values" return the results of the branches of a join.
func (e *env) keep(name string, outs []string) error {
	e.futures[name] = func(Context) (string, error) { return fmt.Sprintf("%q", outs), nil }
	return nil
}

var errBad = errors.New("bad")

// note sets a key of the actor's state in the transaction of a step. "undone" also appends to the
// order of undoing.
func note(sc *StepCtx, key, value string) {
	sc.OnCommit(func(tx *Tx) error {
		put(tx, key, value)
		if value == "undone" {
			(*tx.Host().(*state))["order"] += " " + key
		}
		return nil
	})
}
