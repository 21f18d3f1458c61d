package guides_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

var (
	Parcels   = actor.NewType[Parcel]("parcel")
	Journey   = actor.NewWorkflow[Address, string](Parcels, "journey")
	Receipts  = actor.NewQueue[string](Parcels, "receipts", actor.QueueConfig{ByRun: true})
	Where     = actor.NewQuery[actor.None, []string](Parcels, "where")
	Rerouting = actor.NewAction[actor.None, actor.None](Parcels, "rerouting")
)

type Address struct{ Place string }

// Parcel is the state of a parcel.
type Parcel struct {
	Stops    []string
	Rerouted bool
}

func journey(ctx workflow.Context, to Address) (string, error) {
	label, err := workflow.Step(ctx, "label", func(sc *workflow.StepCtx) (string, error) {
		return printLabel(sc.IdempotencyKey(), to) // may talk to the world, and may run again
	})
	if err != nil {
		return "", err
	}
	_, err = actor.UpdateState(ctx, "sent", func(p *Parcel, ctx *actor.Context) (actor.None, error) {
		p.Stops = append(p.Stops, "sent") // a turn of the actor, exactly once
		return actor.None{}, nil
	})
	if err != nil {
		return "", err
	}
	receipt, err := workflow.Receive(ctx, "receipt", Receipts, workflow.Within(14*24*time.Hour))
	if errors.Is(err, workflow.ErrTimeout) {
		return label + " is lost", nil
	}
	return label + " was received by " + receipt.Body, err
}

func printLabel(_ string, to Address) (string, error) { return "parcel to " + to.Place, nil }

func (p Parcel) where(*actor.ReadContext, actor.None) ([]string, error) { return p.Stops, nil }

func (p *Parcel) rerouting(*actor.Context, actor.None) (actor.None, error) {
	p.Rerouted = true
	return actor.None{}, nil
}

func parcels() actor.Definition {
	return actor.Define(Parcels, actor.Spec[Parcel]{},
		actor.OnQuery(Where, Parcel.where),
		actor.On(Rerouting, (*Parcel).rerouting),
		actor.OnRun(Journey, journey),
		actor.OnRun(Tour, tour),
		actor.OnRun(Round, round),
		actor.OnRun(Storage, storage), actor.OnRun(Travel, travel),
	)
}

func TestWorkflows(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		parcel := Parcels.Ref(h, "4711")
		started, err := Journey.Of(parcel).Start(ctx, Address{"Oslo"})
		if err != nil || !started.Started {
			t.Fatal(started, err)
		}
		h.Crash()
		time.Sleep(3 * 24 * time.Hour)
		if _, err := Receipts.Of(parcel).Send(ctx, "ann"); err != nil {
			t.Fatal(err)
		}
		h.Crash()
		text, err := Journey.Of(parcel).Result(ctx)
		if err != nil || text != "parcel to Oslo was received by ann" {
			t.Errorf("%q, %v", text, err)
		}
		if stops, err := Where.Call(ctx, parcel, actor.None{}); err != nil || len(stops) != 1 {
			t.Errorf("%q, %v", stops, err)
		}
	}, parcels())
}

// Tour is a workflow that shows what there is to wait for, to loop over and to do at the same time.
var (
	Tour  = actor.NewWorkflow[[]string, []string](Parcels, "tour")
	Round = actor.NewWorkflow[[]string, int](Parcels, "round")
)

func tour(ctx workflow.Context, places []string) ([]string, error) {
	if err := workflow.Sleep(ctx, "until morning", 8*time.Hour); err != nil {
		return nil, err
	}
	rerouted, err := actor.AwaitState(ctx, "rerouted", func(p Parcel) (string, bool) { return "rerouted", p.Rerouted }, workflow.Within(time.Hour))
	if errors.Is(err, workflow.ErrTimeout) {
		rerouted, err = "as planned", nil
	}
	if err != nil {
		return nil, err
	}
	visited, err := workflow.Loop(ctx, "visit", 0, func(it *workflow.Iter[int, int]) error {
		if it.State == len(places) {
			return it.Break(it.State)
		}
		if err := workflow.Do(it, "drive", func(*workflow.StepCtx) error { return drive(places[it.State]) }); err != nil {
			return err
		}
		it.State++ // what the next iteration begins with
		return nil
	})
	if err != nil {
		return nil, err
	}
	costs, err := workflow.ForEach(ctx, "costs", places, func(ctx workflow.Context, _ int, place string) (int, error) {
		return workflow.Step(ctx, "toll", func(*workflow.StepCtx) (int, error) { return toll(place) })
	}, workflow.Concurrency(10))
	if err != nil {
		return nil, err
	}
	var weather, news string
	err = workflow.Join(ctx, "morning",
		workflow.B("weather", &weather, func(ctx workflow.Context) (string, error) {
			return workflow.Step(ctx, "ask", func(*workflow.StepCtx) (string, error) { return "sunny", nil })
		}),
		workflow.B("news", &news, func(ctx workflow.Context) (string, error) {
			return workflow.Step(ctx, "ask", func(*workflow.StepCtx) (string, error) { return "none", nil })
		}))
	if err != nil {
		return nil, err
	}
	winner, _, err := workflow.Race(ctx, "answer",
		workflow.C("receipt", func(ctx workflow.Context) (string, error) {
			m, err := workflow.Receive(ctx, "message", Receipts)
			return m.Body, err
		}),
		workflow.C("silence", func(ctx workflow.Context) (string, error) {
			return "", workflow.Sleep(ctx, "for a day", 24*time.Hour)
		}))
	return []string{rerouted, fmt.Sprint(visited, costs), weather, news, winner}, err
}

func drive(string) error             { return nil }
func toll(place string) (int, error) { return len(place), nil }

func round(ctx workflow.Context, keys []string) (int, error) {
	received, err := workflow.ForEach(ctx, "parcels", keys, func(ctx workflow.Context, _ int, key string) (string, error) {
		child, err := actor.SpawnRun(ctx, "journey", Journey, []string{key}, Address{"Rome"}) // in the actor with that key
		if err != nil {
			return "", err
		}
		return child.Result(ctx)
	}, workflow.Concurrency(100))
	return len(received), err
}

func TestWorkflowsWaitAndBranch(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		one := Parcels.Ref(h, "1")
		if _, err := Tour.Of(one).Start(ctx, []string{"Rome", "Oslo"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8*time.Hour + time.Minute)
		h.Crash()
		if _, err := Rerouting.Call(ctx, one, actor.None{}); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		h.Crash()
		time.Sleep(25 * time.Hour) // Result asks each minute, which costs more
		got, err := Tour.Of(one).Result(ctx)
		if want := []string{"rerouted", "2 [4 4]", "sunny", "none", "silence"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := Round.Of(Parcels.Ref(h, "round")).Start(ctx, []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		h.Crash()
		for _, key := range []string{"a", "b"} {
			if _, err := Receipts.Of(Parcels.Ref(h, key)).Send(ctx, "bob"); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := Round.Of(Parcels.Ref(h, "round")).Result(ctx); err != nil || n != 2 {
			t.Errorf("%d, %v", n, err)
		}
	}, parcels())
}

var (
	Storage = actor.NewWorkflow[actor.None, string](Parcels, "storage")

	errFull = errors.New("the shelf is full")
)

func storage(ctx workflow.Context, _ actor.None) (string, error) {
	shelf, err := workflow.Saga(ctx, "store", func(ctx workflow.Context) (string, error) {
		room, err := workflow.Compensated(ctx, "room",
			func(*workflow.StepCtx) (string, error) { return "room 7", nil },
			func(_ *workflow.StepCtx, room string) error { return leave(room) })
		if err != nil {
			return "", err
		}
		err = workflow.Do(ctx, "shelf", func(*workflow.StepCtx) error { return workflow.Permanent(errFull) })
		return room, err
	})
	if err != nil { // by now the room was left
		shelf = "nowhere"
	}
	if workflow.Version(ctx, "insured", 2) >= 2 { // runs that were here before the change get 1
		if err := workflow.Do(ctx, "insure", func(*workflow.StepCtx) error { return nil }); err != nil {
			return "", err
		}
	}
	if err := workflow.Sleep(ctx, "a year", 365*24*time.Hour); errors.Is(err, workflow.ErrCanceled) {
		_, uerr := actor.UpdateState(workflow.Detach(ctx), "fetched", func(p *Parcel, _ *actor.Context) (actor.None, error) {
			p.Stops = append(p.Stops, "fetched from "+shelf)
			return actor.None{}, nil
		})
		return shelf, errors.Join(err, uerr)
	}
	return shelf, nil
}

func leave(string) error { return nil }

var (
	Travel = actor.NewWorkflow[actor.None, string](Parcels, "travel")

	errLost   = errors.New("the answer was lost")
	forgotten []string
)

func travel(ctx workflow.Context, _ actor.None) (string, error) {
	hotel, err := workflow.Compensated(ctx, "hotel",
		func(sc *workflow.StepCtx) (string, error) { return reserve(sc.IdempotencyKey()) },
		func(sc *workflow.StepCtx, hotel string) error {
			key, known := sc.Undoes()
			if known {
				return leave(hotel)
			}
			return forget(key) // gives up what was reserved under the key, and refuses it from now on
		})
	return hotel, err
}

func reserve(string) (string, error) { return "", errLost }

func forget(key string) error {
	forgotten = append(forgotten, key)
	return nil
}

func TestStepsWhoseOutcomeIsUnknownAreUndone(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		forgotten = nil
		parcel := Parcels.Ref(h, "1")
		if _, err := Travel.Of(parcel).Start(t.Context(), actor.None{}); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		if _, err := Travel.Of(parcel).Result(t.Context()); err == nil || len(forgotten) != 1 {
			t.Errorf("%v, forgotten: %q", err, forgotten)
		}
	}, parcels())
}

func TestWorkflowsUndoAndAreCancelled(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		parcel := Parcels.Ref(h, "1")
		if _, err := Storage.Of(parcel).Start(ctx, actor.None{}); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		h.Crash()
		status, err := Storage.Of(parcel).Status(ctx)
		if err != nil || status.State != wfhost.StateSleeping || len(status.Waiting) != 1 || status.Waiting[0].Path != "a year" {
			t.Errorf("%+v, %v", status, err)
		}
		err = Storage.Of(parcel).Cancel(ctx, "fetched early")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Storage.Of(parcel).Result(ctx); actor.CodeOf(err) != actor.Canceled {
			t.Error(err)
		}
		if stops, err := Where.Call(ctx, parcel, actor.None{}); err != nil || !slices.Equal(stops, []string{"fetched from nowhere"}) {
			t.Errorf("%q, %v", stops, err)
		}
	}, parcels())
}
