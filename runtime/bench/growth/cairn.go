package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

// cacheBytes is the size of the block cache of both sides.
const cacheBytes = 256 << 20

// entryTTL is how long an entry lives that expires.
const entryTTL = 30 * time.Second

// An account has a small state, and entries in its store.
type account struct {
	Count int64
	Text  string
}

var (
	accounts = actor.NewType[account]("account")
	fill     = actor.NewAction[int, actor.None](accounts, "fill") // state and entries of that number
	touch    = actor.NewAction[bool, bool](accounts, "touch")     // with an entry that expires, or without
	look     = actor.NewQuery[actor.None, bool](accounts, "look")

	// A sleeper's run waits for a year.
	sleepers = actor.NewType[struct{}]("sleeper")
	rest     = actor.NewWorkflow[actor.None, actor.None](sleepers, "rest")
	answer   = actor.NewQuery[actor.None, actor.None](sleepers, "answer")
)

func (a *account) fill(ctx *actor.Context, i int) (actor.None, error) {
	p := payloadOf(i)
	a.Text = p.text
	for k, e := range p.entries {
		if err := ctx.KV().Put(entryKey(k), e); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

func entryKey(k int) tuple.Tuple { return tuple.Tuple{"entry", k} }

// touch reports whether the account was filled before.
func (a *account) touch(ctx *actor.Context, expiring bool) (bool, error) {
	a.Count++
	if expiring {
		if err := ctx.KV().Put(entryKey(entriesOf), expiringEntry, actor.TTL(entryTTL)); err != nil {
			return false, err
		}
	}
	return a.Text != "", nil
}

var expiringEntry = payloadOf(-1).entries[0]

func (a account) look(*actor.ReadContext, actor.None) (bool, error) { return a.Text != "", nil }

func waitForever(ctx workflow.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, workflow.Sleep(ctx, "rest", 365*24*time.Hour)
}

func definitions() []actor.Definition {
	return []actor.Definition{
		actor.Define(accounts, actor.Spec[account]{},
			actor.On(fill, (*account).fill), actor.On(touch, (*account).touch), actor.OnQuery(look, account.look)),
		actor.Define(sleepers, actor.Spec[struct{}]{}, actor.OnRun(rest, waitForever),
			actor.OnQuery(answer,
				func(struct{}, *actor.ReadContext, actor.None) (actor.None, error) { return actor.None{}, nil })),
	}
}

// A cairn is the side of Cairn.
type cairn struct{ *runtime.Runtime }

func openCairn(dir string) cairn {
	rt, err := runtime.Open(context.Background(), runtime.Options{
		Dir: dir, Actors: definitions(), CacheBytes: cacheBytes, Logger: slog.New(slog.DiscardHandler),
	})
	check(err)
	return cairn{rt}
}

func (c cairn) create(i int) {
	_, err := fill.Call(context.Background(), accounts.Ref(c, keyOf(i)), i)
	check(err)
}

func (c cairn) call(i int, expiring bool) bool {
	was, err := touch.Call(context.Background(), accounts.Ref(c, keyOf(i)), expiring)
	check(err)
	return was
}

func (c cairn) get(i int) bool {
	is, err := look.Call(context.Background(), accounts.Ref(c, keyOf(i)), actor.None{}, actor.Existing())
	check(err)
	return is
}

func (c cairn) list() (n int) {
	q := host.ListQuery{Type: accounts.Name(), Limit: 1000, Brief: true}
	for {
		page, err := c.List(context.Background(), q)
		check(err)
		n += len(page.Actors)
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return n
		}
	}
}

// destroy removes an actor. Its creation may be under way where few actors are left.
func (c cairn) destroy(i int) {
	err := accounts.Ref(c, keyOf(i)).Destroy(context.Background())
	if actor.CodeOf(err) != host.NotFound {
		check(err)
	}
}

func (c cairn) disk() float64    { return c.gauge("cairn_store_disk_bytes") }
func (c cairn) logical() float64 { return c.gauge("cairn_store_commit_bytes_total") }

// gauge reads a metric without labels.
func (c cairn) gauge(name string) float64 {
	families, err := c.Gatherer().Gather()
	check(err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	check(fmt.Errorf("there is no metric %s", name))
	return 0
}

func (c cairn) close() { check(c.Runtime.Close()) }

// compactCairn compacts a node's store and returns its directory.
func compactCairn(dir string) string {
	dir = filepath.Join(dir, "store")
	s, err := engine.Open(context.Background(), engine.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	check(err)
	check(s.Compact(context.Background()))
	check(s.Close())
	return dir
}
