package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

// tell makes an action that emits n events and appends as many items, which count on.
func tell(n int) action {
	return func(b *bot, ctx *actor.Context) (string, error) {
		for range n {
			b.N++
			said.Emit(ctx, strconv.Itoa(b.N))
			if _, err := entries.Append(ctx, strconv.Itoa(b.N)); err != nil {
				return "", err
			}
		}
		return "", nil
	}
}

// live has the bot a tell n numbers, and returns the id of its life.
func live(t *testing.T, h *actortest.Harness, n int) string {
	t.Helper()
	mustDo(t, h, "a", tell(n))
	return h.Status("bot", "a").ID
}

func subscribe(t *testing.T, h *actortest.Harness, s host.Subscription) host.EventStream {
	t.Helper()
	stream, err := h.Runtime().Subscribe(t.Context(), botA, s)
	must(t, err)
	t.Cleanup(stream.Close)
	return stream
}

// read collects deliveries until n events and gaps together were seen.
func read(t *testing.T, s host.EventStream, n uint64) (events []host.EmittedEvent, missed uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for uint64(len(events))+missed < n {
		d, err := s.Next(ctx)
		fatalIf(t, err != nil, "after %d events, %d missed: %v", len(events), missed, err)
		missed += d.Missed
		events = append(events, d.Events...)
	}
	return events, missed
}

func TestEventsHaveNoGapsAndAreResumed(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		following := subscribe(t, h, host.Subscription{})
		live(t, h, 3)
		do(h, "a", func(_ *bot, ctx *actor.Context) (string, error) { said.Emit(ctx, "undone"); return "", errRefused })
		time.Sleep(time.Hour) // the actor sleeps
		live(t, h, 2)
		events, missed := read(t, following, 5)
		for i, e := range events {
			fatalIf(t, e.Sequence != uint64(i+1) || string(e.Data) != fmt.Sprintf("%q", fmt.Sprint(i+1)) || missed != 0, "event %d: %+v, missed %d", i, e, missed)
		}
		h.Crash()
		resumed, missed := read(t, subscribe(t, h, host.Subscription{Resume: true, After: 2}), 3)
		errorIf(t, len(resumed) != 3 || resumed[0].Sequence != 3 || missed != 0, "%+v, missed %d", resumed, missed)
	})
}

func TestSubscriberThatFallsBehindIsToldWhatItMissed(t *testing.T) {
	with(t, actor.Spec[bot]{Limits: actor.Limits{EventHistory: 100}}, func(t *testing.T, h *actortest.Harness) {
		live(t, h, 1)
		slow := subscribe(t, h, host.Subscription{Resume: true, After: 1})
		for range 60 {
			live(t, h, 10)
		}
		events, missed := read(t, slow, 600)
		fatalIf(t, missed == 0 || len(events)+int(missed) != 600 || events[len(events)-1].Sequence != 601, "%d events, %d missed", len(events), missed)
		old, missed := read(t, subscribe(t, h, host.Subscription{Resume: true}), 601)
		fatalIf(t, missed != 501 || len(old) != 100 || old[0].Sequence != 502, "%d events, %d missed", len(old), missed)
	})
}

func TestASubscriptionEndsWithTheLifeOfItsActorAfterItsLastEvents(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		first := live(t, h, 700)
		following := subscribe(t, h, host.Subscription{})
		behind := subscribe(t, h, host.Subscription{Resume: true}) // reads a page of the history, and has more to read
		d, err := behind.Next(t.Context())
		fatalIf(t, err != nil || len(d.Events) == 0 || len(d.Events) >= 700 || d.Events[0].Life != first, "%d events, %v", len(d.Events), err)
		late := subscribe(t, h, host.Subscription{Resume: true, After: 3, Life: first}) // reads nothing yet
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) { ctx.DestroySelf(); return tell(2)(b, ctx) })
		events, _ := read(t, following, 2)
		errorIf(t, events[0].Sequence != 701, "%+v", events)
		fatalIf(t, live(t, h, 800) == first, "two lives with one id")
		for name, stream := range map[string]host.EventStream{"following": following, "behind": behind, "late": late} {
			d, err := stream.Next(t.Context())
			for err == nil && len(d.Events) > 0 && d.Events[0].Life == first { // the last events of its life may come before the end
				d, err = stream.Next(t.Context())
			}
			errorIf(t, host.CodeOf(err) != host.Destroyed, "%s: %+v, %v", name, d, err)
		}
	})
}

// positions are what readers may name when an actor of a second life has told five numbers, and the first life three.
var positions = []struct {
	after uint64
	first bool // names the first life
	life  bool // names the second life
	reset bool // what it answers
	from  uint64
}{
	{after: 3, first: true, reset: true, from: 1},
	{after: 0, first: true, reset: true, from: 1},
	{after: 3, life: true, from: 4},
	{after: 3, from: 4}, // a bare number counts in the life that is there
	{after: 99, reset: true, from: 1},
	{after: 0, from: 1},
}

// lifeOf picks the life that a position names.
func lifeOf(first, second string, isFirst, isSecond bool) string {
	switch {
	case isFirst:
		return first
	case isSecond:
		return second
	}
	return ""
}

func TestAPositionInTheEventsOfAnotherLifeIsTold(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		first := live(t, h, 3)
		next := func(s host.Subscription) (host.Delivery, error) {
			stream, err := h.Runtime().Subscribe(t.Context(), botA, s)
			if err != nil {
				return host.Delivery{}, err
			}
			defer stream.Close()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			return stream.Next(ctx)
		}
		must(t, bots.Ref(h, "a").Destroy(t.Context()))
		_, err := next(host.Subscription{Resume: true, After: 3, Life: first})
		errorIf(t, host.CodeOf(err) != host.Destroyed, "a life that is over, without a successor: %v", err)
		waiting := make(chan host.Delivery, 1)
		go func() {
			d, err := next(host.Subscription{Resume: true, After: 3})
			errorIf(t, err != nil, "a subscriber that waits for the actor: %v", err)
			waiting <- d
		}()
		synctest.Wait()
		second := live(t, h, 5)
		d := <-waiting
		errorIf(t, !d.Reset || len(d.Events) != 5 || d.Events[0].Life != second, "a subscriber that waited for the actor: %+v", d)
		for _, c := range positions {
			d, err := next(host.Subscription{Resume: true, After: c.after, Life: lifeOf(first, second, c.first, c.life)})
			errorIf(t, err != nil || d.Reset != c.reset || d.Missed != 0 || len(d.Events) == 0 || d.Events[0].Sequence != c.from || d.Events[0].Life != second,
				"%+v: %+v, %v", c, d, err)
		}
		for _, bad := range []string{"x", "00000000-0000-0000-0000-000000000000"} {
			_, err := next(host.Subscription{Resume: true, Life: bad})
			errorIf(t, wantCode(t, err, actor.InvalidArgument).Metadata["field"] != "life", "%s: %v", bad, err)
		}
	})
}

func TestAConnectionIsToldThatItsPositionIsOfAnotherLife(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		first := live(t, h, 3)
		connect := func(r host.ConnectRequest) (host.LiveConnection, host.Welcome) {
			t.Helper()
			r.Events = []string{"said"}
			conn, err := h.Runtime().Connect(t.Context(), botA, r)
			must(t, err)
			return conn, conn.Welcome()
		}
		old, w := connect(host.ConnectRequest{})
		errorIf(t, w.Life != first || w.Cursor != 3, "%+v", w)
		must(t, bots.Ref(h, "a").Destroy(t.Context()))
		_, err := old.Next(t.Context())
		errorIf(t, host.CodeOf(err) != host.Destroyed, "%v", err)
		// The new life has no events yet: that the old position is none of it is told at once.
		back, now := connect(host.ConnectRequest{Token: w.Token, After: 3, HasAfter: true, Life: first})
		d, err := back.Next(t.Context())
		fatalIf(t, now.Resumed || now.Cursor != 0 || now.Life == first || err != nil || !d.Reset || len(d.Events) != 0, "%+v, %+v, %v", now, d, err)
		second := live(t, h, 4)
		d, err = back.Next(t.Context())
		errorIf(t, err != nil || d.Reset || len(d.Events) != 4 || d.Events[0].Life != second, "%+v, %v", d, err)
		again, _ := connect(host.ConnectRequest{After: 3, HasAfter: true, Life: first})
		d, err = again.Next(t.Context())
		errorIf(t, err != nil || !d.Reset || len(d.Events) != 4 || d.Events[0].Sequence != 1, "%+v, %v", d, err)
	})
}

func TestAReaderThatFollowsAStreamEndsWithTheLifeOfItsActor(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		first := live(t, h, 3)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var wg sync.WaitGroup
		// One reader has read something, and one waits beyond the end with nothing but a number.
		for _, after := range []uint64{0, 3} {
			wg.Go(func() {
				var last error
				for item, err := range entries.Of(bots.Ref(h, "a")).Follow(ctx, handle.Position{After: after}) {
					last = err
					errorIf(t, err == nil && item.Life != first, "after %d: item %d of %s", after, item.Sequence, item.Life)
				}
				errorIf(t, actor.CodeOf(last) != actor.Destroyed, "after %d: it ended with %v", after, last)
			})
		}
		synctest.Wait()
		within(t, time.Second, func() {
			must(t, bots.Ref(h, "a").Destroy(t.Context()))
			live(t, h, 5)
			wg.Wait()
		})
	})
}

func TestAPositionInAStreamOfAnotherLifeIsTold(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx, stream := t.Context(), entries.Of(bots.Ref(h, "a"))
		first := live(t, h, 3)
		must(t, bots.Ref(h, "a").Destroy(ctx))
		for life, want := range map[string]actor.Code{first: actor.Destroyed, "": actor.NotFound, "x": actor.InvalidArgument} {
			_, err := stream.Read(ctx, handle.Position{After: 3, Life: life}, handle.ReadConfig{})
			wantCode(t, err, want)
		}
		second := live(t, h, 5)
		for _, c := range positions {
			page, err := stream.Read(ctx, handle.Position{After: c.after, Life: lifeOf(first, second, c.first, c.life)}, handle.ReadConfig{})
			errorIf(t, err != nil || page.Reset != c.reset || page.Next != handle.Position{After: 5, Life: second} ||
				page.Items[0].Sequence != c.from || page.Items[0].Life != second, "%+v: %+v, %v", c, page, err)
		}
		var gap *handle.GapError
		got := 0
		for _, err := range stream.Follow(ctx, handle.Position{After: 3, Life: first}) {
			if errors.As(err, &gap) {
				errorIf(t, got > 0, "the gap comes late")
				continue
			}
			must(t, err)
			if got++; got == 5 {
				break
			}
		}
		errorIf(t, gap == nil || !gap.Reset || gap.Missed != 0, "%+v", gap)
		info, err := stream.Info(ctx)
		errorIf(t, err != nil || info.Life != second, "%+v, %v", info, err)
	})
}
