package lazy_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cairn-run/cairn/workflow/lazy"
)

var errFirst, errSecond = errors.New("first"), errors.New("second")

// What a Context says is what one of context.WithCancelCause says, whatever happens in what order and whenever it is asked for
// Done.
func TestAsWithCancelCause(t *testing.T) {
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
	for n1 := range steps {
		for n2 := range steps {
			for n3 := range steps {
				type key struct{}
				p1, end1 := context.WithCancelCause(context.WithValue(context.Background(), key{}, 7))
				p2, end2 := context.WithCancelCause(context.Background())
				l := new(lazy.Context)
				l.Init(p1)
				r, cancel := context.WithCancelCause(p2)
				b := &both{l, r, l.Cancel, cancel, func(err error) { end1(err); end2(err) }}
				for _, name := range []string{n1, n2, n3} {
					steps[name](b)
					if got, want := l.Err(), r.Err(); got != want {
						t.Errorf("%s, %s, %s: after %s the error is %v, want %v", n1, n2, n3, name, got, want)
					}
					if got, want := context.Cause(l), context.Cause(r); got != want {
						t.Errorf("%s, %s, %s: after %s the cause is %v, want %v", n1, n2, n3, name, got, want)
					}
					if l.Value(key{}) != 7 {
						t.Errorf("%s, %s, %s: after %s the parent's value is gone", n1, n2, n3, name)
					}
				}
				child, stop := context.WithCancel(l)
				if got, want := child.Err(), r.Err(); got != want {
					t.Errorf("%s, %s, %s: a child's error is %v, want %v", n1, n2, n3, got, want)
				}
				select {
				case <-l.Done():
					if r.Err() == nil {
						t.Errorf("%s, %s, %s: done", n1, n2, n3)
					}
				default:
					if r.Err() != nil {
						t.Errorf("%s, %s, %s: not done", n1, n2, n3)
					}
				}
				stop()
				cancel(nil)
				end1(nil)
				end2(nil)
			}
		}
	}
}
