package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
)

// A relay hands what comes in from one of its queues to the other.
type relay struct{ In, Out []string }

var (
	relays   = actor.NewType[relay]("relay")
	relayIn  = actor.NewQueue[string](relays, "in", actor.QueueConfig{})
	relayOut = actor.NewQueue[string](relays, "out", actor.QueueConfig{})
	relayLog = actor.NewQuery[actor.None, relay](relays, "log")

	relayNode actor.Node    // outside of turns
	relayHeld chan struct{} // holds up the handlers of relayOut until it is closed; nil for no hold
)

func (r *relay) in(ctx *actor.Context, s string) error {
	r.In = append(r.In, s)
	switch other := relays.Ref(ctx, "b"); s {
	case "forward":
	case "post":
		return relayOut.PostAll(ctx, other, []string{"1", "2"}, actor.Delay(time.Minute))
	case "post and fail":
		if err := relayOut.Post(ctx, other, "never"); err != nil {
			return err
		}
		return errors.New("the turn failed")
	case "post too many":
		relayOut.PostAll(ctx, other, make([]string, host.MaxQueueBatch+1))
		return nil // the turn fails all the same
	case "post too late":
		relayOut.Post(ctx, other, "never", actor.Delay(2*host.MaxQueueDelay))
		return nil
	case "send with a deadline":
		until, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		relayOut.Of(relays.Ref(relayNode, "b")).Send(until, "never")
		return nil
	case "send":
		_, err := relayOut.Of(other).Send(ctx, "never")
		if actor.CodeOf(err) != actor.FailedPrecondition || !strings.Contains(err.Error(), "Post") {
			return actor.Errorf(actor.Internal, "Send: %v", err)
		}
		return nil // the turn fails all the same
	default:
		return nil
	}
	_, err := relayOut.Put(ctx, s)
	return err
}

func (r *relay) out(ctx *actor.Context, s string) error {
	if held := relayHeld; held != nil {
		<-held
	}
	if s == "slow" {
		time.Sleep(time.Second)
	}
	r.Out = append(r.Out, s)
	return nil
}

func (r relay) log(*actor.ReadContext, actor.None) (relay, error) { return r, nil }

func relayDefinition() actor.Definition {
	return actor.Define(relays, actor.Spec[relay]{}, actor.OnMessage(relayIn, (*relay).in), actor.OnMessage(relayOut, (*relay).out),
		actor.OnQuery(relayLog, relay.log))
}

// The row that a start finds must stand for as long as any queue has a message, and not only the one that was emptied.
func TestMessageThatAHandlerSentToAnotherQueueSurvivesACrash(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		r := relays.Ref(h, "a")
		relayHeld = make(chan struct{})
		held := relayHeld
		if _, err := relayIn.Of(r).SendAll(t.Context(), []string{"forward", "keep"}); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		go func() {
			time.Sleep(time.Second)
			relayHeld = nil
			close(held)
		}()
		h.Crash()
		time.Sleep(2 * time.Second)
		h.Settle()
		got, err := relayLog.Call(context.Background(), relays.Ref(h, "a"), actor.None{})
		if err != nil || !slices.Equal(got.Out, []string{"forward"}) || len(got.In) != 2 {
			t.Fatalf("%+v %v", got, err)
		}
	}, relayDefinition())
}

// What waits in queues is kept by a drain, as messages between actors are.
// What a turn posts to the queue of another actor is part of its commit: it survives a crash, arrives once and in order, and
// is nowhere if the turn failed.
func TestMessageThatATurnPostsToAnotherActorIsPartOfItsCommit(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		relayHeld, relayNode = nil, h
		failing := []string{"post and fail", "send", "post too many", "post too late", "send with a deadline"}
		if _, err := relayIn.Of(relays.Ref(h, "a")).SendAll(ctx, failing, actor.Backoff()); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		if _, err := relays.Ref(h, "b").Lookup(ctx); actor.CodeOf(err) != actor.NotFound {
			t.Fatalf("a turn that failed has posted: %v", err)
		}
		var dead []string
		for letter, err := range relayIn.Of(relays.Ref(h, "a")).DeadLetters().List(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			dead = append(dead, letter.Error)
		}
		for i, want := range []string{"the turn failed", "Post for another", "messages: 1001", "delay_ms", "Post for another"} {
			if len(dead) != len(failing) || !strings.Contains(dead[i], want) {
				t.Fatalf("%q lack %q", dead, want)
			}
		}
		if _, err := relayIn.Of(relays.Ref(h, "a")).Send(ctx, "post"); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		h.Crash()
		time.Sleep(2 * time.Minute)
		h.Settle()
		got, err := relayLog.Call(ctx, relays.Ref(h, "b"), actor.None{})
		if err != nil || !slices.Equal(got.Out, []string{"1", "2"}) {
			t.Fatalf("%+v, %v", got, err)
		}
		if st, err := relays.Ref(h, "a").Lookup(ctx); err != nil || st.PendingSends != 0 || st.FailedSends != 0 {
			t.Fatalf("%+v, %v", st, err)
		}
	}, relayDefinition())
}

func TestDrainDoesNotWorkOffQueues(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		relayHeld = nil
		if _, err := relayOut.Of(relays.Ref(h, "a")).SendAll(ctx, slices.Repeat([]string{"slow"}, 20)); err != nil {
			t.Fatal(err)
		}
		h.Settle() // the first is being handled
		begun := time.Now()
		h.Restart()
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("the drain took %v", took)
		}
		time.Sleep(30 * time.Second)
		got, err := relayLog.Call(ctx, relays.Ref(h, "a"), actor.None{})
		if err != nil || len(got.Out) != 20 {
			t.Fatalf("%d messages are handled, %v", len(got.Out), err)
		}
	}, relayDefinition())
}

// call calls a built-in method of the mill "a" with JSON.
func callMill(t *testing.T, h *actortest.Harness, method, key string, in, out any) (host.Reply, error) {
	t.Helper()
	input, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := h.Call(context.Background(), &host.Request{
		Address: host.Address{Type: "mill", Key: []string{"a"}}, Method: method, Codec: host.JSON, Input: input, IdempotencyKey: key,
	})
	if err == nil && out != nil {
		if err := json.Unmarshal(reply.Output, out); err != nil {
			t.Fatal(err)
		}
	}
	return reply, err
}

// A receipt is good for as long as its lock. The reply to queue.receive is remembered no longer, with the bodies in it.
func TestRepeatedReceiveIsAnsweredAgainUntilTheLockEnds(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		if _, err := carry.Of(m).SendAll(t.Context(), []grain{{Name: "1"}, {Name: "2"}}); err != nil {
			t.Fatal(err)
		}
		receive := func() (string, bool) {
			var out host.QueueReceiveOutput
			reply, err := callMill(t, h, host.QueueReceive, "once", &host.QueueReceiveInput{Queue: "carry", LockMS: 10_000}, &out)
			if err != nil || len(out.Messages) != 1 {
				t.Fatal(out, err)
			}
			return out.Messages[0].Receipt, reply.Replayed
		}
		first, replayed := receive()
		if replayed {
			t.Fatal("replayed")
		}
		time.Sleep(9 * time.Second)
		if again, replayed := receive(); again != first || !replayed {
			t.Fatal("a repeated call got another message while the first is locked")
		}
		time.Sleep(2 * time.Second)
		if again, replayed := receive(); again == first || replayed {
			t.Fatal("a repeated call got a receipt that is good for nothing")
		}
		time.Sleep(2 * time.Hour)
		for _, k := range h.Inspect("mill", "a") {
			if strings.Contains(k.Text, "once") {
				t.Errorf("%s is kept", k.Text)
			}
		}
	})
}

// What a poll finds out about a queue stays, though it brings no message.
func TestPollThatFindsNothingGivesUpWhatIsOver(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		if _, err := carry.Of(m).Send(t.Context(), grain{Name: "1"}, actor.MessageTTL(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := callMill(t, h, host.ActorPause, "", struct{}{}, nil); err != nil { // its rows of the wake index wait
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		in := &host.QueueReceiveInput{Queue: "carry"}
		var out host.QueueReceiveOutput
		if _, err := callMill(t, h, host.QueueReceive, "key", in, &out); err != nil || len(out.Messages) != 0 {
			t.Fatal(out, err)
		}
		if s := queueStats(t, carry.Of(m).Stats); s.Pending != 0 || s.Dead != 1 {
			t.Fatalf("%+v", s)
		}
		if _, err := carry.Of(m).Send(t.Context(), grain{Name: "2"}); err != nil {
			t.Fatal(err)
		}
		if _, err := callMill(t, h, host.QueueReceive, "key", in, &out); err != nil || len(out.Messages) != 1 {
			t.Fatal("nothing was remembered as the answer: ", out, err)
		}
	})
}

func TestPurgeSaysWhetherItIsDone(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		ctx := t.Context()
		if _, err := grind.Of(m).Send(ctx, grain{Name: "late"}, actor.Delay(time.Hour)); err != nil { // or the purge would take ranges
			t.Fatal(err)
		}
		for range 11 {
			if _, err := carry.Of(m).SendAll(ctx, slices.Repeat([]grain{{Name: "x"}}, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		var out host.CountOutput
		if _, err := callMill(t, h, host.QueuePurge, "", &host.QueueInput{Queue: "carry"}, &out); err != nil || out.Count != 10_000 || !out.More {
			t.Fatal(out, err)
		}
		out = host.CountOutput{}
		_, err := callMill(t, h, host.QueueDelete, "", &host.QueueSelectInput{Queue: "carry", All: true}, &out)
		if err != nil || out.Count != 1000 || out.More {
			t.Fatal(out, err)
		}
		for range 11 {
			if _, err := carry.Of(m).SendAll(ctx, slices.Repeat([]grain{{Name: "x"}}, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := carry.Of(m).Purge(ctx); n != 11_000 || err != nil {
			t.Fatal(n, err)
		}
	})
}
