package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// A shopNode is a node with shops.
type shopNode struct{ *runtime.Runtime }

// shop runs f with a node on a fresh directory that has shops.
func (b *bench) shop(o runtime.Options, f func(s shopNode)) {
	o.Actors = shopDefinition()
	b.node(o, func(rt *runtime.Runtime) { f(shopNode{rt}) })
}

func (s shopNode) call(a *actor.Action[shop, int, actor.None], key string, in int) {
	_, err := a.Call(context.Background(), shops.Ref(s, key), in)
	check(err)
}

func (s shopNode) point(key string, id int) {
	v, err := sqlPointAt.Call(context.Background(), shops.Ref(s, key), id)
	check(err)
	if v != id-1 {
		fatal(fmt.Errorf("row %d has the value %d", id, v))
	}
}

func shopKey(i int) string { return "shop-" + strconv.Itoa(i) }

func randomID() int { return 1 + rand.IntN(sqlTable) }

func (b *bench) sqlInsert() (v float64) {
	b.shop(runtime.Options{}, func(s shopNode) {
		v = b.p50(func(i int) { s.call(sqlInsertOne, "one", i) })
	})
	return v
}

// sqlInserts has so many actors, each with a caller of its own.
func (b *bench) sqlInserts(actors int) (v float64) {
	b.shop(runtime.Options{}, func(s shopNode) {
		rateOnce(8, actors, func(i int) { s.call(sqlInsertOne, shopKey(i), 0) })
		v = b.load(actors, func(w, i int) { s.call(sqlInsertOne, shopKey(w), i) })
	})
	return v
}

func (b *bench) sqlMixed() (v float64) {
	b.shop(runtime.Options{}, func(s shopNode) {
		v = b.load(1, func(_, i int) { s.call(sqlMixed, "one", i) })
	})
	return v
}

// sqlMixedApart does what a mixed turn does in turns of their own.
func (b *bench) sqlMixedApart() (v float64) {
	b.shop(runtime.Options{}, func(s shopNode) {
		v = b.load(1, func(_, i int) {
			for range mixedStatements {
				s.call(sqlInsertOne, "one", i)
			}
			s.call(sqlState, "one", i)
			s.call(sqlNote, "one", i)
		})
	})
	return v
}

// sqlPoints reads rows, so many in one query.
func (b *bench) sqlPoints(atOnce int) (v float64) {
	b.shop(runtime.Options{}, func(s shopNode) {
		s.call(sqlInsertN, "one", sqlTable)
		if atOnce == 1 {
			v = b.load(1, func(int, int) { s.point("one", randomID()) })
			return
		}
		v = float64(atOnce) * b.load(1, func(int, int) {
			_, err := sqlPointN.Call(context.Background(), shops.Ref(s, "one"), atOnce)
			check(err)
		})
		b.cpu /= float64(atOnce)
	})
	return v
}

func (b *bench) sqlBulk() (v float64) {
	b.shop(runtime.Options{}, func(s shopNode) {
		s.call(sqlInsertN, "one", 0) // creates it
		begin, spent := time.Now(), usage.Processor()
		s.call(sqlInsertN, "one", sqlTable)
		v = sqlTable / time.Since(begin).Seconds()
		b.spend(spent, sqlTable)
	})
	return v
}

func (b *bench) sqlScans() (v float64) {
	b.shop(runtime.Options{}, func(s shopNode) {
		s.call(sqlInsertN, "one", sqlTable)
		scan := func(int) {
			_, err := sqlScanAll.Call(context.Background(), shops.Ref(s, "one"), actor.None{})
			check(err)
		}
		scan(0)
		v = sqlTable / b.p50(scan)
		b.cpu /= sqlTable
	})
	return v
}

// sqlCreates makes actors: the actor, the table, the first row.
func (b *bench) sqlCreates() (v float64) {
	b.shop(runtime.Options{}, func(s shopNode) {
		v = b.p50(func(i int) { s.call(sqlInsertOne, shopKey(i), i) })
	})
	return v
}

// fewShops is how many shops are asked in turn, and fewOpen how many of them may have an open
// database.
const (
	fewShops = 400
	fewOpen  = 16
)

// fewOptions keep all but a few databases closed.
func fewOptions() runtime.Options {
	return runtime.Options{SQL: runtime.SQLOptions{MaxOpen: fewOpen}}
}

func (s shopNode) fill(shops, rows int) {
	rateOnce(8, shops, func(i int) { s.call(sqlInsertN, shopKey(i), rows) })
}

// sqlReopens asks so many actors in turn that are awake, but whose database was closed.
func (b *bench) sqlReopens(shops int) (v float64) {
	b.shop(fewOptions(), func(s shopNode) {
		s.fill(shops, smallTable)
		v = b.p50(func(i int) { s.point(shopKey(i%shops), 1+i%smallTable) })
	})
	return v
}

// sqlWakes asks actors that sleep, once each.
func (b *bench) sqlWakes() (v float64) {
	o := fewOptions()
	o.IdleTimeout = 50 * time.Millisecond
	b.shop(o, func(s shopNode) {
		const n = 2000
		s.fill(n, smallTable)
		for awake(s.Runtime) > 0 {
			time.Sleep(20 * time.Millisecond)
		}
		times := make([]float64, n)
		spent := usage.Processor()
		for i, k := range rand.Perm(n) {
			begin := time.Now()
			s.point(shopKey(k), 1+i%smallTable)
			times[i] = time.Since(begin).Seconds()
		}
		b.spend(spent, n)
		v = median(times)
	})
	return v
}
