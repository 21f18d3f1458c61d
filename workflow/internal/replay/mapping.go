package replay

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A ForEachOption changes how ForEach runs.
type ForEachOption interface{ mapping(*mapOptions) error }

type mapOption func(*mapOptions) error

func (f mapOption) mapping(o *mapOptions) error { return f(o) }

type mapOptions struct{ concurrency int }

// Concurrency bounds how many elements run at the same time. The default, and 0, is no bound.
func Concurrency(n int) ForEachOption {
	return mapOption(func(o *mapOptions) error {
		o.concurrency = n
		return notNegative("Concurrency", n)
	})
}

// ForEach calls fn for each item, concurrently, and returns the results in the order of the items.
func ForEach[T, R any](ctx Context, name string, items []T,
	fn func(ctx Context, i int, item T) (R, error), opts ...ForEachOption) ([]R, error) {
	s := ctx.scope()
	o, skip, err := s.open(KindForEach, name)
	if err != nil {
		return nil, err
	}
	var options mapOptions
	for _, opt := range opts {
		if err := opt.mapping(&options); err != nil {
			return nil, o.refuse(err)
		}
	}
	members, err := s.mapping(o, skip, len(items), options, func(ctx Context, i int) ([]byte, error) {
		ctx.scope().mustEncode(reflect.TypeFor[R]())
		v, err := fn(ctx, i, items[i])
		if err != nil {
			return nil, err
		}
		return ctx.scope().encoded(v), nil
	})
	if err != nil {
		return nil, err
	}
	results := make([]R, len(items))
	for i, m := range members {
		if m.o.entry.Status == Completed {
			results[i], _ = resultOf[R](s, m.o.entry.Output, nil)
		}
	}
	return results, joinError(name, members, false)
}

// mapping runs the elements of a foreach, and returns them with their ends.
func (s *scope) mapping(o *op, skip bool, count int, options mapOptions,
	fn func(ctx Context, i int) ([]byte, error)) ([]*member, error) {
	r := s.run
	if count > MaxBranches {
		return nil, o.refuse(fmt.Errorf("workflow: %q has %d elements, and the limit is %d", o.name,
			count, MaxBranches))
	}
	if o.recorded && int(o.entry.Count) != count {
		r.diverged(o, strconv.Itoa(int(o.entry.Count))+" elements", strconv.Itoa(count)+" elements", "")
	}
	members := make([]*member, count)
	for i := range members {
		members[i] = &member{name: strconv.Itoa(i), ordinal: uint32(i),
			loc: journal.ChildIteration(nil, o.loc, o.index, uint32(i)), run: func(ctx Context) ([]byte, error) {
				return fn(ctx, i)
			}}
	}
	g := s.group(o)
	if skip {
		g.recall(members)
		o.wait(s.owner)
		return members, nil
	}
	if !o.recorded {
		o.entry.Count = uint32(count)
		r.put(o)
	}
	next := 0
	more := func() {
		if next < count {
			next++
			g.start(members[next-1])
		}
	}
	g.ended = func(m *member) { more() }
	for first := options.concurrency; next < count && (options.concurrency <= 0 || first > 0); first-- {
		more()
	}
	g.wait()
	o.end(nil, joinError(o.name, members, false), nil, members...)
	return members, nil
}
