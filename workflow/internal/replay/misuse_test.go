package replay_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

var bodies int // that have run

func errOf[T any](_ T, err error) error { return err }

// body, inside and update return functions that count themselves and return v.
func body[T any](v T) func(*StepCtx) (T, error) {
	return func(*StepCtx) (T, error) { bodies++; return v, nil }
}

func inside[T any](v T) func(Context) (T, error) {
	return func(Context) (T, error) { bodies++; return v, nil }
}

func update[T any](v T) func(*Tx) (T, error) {
	return func(*Tx) (T, error) { bodies++; return v, nil }
}

// Code that breaks a rule pauses the run as misuse, instead of failing an operation: before a body
// runs, if its type shows it. The text names the place, except for some results.
func TestMisusePausesTheRun(t *testing.T) {
	q := Inbox[int]{Name: "q"}
	const result = `": its result cannot be recorded`
	for _, tt := range []struct {
		says   string
		bodies int
		f      func(ctx Context) error
	}{
		{`step "a" is asked for twice`, 0, func(ctx Context) error { _ = pass(ctx, "a"); return pass(ctx, "a") }},
		{"empty", 0, func(ctx Context) error { return pass(ctx, "") }},
		{"257 bytes", 0, func(ctx Context) error { return pass(ctx, strings.Repeat("x", 257)) }},
		{"", 0, func(ctx Context) error { return pass(ctx, strings.Repeat("x", 256)) }},
		{"UTF-8", 0, func(ctx Context) error { return pass(ctx, "\xff") }},
		{`step "a": the function is nil`, 0, func(ctx Context) error { return Do(ctx, "a", nil) }},
		{`update "a": the function is nil`, 0, func(ctx Context) error { return errOf(Update[int](ctx, "a", nil)) }},
		{"option 0 is nil", 0, func(ctx Context) error { return Do(ctx, "a", ok, nil) }},
		{"negative", 0, func(ctx Context) error { return Do(ctx, "a", ok, Timeout(-1)) }},
		{"MaxAttempts -2", 0, func(ctx Context) error { return Do(ctx, "a", ok, Retry(RetryPolicy{MaxAttempts: -2, Jitter: 2})) }},
		{"option 0 is nil", 0, func(ctx Context) error { return errOf(Receive(ctx, "a", q, nil)) }},
		{"the source is nil", 0, func(ctx Context) error { return errOf(Receive[int](ctx, "a", nil)) }},
		{"no queues", 0, func(ctx Context) error { return errOf(ReceiveAny(ctx, "a", nil)) }},
		{"name of a queue is empty", 0, func(ctx Context) error { return errOf(Receive(ctx, "a", Inbox[int]{})) }},
		{"limit of 0", 0, func(ctx Context) error { return errOf(ReceiveBatch(ctx, "a", q, 0)) }},
		{"the function is nil", 0, func(ctx Context) error { return errOf(Await[int, int](ctx, "a", nil)) }},
		{"latest is 0", 0, func(ctx Context) error { Version(ctx, "a", 0); return nil }},
		{"publish", 0, func(ctx Context) error { Publish(ctx, func() {}); return nil }},
		// Contexts of other functions.
		{`used inside of "a"`, 0, func(ctx Context) error {
			return errOf(Scope(ctx, "a", func(Context) (int, error) { return 0, pass(ctx, "b") }))
		}},
		{`used inside of "a"`, 0, func(ctx Context) error {
			return errOf(Loop(ctx, "a", 0, func(*Iter[int, int]) error { return pass(ctx, "b") }))
		}},
		{"a Context of its own", 0, func(ctx Context) error {
			return Join(ctx, "a", B("b", nil, func(Context) (int, error) { return 0, pass(ctx, "c") }))
		}},
		{"after its function returned", 0, func(ctx Context) error {
			var kept Context
			if err := errOf(Scope(ctx, "a", func(inner Context) (int, error) { kept = inner; return 0, nil })); err != nil {
				return err
			}
			return pass(kept, "b")
		}},
		{"scope", 0, func(ctx Context) error {
			return errOf(Scope(ctx, "scope", func(Context) (uint64, error) { return ctx.Rand().Uint64(), nil }))
		}},
		{"was used outside of its workflow function", 1, func(ctx Context) error {
			return Do(ctx, "a", func(*StepCtx) error { bodies++; return pass(ctx, "b") })
		}},
		{"was used outside of its workflow function", 1, func(ctx Context) error {
			return Do(ctx, "a", func(sc *StepCtx) error {
				bodies++
				sc.OnCommit(func(*Tx) error { return pass(ctx, "b") })
				return nil
			})
		}},
		{"was used outside of its workflow function", 1, func(ctx Context) error {
			return errOf(Update(ctx, "a", func(*Tx) (none, error) { bodies++; return none{}, pass(ctx, "b") }))
		}},
		{`the body of loop "a" has called Break and returned nil`, 0, func(ctx Context) error {
			return errOf(Loop(ctx, "a", 0, func(it *Iter[int, int]) error { _ = it.Break(1); return nil }))
		}},
		// Results that cannot be encoded: by their types, and by their values.
		{`step "a` + result, 0, func(ctx Context) error { return errOf(Step(ctx, "a", body(struct{ C chan int }{}))) }},
		{`step "a` + result, 0, func(ctx Context) error { return errOf(Begin(ctx, "a", body[func()](nil))) }},
		{`step "a` + result, 0, func(ctx Context) error { return errOf(Update(ctx, "a", update[chan int](nil))) }},
		{`scope "a` + result, 0, func(ctx Context) error { return errOf(Scope(ctx, "a", inside[chan int](nil))) }},
		{`saga "a` + result, 0, func(ctx Context) error { return errOf(Saga(ctx, "a", inside[chan int](nil))) }},
		{`"a/b` + result, 0, func(ctx Context) error { return Join(ctx, "a", B("b", nil, inside[chan int](nil))) }},
		{`"a/b` + result, 0, func(ctx Context) error { _, _, err := Race(ctx, "a", C("b", inside[chan int](nil))); return err }},
		{result, 0, func(ctx Context) error {
			return errOf(ForEach(ctx, "a", []int{1}, func(Context, int, int) (chan int, error) { bodies++; return nil, nil }))
		}},
		{`loop "a` + result, 0, func(ctx Context) error {
			return errOf(Loop(ctx, "a", 0, func(it *Iter[int, chan int]) error { bodies++; return it.Break(nil) }))
		}},
		{`loop "a` + result, 0, func(ctx Context) error {
			return errOf(Loop(ctx, "a", nil, func(it *Iter[chan int, int]) error { bodies++; return it.Break(1) }))
		}},
		{`await "a` + result, 0, func(ctx Context) error {
			return errOf(Await(ctx, "a", func(any) (chan int, bool) { bodies++; return nil, true }))
		}},
		{"the output of the function", 0, func(ctx Context) error {
			child := NewFunction("u", func(Context, none) (chan int, error) { bodies++; return nil, nil })
			c, err := Spawn(ctx, "a", child, none{})
			if err != nil {
				return err
			}
			return errOf(c.Result(ctx))
		}},
		{`step "a": the result cannot be recorded`, 1, func(ctx Context) error { return errOf(Step(ctx, "a", body[any](make(chan int)))) }},
		{`update "a": the result cannot be recorded`, 1,
			func(ctx Context) error { return errOf(Update(ctx, "a", update[any](make(chan int)))) }},
		{`"a": the result cannot be recorded`, 1, func(ctx Context) error { return errOf(Scope(ctx, "a", inside[any](make(chan int)))) }},
		{`"a/b": the result cannot be recorded`, 1,
			func(ctx Context) error { return Join(ctx, "a", B("b", nil, inside[any](make(chan int)))) }},
		{`await "a": the result cannot be recorded`, 1, func(ctx Context) error {
			return errOf(Await(ctx, "a", func(any) (any, bool) { bodies++; return make(chan int), true }))
		}},
	} {
		bodies = 0
		h := begun(t, func(ctx Context, _ none) (string, error) { return "", tt.f(ctx) })
		pause(t, h)
		if tt.says == "" {
			wantShown(t, h, "completed ")
			continue
		}
		wantPause(t, h, PausedMisuse, tt.says)
		errorIf(t, bodies != tt.bodies, "%s: %d bodies ran, want %d", tt.says, bodies, tt.bodies)
		if !strings.Contains(tt.says, "recorded") && !strings.Contains(tt.says, "output") {
			wantPause(t, h, PausedMisuse, "misuse_test.go:")
		}
	}
}

// A Context that is used after the end of its run panics.
func TestContextAfterTheEnd(t *testing.T) {
	var leaked Context
	drive(t, begun(t, func(ctx Context, _ none) (string, error) { leaked = ctx; return "", nil }))
	defer func() {
		p := recover()
		errorIf(t, p == nil || !strings.Contains(fmt.Sprint(p), "outside of its workflow function"), "panic %v", p)
	}()
	_ = pass(leaked, "late")
}

// A run whose output cannot be encoded has not failed: its steps are not undone.
func TestOutputThatCannotBeEncodedUndoesNothing(t *testing.T) {
	undone := 0
	h := begun(t, func(ctx Context, _ none) (any, error) {
		_, err := Compensated(ctx, "a", body(1), func(*StepCtx, int) error { undone++; return nil })
		return make(chan int), err
	})
	pause(t, h)
	wantPause(t, h, PausedMisuse, "the output of the function")
	errorIf(t, undone != 0, "it was undone %d times", undone)
}

// The text of a panic names its place.
func TestPanicsPause(t *testing.T) {
	for says, f := range map[string]func(ctx Context) error{
		"ouch":   func(Context) error { panic("ouch") },
		"Goexit": func(Context) error { runtime.Goexit(); return nil },
		"probe": func(ctx Context) error {
			return errOf(Await(ctx, "a", func(*state) (none, bool) { panic("probe") }))
		},
		"*replay_test.state": func(ctx Context) error { // another view
			return errOf(Await(ctx, "a", func(int) (none, bool) { return none{}, true }))
		},
	} {
		h := begun(t, func(ctx Context, _ none) (none, error) { return none{}, f(ctx) })
		pause(t, h)
		wantPause(t, h, PausedPanicked, says)
		errorIf(t, says == "ouch" && !strings.Contains(status(t, h).Pause.Text, "misuse_test.go:"), "%s", status(t, h).Pause.Text)
	}
}
