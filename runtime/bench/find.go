package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
)

// The actor under test of the rows about finding actors: its turns change a state, and an attribute
// or none.
type member struct{ Count int64 }

// A crew is a type of members.
type crew struct {
	members *actor.Type[member]
	plan    *actor.Attribute[int64]
	join    *actor.Action[member, int64, int64]
}

// crews are the types, of which most rows have the first only.
var crews = func() (all []crew) {
	for i := range 8 {
		t := actor.NewType[member](fmt.Sprint("member", i))
		all = append(all, crew{t, actor.NewAttribute[int64](t, "plan"), actor.NewAction[int64, int64](t, "join")})
	}
	return all
}()

// Inputs of join beside a plan: no attribute, and another one each time.
const (
	plainTurn  = -1
	changeTurn = -2
	sameTurn   = 7
)

func (c crew) joined(m *member, ctx *actor.Context, in int64) (int64, error) {
	m.Count++
	switch in {
	case plainTurn:
		return m.Count, nil
	case changeTurn:
		in = m.Count
	}
	return m.Count, c.plan.Set(ctx, in)
}

func findRows() []row {
	var all []row
	for _, n := range []int{10_000, 1_000_000} {
		add := func(what string, types int, q, byKey host.ListQuery) {
			all = append(all,
				row{name: fmt.Sprintf("find: 100 of %d %s, p50 / the page by key", n, what),
					target: "at most 3, and 100 ms", latency: true, long: n > 10_000,
					ours: func(b *bench) float64 { return b.foundPage(n, types, q) }, raw: func(b *bench) float64 { return b.foundPage(n, types, byKey) }})
		}
		for what, q := range map[string]host.ListQuery{
			"by an attribute": {Where: []string{"plan=3"}}, "by a range": {Where: []string{"plan>3"}}, "by size": {Where: []string{"size>10"}}, "by update": {Where: []string{"updated>2020-01-01"}},
			"by state": {Where: []string{"state=awake"}}, "sorted by an attribute": {Sort: "-plan"}, "sorted by size": {Sort: "-size"}, "sorted by update": {Sort: "updated"},
		} {
			q.Type = "member0"
			add(what, 1, q, host.ListQuery{Type: q.Type})
		}
		for _, types := range []int{1, len(crews)} {
			for _, field := range []string{"-size", "-plan"} {
				add(fmt.Sprintf("of all types (%d) in the order %s", types, field), types,
					host.ListQuery{Sort: field}, host.ListQuery{})
			}
		}
	}
	return append(all,
		row{name: "find: turns that set the same attribute, 64 callers, one actor / the turn without", target: "at least 0.98",
			ours: func(b *bench) float64 { return b.joins(sameTurn) }, raw: func(b *bench) float64 { return b.joins(plainTurn) }},
		row{name: "find: turns that change an attribute, 64 callers, one actor / the turn without",
			target: "at least 0.87",
			ours:   func(b *bench) float64 { return b.joins(changeTurn) }, raw: func(b *bench) float64 { return b.joins(plainTurn) }})
}

func memberOptions() (o runtime.Options) {
	for _, c := range crews {
		o.Actors = append(o.Actors, actor.Define(c.members, actor.Spec[member]{}, actor.On(c.join, c.joined)))
	}
	return o
}

func (b *bench) joins(in int64) (v float64) {
	b.node(memberOptions(), func(rt *runtime.Runtime) {
		v = b.load(64, func(int, int) { crews[0].call(rt, "one", in) })
	})
	return v
}

func (c crew) call(rt *runtime.Runtime, key string, in int64) {
	_, err := c.join.Call(context.Background(), c.members.Ref(rt, key), in)
	check(err)
}

// foundPage measures a page of n actors, which are made once.
func (b *bench) foundPage(n, types int, q host.ListQuery) (v float64) {
	o := memberOptions()
	o.Dir = fmt.Sprint(b.dir, "/members-", n, "-", types)
	_, err := os.Stat(o.Dir)
	made := err == nil
	o.NoSync = !made
	b.node(o, func(rt *runtime.Runtime) {
		if !made {
			joinAll(rt, n, types)
			return
		}
		v = b.pages(rt, types, q)
	})
	if !made {
		return b.foundPage(n, types, q)
	}
	return v
}

// joinAll makes n actors with ten plans.
func joinAll(rt *runtime.Runtime, n, types int) {
	var wg sync.WaitGroup
	const workers = 64
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				crews[i%types].call(rt, fmt.Sprintf("%07d", i), int64(i/types%10))
			}
		})
	}
	wg.Wait()
}

// pages measures pages of a listing. Some actors are awake.
func (b *bench) pages(rt *runtime.Runtime, types int, q host.ListQuery) float64 {
	for i := range 200 {
		i *= 7
		crews[i%types].call(rt, fmt.Sprintf("%07d", i), plainTurn)
	}
	q.Limit = 100
	return b.p50(func(int) {
		page, err := rt.List(context.Background(), q)
		check(err)
		if len(page.Actors) != 100 {
			panic(fmt.Sprint(len(page.Actors), " actors"))
		}
	})
}
