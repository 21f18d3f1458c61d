package lazy_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cairn-run/cairn/workflow/lazy"
)

var errFirst, errSecond = errors.New("first"), errors.New("second")

// A Context behaves as one of context.WithCancelCause does, regardless of the order of events and
// of the time of the first call of Done.
func TestAsWithCancelCause(t *testing.T) {
	type key struct{}
	type both struct {
		lazy, real             context.Context
		cancelLazy, cancelReal func(error)
		endParents             func(error)
	}
	steps := map[string]func(*both){
		"ask":        func(b *both) { b.lazy.Done() },
		"cancel":     func(b *both) { b.cancelLazy(errFirst); b.cancelReal(errFirst) },
		"cancel nil": func(b *both) { b.cancelLazy(nil); b.cancelReal(nil) },
		"again":      func(b *both) { b.cancelLazy(errSecond); b.cancelReal(errSecond) },
		"end parent": func(b *both) { b.endParents(errors.ErrUnsupported) },
	}
	try := func(names ...string) {
		p1, end1 := context.WithCancelCause(context.WithValue(context.Background(), key{}, 7))
		p2, end2 := context.WithCancelCause(context.Background())
		l := new(lazy.Context)
		l.Init(p1)
		r, cancel := context.WithCancelCause(p2)
		b := &both{l, r, l.Cancel, cancel, func(err error) { end1(err); end2(err) }}
		defer b.endParents(nil)
		same := func(what string, got, want any) {
			t.Helper()
			if got != want {
				t.Errorf("%q: %s is %v, want %v", names, what, got, want)
			}
		}
		for _, name := range names {
			steps[name](b)
			same("the error after "+name, l.Err(), r.Err())
			same("the cause after "+name, context.Cause(l), context.Cause(r))
			same("the parent's value after "+name, l.Value(key{}), 7)
		}
		child, stop := context.WithCancel(l)
		defer stop()
		same("a child's error", child.Err(), r.Err())
		done := false
		select {
		case <-l.Done():
			done = true
		default:
		}
		same("done", done, r.Err() != nil)
	}
	for first := range steps {
		for second := range steps {
			for third := range steps {
				try(first, second, third)
			}
		}
	}
}
