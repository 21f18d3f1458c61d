package runtime_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

// A relay hands what comes in from one of its queues to the other.
type relay struct{ In, Out []string }

var (
	relays   = actor.NewType[relay]("relay")
	relayIn  = actor.NewQueue[string](relays, "in")
	relayOut = actor.NewQueue[string](relays, "out")
	relayLog = actor.NewQuery[actor.None, relay](relays, "log")

	relayHeld chan struct{} // holds up the handlers of relayOut until it is closed; nil for no hold
)

func (r *relay) in(ctx *actor.Context, s string) error {
	r.In = append(r.In, s)
	if s != "forward" {
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
		if _, err := relayIn.SendAll(t.Context(), r, []string{"forward", "keep"}); err != nil {
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
func TestDrainDoesNotWorkOffQueues(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		relayHeld = nil
		if _, err := relayOut.SendAll(ctx, relays.Ref(h, "a"), slices.Repeat([]string{"slow"}, 20)); err != nil {
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
