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

// The actor under test of the rows about finding actors: its turns change a state, and an attribute or none.
type member struct{ Count int64 }

var (
	members = actor.NewType[member]("member")
	plan    = actor.NewAttribute[int64](members, "plan")
	join    = actor.NewAction[int64, int64](members, "join")
)

// Inputs of join beside a plan: no attribute, and another one each time.
const (
	plainTurn  = -1
	changeTurn = -2
	sameTurn   = 7
)

func (m *member) join(ctx *actor.Context, in int64) (int64, error) {
	m.Count++
	switch in {
	case plainTurn:
		return m.Count, nil
	case changeTurn:
		in = m.Count
	}
	return m.Count, plan.Set(ctx, in)
}

func findRows() []row {
	var all []row
	for _, n := range []int{10_000, 1_000_000} {
		name := func(what string) string { return fmt.Sprintf("find: 100 of %d %s, p50 / the page by key", n, what) }
		byKey := func(b *bench) float64 { return b.foundPage(n, host.ListQuery{}) }
		for what, q := range map[string]host.ListQuery{
			"by an attribute": {Where: []string{"plan=3"}}, "by a range": {Where: []string{"plan>3"}}, "by size": {Where: []string{"size>10"}}, "by update": {Where: []string{"updated>2020-01-01"}},
			"by state": {Where: []string{"state=awake"}}, "sorted by an attribute": {Sort: "-plan"}, "sorted by size": {Sort: "-size"}, "sorted by update": {Sort: "updated"},
		} {
			all = append(all, row{name: name(what), target: "at most 3, and 100 ms", latency: true, long: n > 10_000,
				ours: func(b *bench) float64 { return b.foundPage(n, q) }, raw: byKey})
		}
	}
	return append(all,
		row{name: "find: turns that set the same attribute, 64 callers, one actor / the turn without", target: "at least 0.98",
			ours: func(b *bench) float64 { return b.joins(sameTurn) }, raw: func(b *bench) float64 { return b.joins(plainTurn) }},
		row{name: "find: turns that change an attribute, 64 callers, one actor / the turn without", target: "at least 0.87",
			ours: func(b *bench) float64 { return b.joins(changeTurn) }, raw: func(b *bench) float64 { return b.joins(plainTurn) }})
}

func memberOptions() runtime.Options {
	return runtime.Options{Actors: []actor.Definition{actor.Define(members, actor.Spec[member]{}, actor.On(join, (*member).join))}}
}

func (b *bench) joins(in int64) (v float64) {
	b.node(memberOptions(), func(rt *runtime.Runtime) {
		ctx, ref := context.Background(), members.Ref(rt, "one")
		v = b.load(64, func(int, int) {
			_, err := join.Call(ctx, ref, in)
			check(err)
		})
	})
	return v
}

// foundPage measures a page of n actors, which are made once.
func (b *bench) foundPage(n int, q host.ListQuery) (v float64) {
	o := memberOptions()
	o.Dir = fmt.Sprint(b.dir, "/members-", n)
	_, err := os.Stat(o.Dir)
	made := err == nil
	o.NoSync = !made
	b.node(o, func(rt *runtime.Runtime) {
		if !made {
			joinAll(rt, n)
			return
		}
		v = b.pages(rt, q)
	})
	if !made {
		return b.foundPage(n, q)
	}
	return v
}

// joinAll makes n actors with ten plans.
func joinAll(rt *runtime.Runtime, n int) {
	var wg sync.WaitGroup
	const workers = 64
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				_, err := join.Call(context.Background(), members.Ref(rt, fmt.Sprintf("%07d", i)), int64(i%10))
				check(err)
			}
		})
	}
	wg.Wait()
}

// pages measures pages of a listing. Some actors are awake.
func (b *bench) pages(rt *runtime.Runtime, q host.ListQuery) float64 {
	for i := range 200 {
		_, err := join.Call(context.Background(), members.Ref(rt, fmt.Sprintf("%07d", i*7)), plainTurn)
		check(err)
	}
	q.Type, q.Limit = "member", 100
	return b.p50(func(int) {
		page, err := rt.List(context.Background(), q)
		check(err)
		if len(page.Actors) != 100 {
			panic(fmt.Sprint(len(page.Actors), " actors"))
		}
	})
}
