package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
)

// TestQueueScripts of package node has how an actor handles its queues. Here are workers, replies and other actors.

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

// What a turn posts to the queue of another actor is part of its commit: it survives a crash, arrives once and in order, and
// is nowhere if the turn failed. A turn whose post is refused fails, whatever its handler returns.
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
			errorIf(t, err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(want, "with ")), "the turn ended with %v, want %q", err, want)
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

// One call removes up to 10,000 messages and says whether there are more; in Go they are all removed.
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
		_, err = invoke(t, h, host.Request{Address: botA, Method: host.QueueDelete}, &host.QueueSelectInput{Queue: "carry", All: true}, &out)
		errorIf(t, err != nil || out != host.CountOutput{Count: 3}, "%+v, %v", out, err)
	})
}
