// Orders is a small shop whose orders are workflows: each reserves an article, charges the customer
// and hands the parcel to a carrier. Articles and accounts are other actors, and the carrier is
// another company, so their changes cannot be one commit. So each step declares how to undo it. If
// a later step fails, or the order is cancelled, the earlier steps are undone in reverse order: a
// saga.
//
//	go run ./docs/examples/orders
//
// places four orders and prints their results. Kill it at any moment, and run it again: it
// continues, charges no customer twice and prints the same. A run starts with its order as input,
// so placing an order again finds the existing run.
//
// shop.go has the actors and order.go the workflow.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

func main() {
	dir := flag.String("data", "data/orders", "`directory` of the data")
	flag.Parse()
	if err := open(context.Background(), *dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func open(ctx context.Context, dir string, out io.Writer) error {
	rt, err := runtime.Open(ctx, runtime.Options{Dir: dir, Actors: definitions(new(post))})
	if err != nil {
		return err
	}
	defer rt.Close()
	return run(ctx, rt, out)
}

// orders are the orders that run places.
var orders = []Purchase{
	{ID: "1001", Article: "teapot", Count: 2, Customer: "ann", Cents: 4800, Address: "Zurich"},
	{ID: "1002", Article: "teapot", Count: 9, Customer: "ben", Cents: 21600, Address: "Basel"},
	{ID: "1003", Article: "teapot", Count: 1, Customer: "ann", Cents: 2400, Address: "Atlantis"},
	{ID: "1004", Article: "teapot", Count: 1, Customer: "cid", Cents: 2400, Address: "Berne"},
}

// run stocks the shop, places the orders one after the other and prints their results.
func run(ctx context.Context, node actor.Node, out io.Writer) error {
	if _, err := Stock.Call(ctx, Items.Ref(node, "teapot"), 5); err != nil {
		return err
	}
	for customer, cents := range map[string]int{"ann": 10_000, "ben": 50_000, "cid": 1000} {
		if _, err := Deposit.Call(ctx, Accounts.Ref(node, customer), cents); err != nil {
			return err
		}
	}
	for _, p := range orders {
		order := Orders.Ref(node, p.ID)
		if _, err := Checkout.Of(order).Start(ctx, p); err != nil {
			return err
		}
		// An order that is refused is a run that failed, and its error is the reason.
		if _, err := Checkout.Of(order).Result(ctx); err != nil && ctx.Err() != nil {
			return err
		}
		if err := tell(ctx, order, p, out); err != nil {
			return err
		}
	}
	left, err := Level.Call(ctx, Items.Ref(node, "teapot"), actor.None{})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "teapots in stock: %d\n", left)
	for _, customer := range []string{"ann", "ben", "cid"} {
		cents, err := Balance.Call(ctx, Accounts.Ref(node, customer), actor.None{})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s has %d.%02d\n", customer, cents/100, cents%100)
	}
	return nil
}

// tell prints an order and the history of its run.
func tell(ctx context.Context, order actor.Ref[Order], p Purchase, out io.Writer) error {
	o, err := Show.Call(ctx, order, actor.None{})
	if err != nil {
		return err
	}
	status, err := Checkout.Of(order).Status(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "order %s (%s): %s\n", p.ID, status.State, o.Note)
	for e, err := range Checkout.Of(order).History(ctx) {
		switch {
		case err != nil:
			return err
		case e.Kind != workflow.KindStep:
		case !e.Undone.IsZero():
			fmt.Fprintf(out, "  %s: undone\n", e.Path)
		default:
			fmt.Fprintf(out, "  %s: %s\n", e.Path, e.Status)
		}
	}
	return nil
}
