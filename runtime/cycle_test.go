package runtime_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

// chain makes an action that calls the bots in turn, each from the turn of the one before.
func chain(keys ...string) action {
	return func(b *bot, ctx *actor.Context) (string, error) {
		if len(keys) == 0 {
			return "end", nil
		}
		return run.Call(ctx, bots.Ref(ctx, keys[0]), named(chain(keys[1:]...)))
	}
}

func TestCycleIsATypedErrorAtOnceAndShowsTheChain(t *testing.T) {
	for _, path := range []string{"a a", "a b a", "a b c a", "a b c d a", "a b c b", "a b b"} {
		keys := strings.Fields(path)
		t.Run(path, func(t *testing.T) {
			with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
				for _, warm := range []bool{false, true} {
					if warm {
						for _, k := range keys {
							mustDo(t, h, k, add(1))
						}
					}
					within(t, 0, func() {
						_, err := do(h, keys[0], chain(keys[1:]...))
						e := wantCode(t, err, actor.Cycle)
						var want []string
						for i, k := range keys {
							if k == keys[len(keys)-1] || len(want) > 0 {
								want = append(want, "bot/"+keys[i])
							}
						}
						// The chain is that of the cycle, starting at the actor whose call would close it.
						last := len(want) - 1
						ring := append([]string{want[last-1]}, want[:last]...)
						if last == 1 {
							ring = want
						}
						if got := e.Metadata["chain"]; got != strings.Join(ring, " -> ") {
							t.Fatalf("chain %q, want %q", got, strings.Join(ring, " -> "))
						}
					})
				}
				for _, k := range keys {
					mustDo(t, h, k, add(1)) // all can be used again
				}
			})
		})
	}
}

func TestCycleThroughAnAlarmIsFoundAndTheAlarmRetried(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		var mu sync.Mutex
		var errs []error
		name := named(action(func(b *bot, ctx *actor.Context) (string, error) {
			out, err := chain("b", "a")(b, ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			if len(errs) > 1 {
				return out, nil
			}
			return out, err
		}))
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) { return "", ring.After(ctx, time.Minute, name) })
		time.Sleep(61*time.Second + 500*time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if len(errs) != 2 {
			t.Fatalf("the alarm ran %d times", len(errs))
		}
		wantCode(t, errs[0], actor.Cycle)
	})
}

func TestOfTwoTurnsThatCallEachOtherExactlyOneFails(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		for range 20 {
			var ready, wg sync.WaitGroup
			ready.Add(2)
			var errs [2]error
			meet := func(other string) action {
				return func(b *bot, ctx *actor.Context) (string, error) {
					ready.Done()
					ready.Wait()
					out, err := run.Call(ctx, bots.Ref(ctx, other), named(add(1)))
					if actor.CodeOf(err) == actor.Cycle {
						return "cycle", nil
					}
					return out, err
				}
			}
			var out [2]string
			within(t, 0, func() {
				wg.Go(func() { out[0], errs[0] = do(h, "a", meet("b")) })
				wg.Go(func() { out[1], errs[1] = do(h, "b", meet("a")) })
				wg.Wait()
			})
			if errs[0] != nil || errs[1] != nil || (out[0] == "cycle") == (out[1] == "cycle") {
				t.Fatal(out, errs)
			}
		}
	})
}

func TestQueryBackIntoAnActorThatWaitsIsNoCycle(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(41))
		got := mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
			b.N = 100 // not committed, so the query does not see it
			return run.Call(ctx, bots.Ref(ctx, "b"), named(action(func(b *bot, ctx *actor.Context) (string, error) {
				return ask.Call(ctx, bots.Ref(ctx, "a"), named(query(func(b bot, _ *actor.ReadContext) (string, error) {
					if b.N != 41 {
						t.Errorf("the query saw %d", b.N)
					}
					return "seen", nil
				})))
			})))
		})
		if got != "seen" {
			t.Fatal(got)
		}
	})
}

// TestQueryThatWouldWaitForItsOwnCallerIsACycle: a query needs a turn of an actor that sleeps or is new, to wake it.
func TestQueryThatWouldWaitForItsOwnCallerIsACycle(t *testing.T) {
	peek := func(key string) query {
		return func(_ bot, ctx *actor.ReadContext) (string, error) {
			return ask.Call(ctx, bots.Ref(ctx, key), named(query(func(bot, *actor.ReadContext) (string, error) { return "", nil })))
		}
	}
	spec := actor.Spec[bot]{OnWake: func(b *bot, ctx *actor.Context) error {
		if ctx.Key()[0] == "calls-a" {
			_, err := run.Call(ctx, bots.Ref(ctx, "a"), named(add(1)))
			return err
		}
		return nil
	}}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		within(t, 0, func() {
			// a is new: its first turn asks b, whose query asks a.
			_, err := do(h, "a", func(b *bot, ctx *actor.Context) (string, error) {
				return ask.Call(ctx, bots.Ref(ctx, "b"), named(peek("a")))
			})
			wantCode(t, err, actor.Cycle)
			// b's query wakes an actor whose wake hook calls a, whose turn waits for the query.
			mustDo(t, h, "a", add(1))
			mustDo(t, h, "b", add(1))
			_, err = do(h, "a", func(b *bot, ctx *actor.Context) (string, error) {
				return ask.Call(ctx, bots.Ref(ctx, "b"), named(peek("calls-a")))
			})
			wantCode(t, err, actor.Cycle)
		})
	})
}

// TestReplyThatWaitsForTheDiskIsNoCycle: a's reply to b stands in a commit that is not made yet when a's next turn asks
// b, which is being created.
func TestReplyThatWaitsForTheDiskIsNoCycle(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(0)) // known to be quick, so that its turns share commits
		var wg sync.WaitGroup
		release := make(chan struct{})
		wg.Go(func() { mustDo(t, h, "a", func(*bot, *actor.Context) (string, error) { <-release; return "", nil }) })
		synctest.Wait()
		wg.Go(func() {
			mustDo(t, h, "b", func(b *bot, ctx *actor.Context) (string, error) {
				return run.Call(ctx, bots.Ref(ctx, "a"), named(add(1)))
			})
		})
		synctest.Wait()
		wg.Go(func() {
			mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
				return ask.Call(ctx, bots.Ref(ctx, "b"), named(query(func(bot, *actor.ReadContext) (string, error) { return "", nil })))
			})
		})
		synctest.Wait()
		within(t, 0, func() { close(release); wg.Wait() })
	})
}
