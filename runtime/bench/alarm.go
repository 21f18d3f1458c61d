package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// A clock has alarms, armed by calls.
type clock struct{}

// A wakeUp asks for the alarm of an instance at a time: Unix milliseconds, which are the alarm's
// payload too.
type wakeUp struct {
	Instance string
	Due      int64
}

var (
	clocks = actor.NewType[clock]("clock")
	wind   = actor.NewAction[wakeUp, actor.None](clocks, "wind")
	ring   = actor.NewAlarm[int64](clocks, "ring")
)

// clockDefinition tells rang how late each alarm's handler begins.
func clockDefinition(rang func(lag time.Duration)) []actor.Definition {
	return []actor.Definition{actor.Define(clocks, actor.Spec[clock]{},
		actor.On(wind, func(_ *clock, ctx *actor.Context, w wakeUp) (actor.None, error) {
			return actor.None{}, ring.Named(w.Instance).At(ctx, time.UnixMilli(w.Due), w.Due)
		}),
		actor.OnAlarm(ring, func(_ *clock, _ *actor.Context, due int64) error {
			rang(time.Since(time.UnixMilli(due)))
			return nil
		}))}
}

// How many alarms are armed, of how many actors, and how many of them fall due in one second: one
// of each actor's.
const (
	pendingAlarms = 100_000
	dueAlarms     = 10_000
)

// alarmFigures are how many alarms a second are armed, and how late in seconds those are that fall
// due.
type alarmFigures struct{ armed, p50, p99, max float64 }

// alarms measures a node that arms n alarms, one a call by 64 callers, of which due fall due in one
// second, evenly, while the others go on waiting. The lag is from the time of an alarm to the begin
// of its handler.
func (b *bench) alarms(n, due int) alarmFigures {
	return once(b, "alarms", func() (v alarmFigures) {
		var mu sync.Mutex
		var lags []float64
		var rung atomic.Int64
		definition := clockDefinition(func(lag time.Duration) {
			mu.Lock()
			lags = append(lags, lag.Seconds())
			mu.Unlock()
			rung.Add(1)
		})
		b.node(runtime.Options{Actors: definition}, func(rt *runtime.Runtime) {
			refs := clockRefs(rt, due)
			later := time.Now().Add(time.Hour)
			begin, spent := time.Now(), usage.Processor()
			arm(refs, n-due, func(int) time.Time { return later })
			took := time.Since(begin)
			second := time.Now().Add(time.Second + took*time.Duration(due)/time.Duration(n-due)*2)
			begin = time.Now()
			arm(refs, due,
				func(i int) time.Time { return second.Add(time.Second * time.Duration(i) / time.Duration(due)) })
			took += time.Since(begin)
			if !time.Now().Before(second) {
				fatal(fmt.Errorf("alarms fell due before all were armed"))
			}
			v.armed = float64(n) / took.Seconds()
			b.spend(spent, n)
			for rung.Load() < int64(due) {
				time.Sleep(10 * time.Millisecond)
			}
		})
		mu.Lock()
		defer mu.Unlock()
		if len(lags) != due {
			fatal(fmt.Errorf("%d alarms fell due, %d rang", due, len(lags)))
		}
		v.p50, v.p99, v.max = percentile(lags, 0.5), percentile(lags, 0.99), percentile(lags, 1)
		return v
	})
}

// clockRefs makes actors that have rung nothing yet.
func clockRefs(rt *runtime.Runtime, n int) []actor.Ref[clock] {
	refs := make([]actor.Ref[clock], n)
	rateOnce(64, n, func(i int) {
		refs[i] = clocks.Ref(rt, strconv.Itoa(i))
		check(refs[i].Create(context.Background()))
	})
	return refs
}

// arm arms n alarms, going round the actors.
func arm(refs []actor.Ref[clock], n int, due func(i int) time.Time) {
	rateOnce(64, n, func(i int) {
		at := due(i)
		w := wakeUp{Instance: fmt.Sprint(at.Unix()%1000, "-", i/len(refs)), Due: at.UnixMilli()}
		_, err := wind.Call(context.Background(), refs[i%len(refs)], w)
		check(err)
	})
}

// loggedAlarms is how many alarms a real run arms for its rows: as many as surely fit into one log.
const loggedAlarms = 20_000

// armsLogged returns the commits of n calls that armed an alarm each, of as many actors as the
// measurement has. They are made where around calls arm.
func (b *bench) armsLogged(n int, around func(rt *runtime.Runtime, arm func())) []commit {
	var armed []commit
	for _, c := range b.logged(runtime.Options{Actors: clockDefinition(func(time.Duration) {})},
		func(rt *runtime.Runtime) {
			refs, later := clockRefs(rt, min(n, dueAlarms)), time.Now().Add(time.Hour)
			around(rt, func() { arm(refs, n, func(int) time.Time { return later }) })
		}) {
		if c.has(keyspace.Alarm.Kind, false) {
			armed = append(armed, c)
		}
	}
	if len(armed) != n {
		fatal(fmt.Errorf("%d alarms were armed in %d commits", n, len(armed)))
	}
	return armed
}

// rawArms commits the rows of n alarms, each in a synced commit, from 64 goroutines, and returns
// alarms a second.
func (b *bench) rawArms(n int) (v float64) {
	commits := b.armsLogged(min(n, loggedAlarms), func(_ *runtime.Runtime, arm func()) { arm() })
	b.pebbleDB(func(db *pebble.DB) {
		begin, spent := time.Now(), usage.Processor()
		rateOnce(64, n, func(i int) {
			batch := commits[i%len(commits)].batch(db)
			check(batch.Commit(pebble.Sync))
			batch.Close()
		})
		v = float64(n) / time.Since(begin).Seconds()
		b.spend(spent, n)
	})
	return v
}
