package guides_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

type Trip struct {
	Flight string
	Nights int
}

type Approval struct{ By string }

var Approvals = workflow.Inbox[Approval]{Name: "approvals"}

func bookFlight(flight string) (string, error) { return "", errors.New("no network in tests") }
func cancelFlight(booking string) error        { return errors.New("no network in tests") }
func bookHotel(nights int) error               { return errors.New("no network in tests") }

// BookTrip waits for an approval, books the flight, and then the hotel. If there is no hotel, the
// flight is cancelled.
var BookTrip = workflow.NewFunction("book-trip", func(ctx workflow.Context, trip Trip) (string, error) {
	m, err := workflow.Receive(ctx, "approval", Approvals, workflow.Within(7*24*time.Hour))
	if errors.Is(err, workflow.ErrTimeout) {
		return "not approved", nil
	}
	if err != nil {
		return "", err
	}
	return workflow.Saga(ctx, "booking", func(ctx workflow.Context) (string, error) {
		flight, err := workflow.Compensated(ctx, "flight",
			func(*workflow.StepCtx) (string, error) { return bookFlight(trip.Flight) },
			func(_ *workflow.StepCtx, booking string) error { return cancelFlight(booking) })
		if err != nil {
			return "", err
		}
		err = workflow.Do(ctx, "hotel", func(*workflow.StepCtx) error { return bookHotel(trip.Nights) }, workflow.Timeout(time.Minute))
		return flight + ", approved by " + m.Body.By, err
	})
})

func TestBookTrip(t *testing.T) {
	env := workflowtest.New(t, BookTrip)
	env.Stub("flight", func(*workflow.StepCtx) (any, error) { return "LH1", nil })
	env.Stub("hotel", func(*workflow.StepCtx) (any, error) { return nil, nil })
	env.Start(Trip{"Rome", 2})
	env.Advance(48 * time.Hour) // nothing happens: it waits
	env.Send("approvals", Approval{By: "Ada"})
	if out, err := env.Result(); err != nil || out != "LH1, approved by Ada" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestBookTripWithoutApproval(t *testing.T) {
	env := workflowtest.New(t, BookTrip).Start(Trip{"Rome", 2})
	if out, err := env.Result(); err != nil || out != "not approved" { // seven days pass at once
		t.Errorf("%q, %v", out, err)
	}
}

func TestBookTripSurvivesEveryCrash(t *testing.T) {
	workflowtest.CrashEverywhere(t, BookTrip, func(env *workflowtest.Env[Trip, string]) {
		env.Stub("flight", func(*workflow.StepCtx) (any, error) { return "LH1", nil })
		env.Stub("undo of booking/flight", func(*workflow.StepCtx) (any, error) { return nil, nil })
		env.Stub("hotel", func(*workflow.StepCtx) (any, error) { return nil, workflow.Permanent(errors.New("full")) })
		env.Start(Trip{"Rome", 2})
		env.Send("approvals", Approval{By: "Ada"})
		if _, err := env.Result(); err == nil || env.Calls("undo of flight") == 0 {
			t.Errorf("%v, and the flight was cancelled %d times", err, env.Calls("undo of flight"))
		}
	})
}

func TestBookTripWhenTheHotelHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflowtest.New(t, BookTrip)
		env.Stub("flight", func(*workflow.StepCtx) (any, error) { return "LH1", nil })
		env.Stub("undo of flight", func(*workflow.StepCtx) (any, error) { return nil, nil })
		env.Stub("hotel", func(sc *workflow.StepCtx) (any, error) { <-sc.Done(); return nil, sc.Err() })
		env.Send("approvals", Approval{By: "Ada"})
		if _, err := env.Start(Trip{"Rome", 2}).Result(); !errors.Is(err, workflow.ErrTimeout) {
			t.Errorf("%v", err)
		}
	})
}

func TestBookTripReplaysReleasedVersions(t *testing.T) {
	env := workflowtest.New(t, BookTrip).Start(Trip{"Rome", 2})
	env.Reach("approval")
	workflowtest.Record(t, "testdata/v1/waiting.rec", env.Export())
	workflowtest.ReplayDir(t, BookTrip, "testdata/*/*.rec")
}
