package runtime_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

// TestConnectionScripts and TestStreamScripts of package node have events and items of one life. Here are two lives.

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

func TestSubscriberThatFallsBehindIsToldWhatItMissed(t *testing.T) {
	with(t, actor.Spec[bot]{Limits: actor.Limits{EventHistory: 100}}, func(t *testing.T, h *actortest.Harness) {
		live(t, h, 1)
		slow := subscribe(t, h, host.Subscription{Resume: true, After: 1})
		for range 60 {
			live(t, h, 10)
		}
		for at, stream := range map[uint64]host.EventStream{1: slow, 0: subscribe(t, h, host.Subscription{Resume: true})} {
			missed := uint64(0)
			for at < 601 {
				d, err := stream.Next(t.Context())
				must(t, err)
				at, missed = at+d.Missed, missed+d.Missed
				for _, e := range d.Events {
					at++
					errorIf(t, e.Sequence != at, "event %d comes at %d", e.Sequence, at)
				}
			}
			errorIf(t, at != 601 || missed == 0, "at %d, %d missed", at, missed)
		}
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
		d, err = following.Next(t.Context())
		errorIf(t, err != nil || len(d.Events) != 2 || d.Events[0].Sequence != 701, "%+v, %v", d, err)
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

// A position that counts in another life, or in none, is told to readers of events and of streams.
func TestAPositionOfAnotherLifeIsTold(t *testing.T) {
	// A piece is what a reader gets first.
	type piece struct {
		life   string
		from   uint64
		count  int
		missed uint64
		reset  bool
	}
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		stream := entries.Of(bots.Ref(h, "a"))
		readEvents := func(p handle.Position) (got piece, err error) {
			s, err := h.Runtime().Subscribe(t.Context(), botA, host.Subscription{Resume: true, After: p.After, Life: p.Life})
			if err != nil {
				return got, err
			}
			defer s.Close()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			d, err := s.Next(ctx)
			if err == nil {
				got = piece{d.Events[0].Life, d.Events[0].Sequence, len(d.Events), d.Missed, d.Reset}
			}
			return got, err
		}
		readItems := func(p handle.Position) (got piece, err error) {
			page, err := stream.Read(t.Context(), p, handle.ReadConfig{})
			if err == nil {
				got = piece{page.Items[0].Life, page.Items[0].Sequence, len(page.Items), 0, page.Reset}
				errorIf(t, page.Next != handle.Position{After: 5, Life: got.life}, "after %+v: the next is %+v", p, page.Next)
			}
			return got, err
		}
		first := live(t, h, 3)
		must(t, bots.Ref(h, "a").Destroy(t.Context()))
		_, err := readItems(handle.Position{After: 3})
		wantCode(t, err, actor.NotFound)
		waited := make(chan piece, 1)
		go func() {
			got, err := readEvents(handle.Position{After: 3})
			errorIf(t, err != nil, "a subscriber that waits for the actor: %v", err)
			waited <- got
		}()
		readers := map[string]func(handle.Position) (piece, error){"events": readEvents, "items": readItems}
		for name, read := range readers {
			for life, want := range map[string]actor.Code{first: actor.Destroyed, "x": actor.InvalidArgument} {
				_, err := read(handle.Position{After: 3, Life: life})
				errorIf(t, actor.CodeOf(err) != want, "%s of the life %s: %v", name, life, err)
			}
		}
		_, err = readEvents(handle.Position{Life: "00000000-0000-0000-0000-000000000000"})
		errorIf(t, wantCode(t, err, actor.InvalidArgument).Metadata["field"] != "life", "%v", err)
		synctest.Wait()
		second := live(t, h, 5)
		got := <-waited
		errorIf(t, got != piece{second, 1, 5, 0, true}, "a subscriber that waited for the actor: %+v", got)
		for p, want := range map[handle.Position]piece{
			{After: 3, Life: first}:  {second, 1, 5, 0, true},
			{After: 0, Life: first}:  {second, 1, 5, 0, true},
			{After: 3, Life: second}: {second, 4, 2, 0, false},
			{After: 3}:               {second, 4, 2, 0, false}, // a bare number counts in the life that is there
			{After: 99}:              {second, 1, 5, 0, true},
			{After: 0}:               {second, 1, 5, 0, false},
		} {
			for name, read := range readers {
				got, err := read(p)
				errorIf(t, err != nil || got != want, "%s after %+v: %+v, %v", name, p, got, err)
			}
		}
		var gap *handle.GapError
		for _, err := range stream.Follow(t.Context(), handle.Position{After: 3, Life: first}) {
			if !errors.As(err, &gap) {
				break
			}
		}
		errorIf(t, gap == nil || !gap.Reset || gap.Missed != 0, "%+v", gap)
		info, err := stream.Info(t.Context())
		errorIf(t, err != nil || info.Life != second, "%+v, %v", info, err)
	})
}
