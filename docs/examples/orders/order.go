package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/workflow"
)

// Orders are actors with one key part, the number of the order.
var (
	Orders = actor.NewType[Order]("order")
	// Checkout is the life of an order, from the click to the parcel.
	Checkout = actor.NewWorkflow[Purchase, Receipt](Orders, "checkout")
	Show     = actor.NewQuery[actor.None, Order](Orders, "show")
	// Settled is emitted when an order has come to its end, well or not.
	Settled = actor.NewEvent[string](Orders, "settled", actor.EventConfig{})
)

// A Purchase is what a customer orders.
type Purchase struct {
	ID       string `json:"id"`
	Article  string `json:"article"`
	Count    int    `json:"count"`
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
	Address  string `json:"address"`
}

// A Receipt is the result of an order.
type Receipt struct {
	Parcel string `json:"parcel"`
}

// Order is the state of an order. Show returns it.
type Order struct{ Note string }

func (o Order) show(*actor.ReadContext, actor.None) (Order, error) { return o, nil }

// A shop has the workflow's access to the world outside: the carrier.
type shop struct{ carrier carrier }

// A carrier is a company that fetches parcels.
type carrier interface {
	// Fetch books the transport of a parcel to a place. Booking again under the same reference
	// returns the same parcel.
	Fetch(ctx context.Context, reference, order, place string) (parcel string, err error)
}

func definitions(c carrier) []actor.Definition {
	return []actor.Definition{
		actor.Define(Items, actor.Spec[Item]{},
			actor.On(Stock, (*Item).stock), actor.On(Reserve, (*Item).reserve), actor.On(Release, (*Item).release), actor.OnQuery(Level, Item.level)),
		actor.Define(Accounts, actor.Spec[Account]{Migrations: accountTables},
			actor.On(Deposit, (*Account).deposit), actor.On(Charge, (*Account).charge), actor.On(Refund, (*Account).refund), actor.OnQuery(Balance, Account.balance)),
		actor.Define(Orders, actor.Spec[Order]{},
			actor.OnQuery(Show, Order.show), actor.OnRun(Checkout, shop{c}.checkout, workflow.WithErrorValue("no such place", errNoSuchPlace))),
	}
}

// checkout undoes its steps if one fails, or if the order is cancelled. After a crash it cannot
// tell whether the step that was under way took effect, so it undoes that step too. So Release and
// Refund need only the number of the order, and do no harm if there is nothing to undo.
//
// checkout is deterministic: it decides only by the results of named operations. After a crash it
// runs again from its first line, and the operations that had ended return the same results.
func (s shop) checkout(ctx workflow.Context, p Purchase) (Receipt, error) {
	receipt, refused := workflow.Saga(ctx, "purchase", func(ctx workflow.Context) (Receipt, error) {
		pay := Payment{p.ID, p.Cents}
		_, err := workflow.Compensated(ctx, "reserve",
			func(sc *workflow.StepCtx) (actor.None, error) {
				return Reserve.CallFrom(sc, []string{p.Article}, Reservation{p.ID, p.Count})
			},
			func(sc *workflow.StepCtx, _ actor.None) error {
				_, err := Release.CallFrom(sc, []string{p.Article}, p.ID)
				return err
			})
		if err != nil {
			return Receipt{}, err
		}
		_, err = workflow.Compensated(ctx, "charge",
			func(sc *workflow.StepCtx) (actor.None, error) { return Charge.CallFrom(sc, []string{p.Customer}, pay) },
			func(sc *workflow.StepCtx, _ actor.None) error {
				_, err := Refund.CallFrom(sc, []string{p.Customer}, pay)
				return err
			})
		if err != nil {
			return Receipt{}, err
		}
		parcel, err := workflow.Step(ctx, "ship", func(sc *workflow.StepCtx) (string, error) {
			parcel, err := s.carrier.Fetch(sc, sc.IdempotencyKey(), p.ID, p.Address)
			if errors.Is(err, errNoSuchPlace) {
				err = workflow.Permanent(err) // to try again does not help
			}
			return parcel, err
		}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 30})) // attempts cut off by the end of the process count too
		if err != nil {
			return Receipt{}, err
		}
		// Within the saga: if the order is cancelled while the parcel is fetched, this fails, and
		// the saga undoes everything.
		return Receipt{parcel}, settle(ctx, "on its way as "+parcel)
	})
	if refused != nil {
		return receipt, errors.Join(refused, settle(ctx, "refused: "+reason(refused)))
	}
	return receipt, nil
}

// settle ends an order. The note, the event and the entry of the history are one commit.
func settle(ctx workflow.Context, note string) error {
	_, err := actor.UpdateState(ctx, "settle", func(o *Order, ctx *actor.Context) (actor.None, error) {
		o.Note = note
		return actor.None{}, Settled.Emit(ctx, note)
	})
	return err
}

// reason returns the customer's message for an error. An error read back from the history has a
// registered type or value, or is a text.
func reason(err error) string {
	var e *actor.Error
	switch {
	case errors.As(err, &e):
		return e.Message
	case errors.Is(err, errNoSuchPlace):
		return errNoSuchPlace.Error()
	}
	return err.Error()
}

var errNoSuchPlace = errors.New("nobody drives to that place")

// A post is a carrier within this process. Its first call fails as busy.
type post struct {
	mu    sync.Mutex
	asked bool
	// fetched are the parcels, by reference.
	fetched map[string]string
}

func (c *post) Fetch(_ context.Context, reference, order, place string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked {
		c.asked = true
		return "", errors.New("busy, please try again")
	}
	if place == "Atlantis" {
		return "", errNoSuchPlace
	}
	if c.fetched == nil {
		c.fetched = make(map[string]string)
	}
	c.fetched[reference] = fmt.Sprintf("%s-%s", place, order)
	return c.fetched[reference], nil
}
