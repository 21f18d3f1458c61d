package runtime_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
)

func TestAlarmsAreReplacedCancelledAndToldApart(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
			ring.After(ctx, time.Minute, "first")
			ring.After(ctx, 2*time.Minute, "second") // replaces it
			ring.Named("x").After(ctx, time.Minute, "x")
			ring.Named("y").After(ctx, time.Minute, "y")
			ring.Named("z").After(ctx, 3*time.Minute, "z")
			return "", nil
		})
		if st := h.Status("bot", "a"); st.Alarms != 4 {
			t.Fatalf("%d alarms", st.Alarms)
		}
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
			if ok, err := ring.Named("y").Cancel(ctx); !ok || err != nil {
				t.Error("cancel", ok, err)
			}
			if ok, _ := ring.Named("none").Cancel(ctx); ok {
				t.Error("an alarm that was never set was cancelled")
			}
			return "", nil
		})
		time.Sleep(90 * time.Second)
		if got := look(t, h, "a").Log; !slices.Equal(got, []string{"ring x"}) {
			t.Fatal(got)
		}
		time.Sleep(time.Hour)
		if got := look(t, h, "a").Log; !slices.Equal(got, []string{"ring x", "ring second", "ring z"}) {
			t.Fatal(got)
		}
		if st := h.Status("bot", "a"); st.Alarms != 0 || st.NextAlarm != nil {
			t.Fatalf("%+v", st)
		}
	})
}

func TestAlarmThatFailsIsRetriedWithGrowingPauses(t *testing.T) {
	for name, fail := range map[string]action{
		"error": func(*bot, *actor.Context) (string, error) { return "", errRefused },
		"panic": func(*bot, *actor.Context) (string, error) { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
				var times []time.Time
				text := named(action(func(b *bot, ctx *actor.Context) (string, error) {
					times = append(times, time.Now())
					b.N++
					if len(times) < 5 {
						return fail(b, ctx)
					}
					return "", nil
				}))
				mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) { return "", ring.After(ctx, time.Second, text) })
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if len(times) != 5 || look(t, h, "a").N != 1 {
					t.Fatalf("fired %d times, in effect %d", len(times), look(t, h, "a").N)
				}
				if st := h.Status("bot", "a"); st.Alarms != 0 {
					t.Fatalf("%+v", st)
				}
				if name == "error" && times[4].Sub(times[3]) <= times[1].Sub(times[0]) {
					t.Fatalf("the pauses do not grow: %v", times)
				}
			})
		})
	}
}

func TestOverdueAlarmsFirePacedAfterARestart(t *testing.T) {
	var running, most, fired atomic.Int64
	spec := actor.Spec[bot]{}
	withOptions(t, spec, func(o *runtime.Options) { o.AlarmConcurrency = 8 }, func(t *testing.T, h *actortest.Harness) {
		text := named(action(func(b *bot, ctx *actor.Context) (string, error) {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(100 * time.Millisecond)
			running.Add(-1)
			fired.Add(1)
			b.N++
			return "", nil
		}))
		for i := range 100 {
			mustDo(t, h, fmt.Sprint(i), func(b *bot, ctx *actor.Context) (string, error) { return "", ring.After(ctx, time.Hour, text) })
		}
		h.Crash()
		time.Sleep(time.Hour + 10*time.Second)
		if fired.Load() != 100 || most.Load() > 8 {
			t.Fatalf("%d alarms fired, at most %d at once", fired.Load(), most.Load())
		}
		for i := range 100 {
			if n := look(t, h, fmt.Sprint(i)).N; n != 1 {
				t.Fatalf("alarm %d fired %d times", i, n)
			}
		}
	})
}

// TestAlarmIsNeitherLostNorFiredTwiceWhateverSyncThePowerFailsAt lets the power fail at every sync around an alarm, and
// looks at what is left.
func TestAlarmIsNeitherLostNorFiredTwiceWhateverSyncThePowerFailsAt(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		var clones []*engine.Disk
		disk := h.Disk()
		taking := make(chan struct{}, 1)
		disk.Fail(func(op, path string) error {
			if op == "sync" || op == "write" {
				select {
				case taking <- struct{}{}:
				default:
				}
			}
			return nil
		})
		snap := func() { clones = append(clones, disk.Crash(uint64(len(clones)), 30*(len(clones)%4))) }
		for i := range 20 {
			text := named(action(func(b *bot, ctx *actor.Context) (string, error) { b.N++; return "", nil }))
			done := make(chan struct{})
			go func() {
				defer close(done)
				mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
					b.Log = append(b.Log, "armed")
					return "", ring.Named(fmt.Sprint(i)).After(ctx, time.Second, text)
				})
			}()
			for open := true; open; {
				select {
				case <-taking:
					snap()
				case <-done:
					open = false
				}
			}
			time.Sleep(1001 * time.Millisecond)
			snap()
			synctest.Wait()
			snap()
		}
		disk.Fail(nil)
		time.Sleep(time.Hour)
		for i, d := range clones {
			n := &node{disk: d}
			rt := n.open(t, nil)
			synctest.Wait()
			time.Sleep(time.Minute)
			var got bot
			_, err := ask.Call(t.Context(), bots.Ref(rt, "a"), named(query(func(b bot, _ *actor.ReadContext) (string, error) { got = b; return "", nil })), actor.Existing())
			if err != nil && actor.CodeOf(err) != actor.NotFound {
				t.Fatal(err)
			}
			if got.N != len(got.Log) {
				t.Errorf("crash %d: %d alarms were armed, %d fired", i, len(got.Log), got.N)
			}
			if err := rt.Close(); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d crashes", len(clones))
	})
}

func TestAlarmOfAFailedActorWaitsForItAndIsKept(t *testing.T) {
	var mended atomic.Bool
	spec := actor.Spec[bot]{OnWake: func(b *bot, ctx *actor.Context) error {
		if !mended.Load() && b.N > 0 {
			return errRefused
		}
		return nil
	}}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
			b.N = 1
			return "", ring.After(ctx, time.Hour, "x")
		})
		h.Restart()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		st := h.Status("bot", "a")
		if st.State != host.Failed || st.Failure == nil || st.Failure.Attempts < 3 || st.Alarms != 1 {
			t.Fatalf("%+v %+v", st, st.Failure)
		}
		mended.Store(true)
		time.Sleep(10 * time.Minute)
		if got := look(t, h, "a").Log; !slices.Equal(got, []string{"ring x"}) {
			t.Fatal(got)
		}
	})
}
