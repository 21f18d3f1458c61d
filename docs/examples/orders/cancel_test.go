package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// However early or late an order is cancelled, and whenever the power fails, the customer has not
// paid for it, and its articles are on the shelf again.
func TestCancelledOrdersAreNotPaid(t *testing.T) {
	for _, cuts := range []bool{false, true} {
		config := actortest.Config{UnsyncedPercent: 50}
		config.Run(t, func(t *testing.T, h *actortest.Harness) {
			cancelAtRandom(t, h, cuts)
		}, definitions(new(post))...)
	}
}

func cancelAtRandom(t *testing.T, h *actortest.Harness, cuts bool) {
	ctx := t.Context()
	const orders, cents = 30, 100
	if _, err := Stock.Call(ctx, Items.Ref(h, "cup"), orders); err != nil {
		t.Fatal(err)
	}
	if _, err := Deposit.Call(ctx, Accounts.Ref(h, "eve"), orders*cents); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	done := 0
	for i := range orders {
		p := Purchase{ID: fmt.Sprint("c", i), Article: "cup", Count: 1, Customer: "eve", Cents: cents, Address: "Berne"}
		order := Orders.Ref(h, p.ID)
		if _, err := Checkout.Of(order).Start(ctx, p); err != nil {
			t.Fatal(err)
		}
		wait := func(n int) {
			for range random.IntN(n) { // the order goes on meanwhile
				if _, err := Show.Call(ctx, order, actor.None{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		wait(30)
		if cuts && random.IntN(3) == 0 {
			h.Crash()
		}
		if err := Checkout.Of(order).Cancel(ctx, "changed my mind"); err != nil && actor.CodeOf(err) != actor.FailedPrecondition {
			t.Fatal(err)
		}
		if wait(10); cuts && random.IntN(3) == 0 {
			h.Crash()
		}
		_, _ = Checkout.Of(order).Result(ctx)
		status, err := Checkout.Of(order).Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if status.Undo != 0 {
			t.Errorf("order %s is %s and owes %d", p.ID, status.State, status.Undo)
		}
		if status.State == wfhost.StateCompleted {
			done++
		}
	}
	left, err := Level.Call(ctx, Items.Ref(h, "cup"), actor.None{})
	if err != nil || left != orders-done {
		t.Errorf("%d cups left after %d of %d orders: %v", left, done, orders, err)
	}
	balance, err := Balance.Call(ctx, Accounts.Ref(h, "eve"), actor.None{})
	if err != nil || balance != (orders-done)*cents {
		t.Errorf("%d left of %d after %d orders of %d: %v", balance, orders*cents, done, cents, err)
	}
}
