package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
)

// TestConnectionScripts and TestStreamScripts of package node test events and items of one life.
// The tests here have two lives.

// tell makes an action that emits n events and appends n items, with increasing numbers.
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

// live makes the bot a tell n numbers, and returns the id of its life.
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
		fatalIf(t, err != nil || len(d.Events) == 0 || len(d.Events) >= 700 ||
			d.Events[0].Life != first, "%d events, %v", len(d.Events), err)
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

// Readers of events and streams are told that their position is of another life, or of none.
func TestAPositionOfAnotherLifeIsTold(t *testing.T) {
	// A piece is the first delivery of a reader.
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
			{After: 3}:               {second, 4, 2, 0, false}, // a bare number counts in the current life
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

// TestQueueScripts of package node tests how an actor handles its queues. The tests here have
// workers, replies and other actors.

func queueStats(t *testing.T, stats func(context.Context) (handle.QueueStats, error)) handle.QueueStats {
	t.Helper()
	s, err := stats(context.Background())
	must(t, err)
	return s
}

func TestWorkersLockEndsAtItsTimeAndCountsAsAnAttempt(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx, carried := t.Context(), carry.Of(bots.Ref(h, "a"))
		must(t, errOf(carried.Send(ctx, "1")))
		for attempt := 1; attempt <= 4; attempt++ {
			d, err := carried.Receive(ctx, handle.ReceiveConfig{Wait: time.Minute})
			fatalIf(t, err != nil || len(d) != 1 || d[0].Attempt != attempt, "attempt %d: %+v %v", attempt, d, err)
			if attempt == 2 {
				h.Crash() // the lock outlives the node
			}
			for _, c := range []struct {
				wait   time.Duration
				locked int64
			}{{29 * time.Second, 1}, {1100 * time.Millisecond, 0}} {
				time.Sleep(c.wait)
				s := queueStats(t, carried.Stats)
				fatalIf(t, s.Processing != c.locked, "attempt %d: %+v", attempt, s)
			}
			fatalIf(t, d[0].Ack(ctx, actor.None{}) == nil, "a message whose lock has ended was acknowledged")
		}
		s := queueStats(t, carried.Stats)
		errorIf(t, s.Dead != 1 || s.Pending+s.Delayed != 0, "%+v", s)
	})
}

func TestReplyOutlivesTheNode(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		scales := weigh.Of(bots.Ref(h, "a"))
		n, err := scales.Ask(t.Context(), "abc")
		fatalIf(t, err != nil || n != 3, "%d %v", n, err)
		_, err = scales.Ask(t.Context(), "", actor.Backoff())
		errorIf(t, wantCode(t, err, actor.FailedPrecondition).Message != "the scales are broken", "%v", err)
		answer := make(chan string, 1)
		go func() {
			n, err := scales.Ask(context.Background(), "abcd", actor.Delay(time.Minute))
			answer <- fmt.Sprint(n, err)
		}()
		time.Sleep(time.Second)
		h.Crash()
		got := <-answer
		errorIf(t, got != "4 <nil>", "%s", got)
	})
}

// A message that a turn posts to the queue of another actor is part of its commit. It survives a
// crash, arrives once and in order, and does not exist if the turn failed. A turn whose post is
// refused fails, regardless of its handler's result.
func TestMessageThatATurnPostsToAnotherActorIsPartOfItsCommit(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx, to := t.Context(), func(ctx *actor.Context) actor.Ref[bot] { return bots.Ref(ctx, "b") }
		for want, f := range map[string]func(ctx *actor.Context) error{
			"refused": func(ctx *actor.Context) error { must(t, work.Post(ctx, to(ctx), note{})); return errRefused },
			"messages: 1001": func(ctx *actor.Context) error {
				_ = work.PostAll(ctx, to(ctx), make([]note, host.MaxQueueBatch+1))
				return nil
			},
			"delay_ms": func(ctx *actor.Context) error {
				_ = work.Post(ctx, to(ctx), note{}, actor.Delay(2*host.MaxQueueDelay))
				return nil
			},
			"Post for another": func(ctx *actor.Context) error {
				_, err := work.Of(to(ctx)).Send(ctx, note{})
				errorIf(t, actor.CodeOf(err) != actor.FailedPrecondition, "Send: %v", err)
				return nil
			},
			"with Post for another": func(ctx *actor.Context) error { // through the node, with a context of its own
				until, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, _ = work.Of(bots.Ref(h, "b")).Send(until, note{})
				return nil
			},
		} {
			_, err := do(h, "a", func(_ *bot, ctx *actor.Context) (string, error) { return "", f(ctx) })
			errorIf(t, err == nil ||
				!strings.Contains(err.Error(), strings.TrimPrefix(want, "with ")), "the turn ended with %v, want %q", err, want)
		}
		errorIf(t, exists(t, h, "b"), "a turn that failed has posted")
		mustDo(t, h, "a", func(_ *bot, ctx *actor.Context) (string, error) {
			return "", work.PostAll(ctx, to(ctx), []note{{"a", 1, ""}, {"a", 2, ""}}, actor.Delay(time.Minute))
		})
		h.Settle()
		h.Crash()
		time.Sleep(2 * time.Minute)
		got := look(t, h, "b").Notes["a"]
		errorIf(t, !slices.Equal(got, []int{1, 2}), "%v", got)
		st, err := bots.Ref(h, "a").Lookup(ctx)
		errorIf(t, err != nil || st.PendingSends != 0 || st.FailedSends != 0, "%+v, %v", st, err)
	})
}

// One call removes up to 10,000 messages and says whether there are more. The Go API removes all.
func TestPurgeSaysWhetherItIsDone(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx, a := t.Context(), bots.Ref(h, "a")
		must(t, errOf(work.Of(a).Send(ctx, note{}, actor.Delay(time.Hour)))) // or the purge would take ranges
		fill := func(n int) { must(t, errOf(carry.Of(a).SendAll(ctx, make([]string, n)))) }
		for range 10 {
			fill(1000)
		}
		fill(1)
		node := &hosttest.Recorder{Node: h.Runtime()}
		n, err := carry.Of(bots.Ref(node, "a")).Purge(ctx)
		errorIf(t, n != 10_001 || err != nil || len(node.Requests()) != 2, "%d in %d calls, %v", n, len(node.Requests()), err)
		fill(3)
		var out host.CountOutput
		_, err = invoke(t, h, host.Request{Address: botA, Method: host.QueueDelete},
			&host.QueueSelectInput{Queue: "carry", All: true}, &out)
		errorIf(t, err != nil || out != host.CountOutput{Count: 3}, "%+v, %v", out, err)
	})
}
