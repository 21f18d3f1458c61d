package runtime_test

import (
	"bytes"
	"fmt"
	gort "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
)

// A migration that panics fails its actor, and not the node. So does state that a newer program wrote, and nothing of it changes.
func TestStateTooNewIsRefusedAndDataUntouched(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		before := fmt.Sprint(h.Inspect("bot", "a"))
		for _, spec := range []actor.Spec[bot]{
			{Version: 1},
			{Version: 3, Migrate: func(*bot, actor.Stored) error { panic("boom") }},
		} {
			h.Restart(botDefinition(spec))
			for range 2 {
				_, err := do(h, "a", add(1))
				told := wantCode(t, err, actor.ActorFailed).Metadata["reason"]
				st := h.Status("bot", "a")
				fatalIf(t, st.State != host.Failed, "%+v", st)
				for _, reason := range []string{told, st.Failure.Reason} {
					errorIf(t, spec.Migrate == nil && !strings.Contains(reason, "version 2"), "%s", reason)
				}
			}
			errorIf(t, fmt.Sprint(h.Inspect("bot", "a")) != before, "the data changed from %s", before)
			mustDo(t, h, fmt.Sprint("b", spec.Version), add(1))
		}
		migrate := func(b *bot, old actor.Stored) error {
			err := old.Decode(b)
			b.Log = append(b.Log, fmt.Sprintf("from %d", old.Version()))
			return err
		}
		for _, spec := range []actor.Spec[bot]{{Version: 3, Migrate: migrate}, {Version: 3}} { // then the migrated state is saved
			h.Restart(botDefinition(spec))
			got := look(t, h, "a")
			fatalIf(t, got.N != 1 || !slices.Equal(got.Log, []string{"from 2"}), "%+v", got)
		}
	}, botDefinition(actor.Spec[bot]{Version: 2}))
}

func TestDrainFinishesCallsRefusesNewOnesAndKeepsMessages(t *testing.T) {
	for _, hook := range []bool{false, true} {
		t.Run(fmt.Sprintf("sleep hook %v", hook), func(t *testing.T) {
			spec := actor.Spec[bot]{}
			var slept atomic.Int64
			if hook {
				spec.OnSleep = func(*bot, *actor.Context) error { slept.Add(1); return nil }
			}
			with(t, spec, func(t *testing.T, h *actortest.Harness) {
				var open atomic.Bool
				gate := named(action(func(*bot, *actor.Context) (string, error) {
					if !open.Load() {
						return "", errRefused
					}
					return "", nil
				}))
				mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
					return "", deliver.Send(ctx, bots.Ref(ctx, "x"), note{From: "a", N: 1, Run: gate})
				})
				h.Settle()
				var wg sync.WaitGroup
				wg.Go(func() {
					out, err := do(h, "b", func(b *bot, ctx *actor.Context) (string, error) {
						time.Sleep(2 * time.Second)
						return run.Call(ctx, bots.Ref(ctx, "c"), named(add(5))) // calls of running turns go on
					})
					errorIf(t, err != nil || out != "5", "the call in flight: %q %v", out, err)
				})
				synctest.Wait()
				rt := h.Runtime()
				wg.Go(func() {
					time.Sleep(time.Second)
					_, err := do(rt, "d", add(1))
					errorIf(t, actor.CodeOf(err) != actor.Unavailable, "a call while the node drains: %v", err)
				})
				within(t, 3*time.Second, func() { h.Restart() })
				wg.Wait()
				errorIf(t, hook && slept.Load() < 3, "%d sleep hooks ran", slept.Load())
				open.Store(true)
				time.Sleep(time.Minute)
				got := look(t, h, "x").Notes["a"]
				errorIf(t, !slices.Equal(got, []int{1}), "%v", got)
			})
		})
	}
}

func TestIdleActorsTakeNoGoroutineAndCloseLeavesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside, _ := bubbled()
		rt := newNode().open(t, nil)
		synctest.Wait()
		before, _ := bubbled()
		for i := range 200 {
			mustDo(t, rt, fmt.Sprint(i), add(1))
		}
		synctest.Wait()
		now, stacks := bubbled()
		errorIf(t, now-before > 10+4*gort.GOMAXPROCS(0), "%d goroutines for 200 idle actors:\n%s", now-before, stacks)
		must(t, rt.Close())
		synctest.Wait()
		now, stacks = bubbled()
		errorIf(t, now > outside, "%d goroutines are left after Close:\n%s", now-outside, stacks)
	})
}

// bubbled counts the goroutines of the caller's synctest bubble. The process has
// others that come and go on their own (finalizers, what an earlier test left to
// end), which a count of all of them would blame on this test.
func bubbled() (int, []byte) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:gort.Stack(stacks, true)]
	head, _, _ := bytes.Cut(stacks, []byte("\n"))
	_, bubble, ok := bytes.Cut(head, []byte(", synctest bubble "))
	if !ok {
		panic("not in a bubble: " + string(head))
	}
	return bytes.Count(stacks, append([]byte(", synctest bubble "), bubble...)), stacks
}

func TestAwakeIdleActorTakesLittleMemory(t *testing.T) {
	const most = 2560 // alone it is below 2,000; beside other tests the heap has more
	per := memoryOfAwakeIdleActor(t)
	for range 3 { // the heap is shared: the store's buffers come and go in it
		if per > most {
			per = memoryOfAwakeIdleActor(t)
		}
	}
	errorIf(t, per > most, "%d bytes per awake idle actor", per)
}

func memoryOfAwakeIdleActor(t *testing.T) int64 {
	t.Helper()
	const actors = 1_000
	n, one := newNode(), named(add(0))
	open := func() *runtime.Runtime { return n.open(t, func(o *runtime.Options) { o.NoSync = true }) }
	heap := func() int64 {
		gort.GC()
		gort.GC()
		var m gort.MemStats
		gort.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	rt := open()
	for i := range actors { // first life: the rows are in the store and its caches
		must(t, errOf(run.Call(t.Context(), bots.Ref(rt, fmt.Sprint(i)), one)))
	}
	must(t, rt.Close())
	rt = open()
	mustDo(t, rt, "0", add(0))
	asleep, look := heap(), named(reading)
	for i := range actors {
		must(t, errOf(ask.Call(t.Context(), bots.Ref(rt, fmt.Sprint(i)), look)))
	}
	per := (heap() - asleep) / actors
	must(t, rt.Close())
	return per
}
