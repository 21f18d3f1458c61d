package timed_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/runtime/internal/timed"
)

// A Context agrees with one of context.WithDeadline, for any order of events, and for any moment of
// the call of Done.
func TestAsWithDeadline(t *testing.T) {
	type both struct {
		timed, real             context.Context
		cancelTimed, cancelReal func()
		endParents              func()
	}
	steps := map[string]func(*both){
		"ask":        func(b *both) { b.timed.Done() },
		"cancel":     func(b *both) { b.cancelTimed(); b.cancelReal() },
		"end parent": func(b *both) { b.endParents() },
		"wait":       func(b *both) { time.Sleep(time.Second); synctest.Wait() },
	}
	for n1 := range steps {
		for n2 := range steps {
			for n3 := range steps {
				synctest.Test(t, func(t *testing.T) {
					type key struct{}
					p1, end1 := context.WithCancel(context.WithValue(t.Context(), key{}, 7))
					p2, end2 := context.WithCancel(t.Context())
					defer end1()
					defer end2()
					c := timed.Until(p1, time.Now().Add(1500*time.Millisecond))
					defer c.Cancel()
					r, cancel := context.WithTimeout(p2, 1500*time.Millisecond)
					defer cancel()
					b := &both{c, r, c.Cancel, cancel, func() { end1(); end2() }}
					asked := false
					for _, name := range []string{n1, n2, n3} {
						steps[name](b)
						if got, want := c.Err(), r.Err(); got != want {
							t.Errorf("%s, %s, %s: after %s the error is %v, want %v", n1, n2, n3, name, got, want)
						}
						if got, want := context.Cause(c), context.Cause(r); got != want {
							t.Errorf("%s, %s, %s: after %s the cause is %v, want %v", n1, n2, n3, name, got, want)
						}
						if c.Value(key{}) != 7 {
							t.Errorf("%s, %s, %s: after %s the parent's value is gone", n1, n2, n3, name)
						}
						asked = asked || name == "ask"
						if _, _, unmade := c.Unmade(); unmade != (!asked && r.Err() == nil) {
							t.Errorf("%s, %s, %s: after %s a waiter is told %v", n1, n2, n3, name, unmade)
						}
					}
					got, _ := c.Deadline()
					if want, _ := r.Deadline(); !got.Equal(want) {
						t.Errorf("the deadline is %v, want %v", got, want)
					}
					child, stop := context.WithCancel(c)
					defer stop()
					if got, want := child.Err(), r.Err(); got != want {
						t.Errorf("%s, %s, %s: a child's error is %v, want %v", n1, n2, n3, got, want)
					}
					select {
					case <-c.Done():
						if r.Err() == nil {
							t.Errorf("%s, %s, %s: done", n1, n2, n3)
						}
					default:
						if r.Err() != nil {
							t.Errorf("%s, %s, %s: not done", n1, n2, n3)
						}
					}
				})
			}
		}
	}
}

func TestDeadlineOfTheParentComesFirst(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	parent, cancel := context.WithDeadline(t.Context(), soon)
	defer cancel()
	c := timed.Until(parent, soon.Add(time.Minute))
	defer c.Cancel()
	if at, _ := c.Deadline(); !at.Equal(soon) {
		t.Errorf("the deadline is %v, that of the parent %v", at, soon)
	}
}

func TestErrorOfAnEndedContextStays(t *testing.T) {
	for range 200 {
		parent, end := context.WithCancel(t.Context())
		c := timed.Until(parent, time.Now().Add(20*time.Microsecond))
		var wg sync.WaitGroup
		wg.Go(c.Cancel)
		wg.Go(end)
		wg.Go(func() { <-c.Done() })
		wg.Go(func() {
			for c.Err() == nil {
			}
			if first, again := c.Err(), c.Err(); first != again {
				t.Errorf("the error was %v and is %v", first, again)
			}
		})
		wg.Wait()
		if c.Err() == nil {
			t.Error("it has not ended")
		}
	}
}
