package runtime_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
)

var botA = host.Address{Type: "bot", Key: []string{"a"}}

func subscribe(t *testing.T, h *actortest.Harness, s host.Subscription) host.EventStream {
	t.Helper()
	stream, err := h.Runtime().Subscribe(t.Context(), botA, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Close)
	return stream
}

// say makes an action that emits n events.
func say(n int) action {
	return func(b *bot, ctx *actor.Context) (string, error) {
		for range n {
			b.N++
			said.Emit(ctx, strconv.Itoa(b.N))
		}
		return "", nil
	}
}

// read collects deliveries until n events and gaps together were seen.
func read(t *testing.T, s host.EventStream, n uint64) (events []host.EmittedEvent, missed uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for uint64(len(events))+missed < n {
		d, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("after %d events, %d missed: %v", len(events), missed, err)
		}
		missed += d.Missed
		events = append(events, d.Events...)
	}
	return events, missed
}

func TestEventsHaveNoGapsAndAreResumed(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		live := subscribe(t, h, host.Subscription{})
		mustDo(t, h, "a", say(3))
		do(h, "a", func(b *bot, ctx *actor.Context) (string, error) { said.Emit(ctx, "undone"); return "", errRefused })
		h.Settle()
		time.Sleep(time.Hour) // the actor sleeps
		mustDo(t, h, "a", say(2))
		events, missed := read(t, live, 5)
		for i, e := range events {
			if e.Sequence != uint64(i+1) || string(e.Data) != strconv.Quote(strconv.Itoa(i+1)) || missed != 0 {
				t.Fatalf("event %d: %+v %s, missed %d", i, e, e.Data, missed)
			}
		}
		h.Crash()
		resumed, missed := read(t, subscribe(t, h, host.Subscription{Resume: true, After: 2}), 3)
		if len(resumed) != 3 || resumed[0].Sequence != 3 || missed != 0 {
			t.Fatal(resumed, missed)
		}
	})
}

func TestSubscriberThatFallsBehindIsToldWhatItMissed(t *testing.T) {
	with(t, actor.Spec[bot]{Limits: actor.Limits{EventHistory: 100}}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", say(1))
		slow := subscribe(t, h, host.Subscription{Resume: true, After: 1})
		for range 60 {
			mustDo(t, h, "a", say(10))
		}
		events, missed := read(t, slow, 600)
		if missed == 0 || len(events)+int(missed) != 600 || events[len(events)-1].Sequence != 601 {
			t.Fatalf("%d events, %d missed", len(events), missed)
		}
		old, missed := read(t, subscribe(t, h, host.Subscription{Resume: true}), 601)
		if missed != 501 || len(old) != 100 || old[0].Sequence != 502 {
			t.Fatalf("%d events, %d missed", len(old), missed)
		}
	})
}

func TestStreamOfADestroyedActorEndsAfterItsLastEvents(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", say(1))
		live := subscribe(t, h, host.Subscription{})
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) { ctx.DestroySelf(); return say(2)(b, ctx) })
		events, missed := read(t, live, 2)
		if len(events) != 2 || events[0].Sequence != 2 || missed != 0 {
			t.Fatal(events, missed)
		}
		_, err := live.Next(t.Context())
		wantCode(t, err, actor.Destroyed)
		mustDo(t, h, "a", say(1))
		if next := h.Events("bot", "a"); len(next) != 1 || next[0].Sequence != 1 {
			t.Fatalf("the successor's events: %+v", next)
		}
	})
}

func TestIdempotencyKeyReplaysForADayAndThenIsForgotten(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx, ref, once := t.Context(), bots.Ref(h, "a"), named(add(1))
		key := actor.IdempotencyKey("k")
		call := func(want string) {
			t.Helper()
			if got, err := run.Call(ctx, ref, once, key); err != nil || got != want {
				t.Fatalf("got %q, %v; want %q", got, err, want)
			}
		}
		call("1")
		call("1")
		h.Crash()
		call("1")
		_, err := run.Call(ctx, ref, named(add(1)), key)
		wantCode(t, err, actor.IdempotencyMismatch)
		// A call that fails is not remembered.
		tries := 0
		flaky := named(action(func(*bot, *actor.Context) (string, error) {
			if tries++; tries == 1 {
				return "", errRefused
			}
			return "ok", nil
		}))
		_, err = run.Call(ctx, ref, flaky, actor.IdempotencyKey("f"))
		wantCode(t, err, actor.FailedPrecondition)
		if got, err := run.Call(ctx, ref, flaky, actor.IdempotencyKey("f")); err != nil || got != "ok" {
			t.Fatal(got, err)
		}
		time.Sleep(23 * time.Hour)
		call("1")
		time.Sleep(time.Hour + time.Second) // not purged yet, but expired
		call("2")
		keys := len(h.Inspect("bot", "a"))
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		if left := len(h.Inspect("bot", "a")); left >= keys {
			t.Fatalf("%d keys before the purge, %d after", keys, left)
		}
		call("3")
	})
}

func TestQueryCannotWriteNorCallActions(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		_, err := ask.Call(t.Context(), bots.Ref(h, "a"), named(query(func(_ bot, ctx *actor.ReadContext) (string, error) {
			return run.Call(ctx, bots.Ref(ctx, "b"), named(add(1)))
		})))
		wantCode(t, err, actor.ReadOnly)
		_, err = ask.Call(t.Context(), bots.Ref(h, "a"), named(query(func(_ bot, ctx *actor.ReadContext) (string, error) {
			return "", bots.Ref(h, "a").Destroy(ctx) // through the node, with the query's context
		})))
		wantCode(t, err, actor.ReadOnly)
		_, err = ask.Call(t.Context(), bots.Ref(h, "a"), named(query(func(bot, *actor.ReadContext) (string, error) { panic("boom") })))
		wantCode(t, err, actor.Crashed)
	})
}
