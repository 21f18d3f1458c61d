package runtime_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
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

func TestStateTooNewIsRefusedAndDataUntouched(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		before := h.Inspect("bot", "a")
		h.Restart(botDefinition(actor.Spec[bot]{Version: 1}))
		for range 2 {
			_, err := do(h, "a", add(1))
			if e := wantCode(t, err, actor.ActorFailed); !strings.Contains(e.Metadata["reason"], "version 2") {
				t.Fatalf("%+v", e)
			}
		}
		if st := h.Status("bot", "a"); st.State != host.Failed || !strings.Contains(st.Failure.Reason, "version 2") {
			t.Fatalf("%+v", st)
		}
		after := h.Inspect("bot", "a")
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Fatalf("the data changed:\n%v\n%v", before, after)
		}
		// A newer binary migrates it.
		h.Restart(botDefinition(actor.Spec[bot]{Version: 3, Migrate: func(b *bot, old actor.Stored) error {
			if err := old.Decode(b); err != nil {
				return err
			}
			b.Log = append(b.Log, fmt.Sprintf("from %d", old.Version()))
			return nil
		}}))
		if got := look(t, h, "a"); got.N != 1 || !slices.Equal(got.Log, []string{"from 2"}) {
			t.Fatalf("%+v", got)
		}
		h.Restart(botDefinition(actor.Spec[bot]{Version: 3}))
		if got := look(t, h, "a"); !slices.Equal(got.Log, []string{"from 2"}) {
			t.Fatalf("the migrated state was not saved: %+v", got)
		}
	}, botDefinition(actor.Spec[bot]{Version: 2}))
}

func TestMigrationThatPanicsFailsTheActorAndNotTheNode(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		h.Restart(botDefinition(actor.Spec[bot]{Version: 1, Migrate: func(*bot, actor.Stored) error { panic("boom") }}))
		_, err := do(h, "a", add(1))
		wantCode(t, err, actor.ActorFailed)
		mustDo(t, h, "b", add(1))
		h.Restart(botDefinition(actor.Spec[bot]{Version: 1}))
		if got := mustDo(t, h, "a", add(1)); got != "2" {
			t.Fatal(got)
		}
	}, botDefinition(actor.Spec[bot]{}))
}

func TestImpatientCallerDoesNotFailTheActorThatHeWakes(t *testing.T) {
	spec := actor.Spec[bot]{OnWake: func(b *bot, ctx *actor.Context) error {
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		h.Restart()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := run.Call(ctx, bots.Ref(h, "a"), named(add(1)))
		wantCode(t, err, actor.DeadlineExceeded)
		if got := mustDo(t, h, "a", add(0)); got != "1" {
			t.Fatal(got)
		}
	})
}

func TestLeastRecentlyUsedSleepFirstUnderPressure(t *testing.T) {
	with(t, actor.Spec[bot]{IdleTimeout: -1}, func(t *testing.T, h *actortest.Harness) {
		for i := range 60 {
			mustDo(t, h, fmt.Sprint(i), add(1))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		awake := 0
		for i := range 60 {
			st := h.Status("bot", fmt.Sprint(i))
			if st.State == host.Awake {
				awake++
			}
			if (i < 40 && st.State == host.Awake) || (i > 55 && st.State != host.Awake) {
				t.Errorf("actor %d is %s", i, st.State)
			}
		}
		if awake > 20 {
			t.Fatalf("%d actors are awake", awake)
		}
	}, func(o *runtime.Options) { o.MaxAwake = 20 })
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
				var out string
				var err error
				wg.Go(func() {
					out, err = do(h, "b", func(b *bot, ctx *actor.Context) (string, error) {
						time.Sleep(2 * time.Second)
						return run.Call(ctx, bots.Ref(ctx, "c"), named(add(5))) // calls of running turns go on
					})
				})
				synctest.Wait()
				rt := h.Runtime()
				wg.Go(func() {
					time.Sleep(time.Second)
					_, err := run.Call(context.Background(), bots.Ref(rt, "d"), named(add(1)))
					if actor.CodeOf(err) != actor.Unavailable {
						t.Errorf("a call while the node drains: %v", err)
					}
				})
				within(t, 3*time.Second, func() { h.Restart() })
				wg.Wait()
				if err != nil || out != "5" {
					t.Fatalf("the call in flight: %q %v", out, err)
				}
				if hook && slept.Load() < 3 {
					t.Fatalf("%d sleep hooks ran", slept.Load())
				}
				open.Store(true)
				time.Sleep(time.Minute)
				if got := look(t, h, "x").Notes["a"]; !slices.Equal(got, []int{1}) {
					t.Fatal(got)
				}
			})
		})
	}
}

func TestListAndInspectPage(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		for i := range 25 {
			if _, err := run.Call(ctx, bots.Ref(h, "eu", fmt.Sprintf("%02d", i)), named(add(1))); err != nil {
				t.Fatal(err)
			}
		}
		mustDo(t, h, "us", func(b *bot, ctx *actor.Context) (string, error) {
			for i := range 30 {
				things.Put(ctx, fmt.Sprint(i), "x")
			}
			return "", nil
		})
		var keys []string
		q := host.ListQuery{Type: "bot", Prefix: []string{"eu"}, Limit: 10}
		for pages := 1; ; pages++ {
			page, err := h.List(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, st := range page.Actors {
				keys = append(keys, st.Key[1])
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				if pages != 3 {
					t.Fatalf("%d pages", pages)
				}
				break
			}
		}
		if len(keys) != 25 || !slices.IsSorted(keys) {
			t.Fatal(keys)
		}
		q.Limit, q.Brief = 1, true
		page, err := h.List(ctx, q)
		if err != nil || len(page.Actors) != 1 || page.Actors[0].ID == "" ||
			!reflect.DeepEqual(page.Actors[0], host.Status{ID: page.Actors[0].ID, Type: "bot", Key: []string{"eu", "00"}}) {
			t.Fatalf("brief: %+v %v", page.Actors, err)
		}
		_, err = h.List(ctx, host.ListQuery{Limit: 1001})
		wantCode(t, err, actor.InvalidArgument)
		seen := 0
		iq := host.InspectQuery{Limit: 7, ValueBytes: 1}
		for {
			page, err := h.Runtime().Inspect(ctx, host.Address{Type: "bot", Key: []string{"us"}}, iq)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range page.Keys {
				if len(k.Value) > 1 || k.Text == "" {
					t.Fatalf("%+v", k)
				}
			}
			seen += len(page.Keys)
			if iq.After = page.Next; iq.After == nil {
				break
			}
		}
		if seen != 31 { // the state and the entries
			t.Fatalf("%d keys", seen)
		}
	})
}

func TestIdleActorsTakeNoGoroutineAndCloseLeavesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside, _ := bubbled()
		n := newNode()
		rt := n.open(t, nil)
		synctest.Wait()
		before, _ := bubbled()
		for i := range 2000 {
			if _, err := run.Call(t.Context(), bots.Ref(rt, fmt.Sprint(i)), named(add(1))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if now, stacks := bubbled(); now-before > 10+4*gort.GOMAXPROCS(0) {
			t.Errorf("%d goroutines for 2,000 idle actors:\n%s", now-before, stacks)
		}
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now, stacks := bubbled(); now > outside {
			t.Errorf("%d goroutines are left after Close:\n%s", now-outside, stacks)
		}
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
	const most = 2560
	per := memoryOfAwakeIdleActor(t)
	for range 3 { // the heap is shared: the store's buffers come and go in it
		if per > most {
			per = memoryOfAwakeIdleActor(t)
		}
	}
	if per > most {
		t.Errorf("%d bytes per awake idle actor", per)
	}
}

func memoryOfAwakeIdleActor(t *testing.T) int64 {
	t.Helper()
	n := newNode()
	rt := n.open(t, func(o *runtime.Options) { o.NoSync = true })
	defer func() { rt.Close() }()
	const actors = 5_000
	one := named(add(1))
	call := func(i int) {
		if _, err := run.Call(t.Context(), bots.Ref(rt, "m", fmt.Sprint(i)), one); err != nil {
			t.Fatal(err)
		}
	}
	heap := func() uint64 {
		gort.GC()
		gort.GC()
		var m gort.MemStats
		gort.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for i := range actors { // first life: the rows are in the store and its caches
		call(i)
	}
	awake := heap()
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	rt = n.open(t, func(o *runtime.Options) { o.NoSync = true })
	call(0)
	asleep := heap()
	for i := range actors {
		if _, err := ask.Call(t.Context(), bots.Ref(rt, "m", fmt.Sprint(i)), named(reading)); err != nil {
			t.Fatal(err)
		}
	}
	again := heap()
	per := (int64(again) - int64(asleep)) / actors
	t.Logf("%d bytes per awake idle actor (heap %d asleep, %d awake; %d at the first writing)", per, asleep, again, awake)
	return per
}
