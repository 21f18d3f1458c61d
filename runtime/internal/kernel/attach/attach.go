// Package attach keeps values with an object for packages that the object does not know. Each
// package attaches values of its own types, and finds them by type.
package attach

import (
	"iter"
	"sync/atomic"
)

// A List holds the values that are attached to one object. The zero List is empty. Safe for
// concurrent use.
type List struct {
	first atomic.Pointer[node]
	// Ended is set when the owner of the list is no longer used. Nothing closes a value that is
	// attached later.
	Ended atomic.Bool
}

type node struct {
	value any
	next  *node
}

// Get returns the value of a type, or the zero value if there is none.
func Get[T comparable](l *List) (found T) {
	for n := l.first.Load(); n != nil; n = n.next {
		if v, ok := n.value.(T); ok {
			return v
		}
	}
	return found
}

// Make returns the value of a type. If there is none, it attaches the result of make. Every caller
// gets the same value, but make may run more often.
func Make[T comparable](l *List, make func() T) T {
	var zero T
	for {
		first := l.first.Load()
		if v := Get[T](l); v != zero {
			return v
		}
		v := make()
		if l.first.CompareAndSwap(first, &node{value: v, next: first}) {
			return v
		}
	}
}

// Each calls f for each value that is a T.
func Each[T any](l *List, f func(T)) {
	for n := l.first.Load(); n != nil; n = n.next {
		if v, ok := n.value.(T); ok {
			f(v)
		}
	}
}

// As ranges over the elements of a list that are a T.
func As[T, E any](list []E) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, e := range list {
			if x, ok := any(e).(T); ok && !yield(x) {
				return
			}
		}
	}
}

// Gather appends a value to a list if it is a T.
func Gather[T any](list *[]T, value any) {
	if x, ok := value.(T); ok {
		*list = append(*list, x)
	}
}
