package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// A stage says lines to its audience.
type stage struct{}

type line struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

const lineText = "sixty-four bytes that everybody in the audience is going to hear"

var (
	stages = actor.NewType[stage]("stage")
	say    = actor.NewAction[line, actor.None](stages, "say")
	said   = actor.NewEvent[line](stages, "said", actor.EventConfig{})
)

// stageDefinition writes the time at which the handler emits line n to emitted(n).
func stageDefinition(emitted func(n int)) []actor.Definition {
	return []actor.Definition{actor.Define(stages, actor.Spec[stage]{},
		actor.On(say, func(_ *stage, ctx *actor.Context, l line) (actor.None, error) {
			emitted(l.N)
			return actor.None{}, said.Emit(ctx, l)
		}))}
}

// Where and how clients connect to a stage.
const (
	stagePath  = "/actors/stage/one/-/connect"
	stageEvent = "?events=said"
	stageHello = `{"connect":{"events":["said"]}}`
)

// fanFigures are what an audience gets of one actor's events: messages a second in all, and the
// 99th percentile of the time in seconds from Emit to receipt.
type fanFigures struct{ rate, p99 float64 }

const audienceSize = 1000

// fanOut measures a node with an audience of n over WebSockets or server-sent events.
func (b *bench) fanOut(n int, sockets bool) fanFigures {
	return once(b, fmt.Sprint("fan out, WebSockets ", sockets), func() (v fanFigures) {
		au := newAudience()
		b.node(runtime.Options{Listen: "127.0.0.1:0", Actors: stageDefinition(au.emits)}, func(rt *runtime.Runtime) {
			ref := stages.Ref(rt, "one")
			path := stagePath
			if !sockets {
				path += stageEvent
			}
			au.enter(n, func() *listener { return listen(rt.Addr(), path, stageHello, sockets) })
			v = au.measure(b, func(n int) {
				_, err := say.Call(context.Background(), ref, line{n, lineText})
				check(err)
			})
			au.leave()
		})
		return v
	})
}

// An audience is many listeners who hear the same messages in order, and know when each was said.
type audience struct {
	listeners []*listener
	said      []atomic.Int64 // when message n was said, at n modulo its length: nanoseconds since begun
	begun     time.Time
	timed     atomic.Bool // latencies are noted
	heard     atomic.Int64
	awaited   atomic.Int64  // of heard, what measure waits for
	there     chan struct{} // holds one token: awaited was reached
	times     [][]float64   // by listener
	all       sync.WaitGroup
	left      atomic.Bool
}

// window is how many messages are on their way at once while the rate is measured, so that no
// listener falls behind so far that a server cuts it off.
const window = 16

func newAudience() *audience {
	return &audience{said: make([]atomic.Int64, 1024), begun: time.Now(), there: make(chan struct{}, 1)}
}

// enter lets n listeners in and starts them.
func (a *audience) enter(n int, open func() *listener) {
	a.listeners, a.times = make([]*listener, n), make([][]float64, n)
	rateOnce(32, n, func(i int) { a.listeners[i] = open() })
	for i, l := range a.listeners {
		a.all.Go(func() { a.listen(i, l) })
	}
}

// listen counts what one listener hears.
func (a *audience) listen(i int, l *listener) {
	for n := 0; ; {
		came, err := l.next(1)
		if err != nil {
			if !a.left.Load() {
				fatal(fmt.Errorf("listener %d lost its connection after %d messages: %w", i, n, err))
			}
			return
		}
		if a.timed.Load() {
			now := time.Since(a.begun)
			for k := range came {
				since := time.Duration(a.said[(n+k)%len(a.said)].Load())
				a.times[i] = append(a.times[i], (now - since).Seconds())
			}
		}
		n += came
		if a.heard.Add(int64(came)) >= a.awaited.Load() {
			select {
			case a.there <- struct{}{}:
			default:
			}
		}
	}
}

// emits notes that message n is said now.
func (a *audience) emits(n int) { a.said[n%len(a.said)].Store(int64(time.Since(a.begun))) }

// await waits until the listeners have heard n messages, each or on average.
func (a *audience) await(n int) {
	want := int64(n * len(a.listeners))
	a.awaited.Store(want)
	for a.heard.Load() < want {
		<-a.there
	}
}

// measure has messages said: for half of the time one after the other, each when the one before was
// heard by all, which gives the times; then as fast as they are heard.
func (a *audience) measure(b *bench, say func(n int)) (v fanFigures) {
	n, d := 0, b.time
	a.timed.Store(true)
	for end := time.Now().Add(d / 2); n == 0 || time.Now().Before(end); n++ {
		say(n)
		a.await(n + 1)
	}
	a.timed.Store(false)
	first, begin, spent := n, time.Now(), usage.Processor()
	for end := begin.Add(d / 2); n == first || time.Now().Before(end); n++ {
		say(n)
		a.await(n + 1 - window)
	}
	a.await(n)
	v.rate = float64((n-first)*len(a.listeners)) / time.Since(begin).Seconds()
	b.spend(spent, (n-first)*len(a.listeners))
	if heard := a.heard.Load(); heard != int64(n*len(a.listeners)) {
		fatal(fmt.Errorf("%d messages were said to %d listeners, who heard %d in all", n, len(a.listeners), heard))
	}
	v.p99 = percentile(slices.Concat(a.times...), 0.99)
	return v
}

// leave closes the sockets.
func (a *audience) leave() {
	a.left.Store(true)
	for _, l := range a.listeners {
		l.conn.Close()
	}
	a.all.Wait()
}
