package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
)

// powerCuts runs f with a node of bots, and check with a node on what a power cut at each write and sync meanwhile left of
// the disk, a minute after its start.
func powerCuts(t *testing.T, f func(h *actortest.Harness), check func(cut int, rt *runtime.Runtime)) {
	t.Helper()
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		var left []*engine.Disk
		taking, done := make(chan struct{}, 1), make(chan struct{})
		h.Disk().Fail(func(op, _ string) error {
			if op == "sync" || op == "write" {
				select {
				case taking <- struct{}{}:
				default:
				}
			}
			return nil
		})
		go func() { defer close(done); f(h) }()
		for open := true; open; {
			select {
			case <-taking:
				left = append(left, h.Disk().Crash(uint64(len(left)), 30*(len(left)%4)))
			case <-done:
				open = false
			}
		}
		h.Disk().Fail(nil)
		errorIf(t, len(left) < 20, "only %d power cuts", len(left))
		for i, d := range left {
			rt := (&node{disk: d}).open(t, nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			check(i, rt)
			must(t, rt.Close())
		}
		t.Logf("%d power cuts", len(left))
	})
}

// stored returns the state of the bot a, which may not exist.
func stored(t *testing.T, rt *runtime.Runtime) (got bot) {
	t.Helper()
	_, err := ask.Call(context.Background(), bots.Ref(rt, "a"), named(query(func(b bot, _ *actor.ReadContext) (string, error) {
		got = b
		return "", nil
	})), actor.Existing())
	fatalIf(t, err != nil && actor.CodeOf(err) != actor.NotFound, "%v", err)
	return got
}

func TestAlarmIsNeitherLostNorFiredTwiceWhateverSyncThePowerFailsAt(t *testing.T) {
	powerCuts(t, func(h *actortest.Harness) {
		text := named(add(1))
		for i := range 20 {
			mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
				b.Log = append(b.Log, "armed")
				return "", ring.Named(fmt.Sprint(i)).After(ctx, time.Second, text)
			})
			time.Sleep(1001 * time.Millisecond)
		}
	}, func(cut int, rt *runtime.Runtime) {
		got := stored(t, rt)
		errorIf(t, got.N != len(got.Log), "power cut %d: %d alarms were armed, %d fired", cut, len(got.Log), got.N)
	})
}

// A message that fails too often is a dead letter in the end, and so neither lost nor handled.
func TestMessageIsNeitherLostNorHandledTwiceWhateverSyncThePowerFailsAt(t *testing.T) {
	handlers := []string{
		"",
		named(action(func(_ *bot, ctx *actor.Context) (string, error) {
			if ctx.Message().Attempt == 1 {
				return "", errRefused
			}
			return "", nil
		})),
		named(action(func(_ *bot, ctx *actor.Context) (string, error) {
			if ctx.Message().Attempt == 1 {
				panic("boom")
			}
			return "", nil
		})),
		named(action(func(*bot, *actor.Context) (string, error) { return "", errRefused })),
	}
	powerCuts(t, func(h *actortest.Harness) {
		for i := range 10 {
			mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
				for _, n := range []note{{"q", 2 * i, handlers[i%4]}, {"q", 2*i + 1, ""}} {
					b.Log = append(b.Log, fmt.Sprint(n.N))
					if _, err := work.Put(ctx, n); err != nil {
						return "", err
					}
				}
				return "", nil
			})
			time.Sleep(1001 * time.Millisecond)
		}
	}, func(cut int, rt *runtime.Runtime) {
		got := stored(t, rt)
		var ended []string
		for _, n := range got.Notes["q"] {
			ended = append(ended, fmt.Sprint(n))
		}
		if len(got.Log) > 0 {
			for l, err := range work.Of(bots.Ref(rt, "a")).DeadLetters().List(context.Background()) {
				must(t, err)
				ended = append(ended, fmt.Sprint(l.Body.N))
			}
		}
		slices.Sort(ended)
		slices.Sort(got.Log)
		errorIf(t, !slices.Equal(got.Log, ended), "power cut %d: sent %v, handled or set aside %v", cut, got.Log, ended)
	})
}
