package handle_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
)

// Workers carry the letters of an office.
var (
	offices = actor.NewType[office]("office")
	letters = actor.NewQueue[string](offices, "letters", actor.QueueConfig{Workers: true, Backoff: []time.Duration{time.Hour}})
	ping    = actor.NewAction[actor.None, actor.None](offices, "ping")
	refuse  = actor.NewAction[actor.None, actor.None](offices, "refuse")
)

type office struct{}

func (*office) ping(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, refuse.Send(ctx, offices.Ref(ctx, "other"), actor.None{})
}

func (*office) refuse(*actor.Context, actor.None) (actor.None, error) {
	return actor.None{}, actor.Errorf(actor.FailedPrecondition, "not today")
}

func ExampleQueue() {
	node, stop := open(actor.Define(offices, actor.Spec[office]{Limits: actor.Limits{SendAttempts: 1}},
		actor.On(ping, (*office).ping), actor.On(refuse, (*office).refuse)))
	defer stop()
	ctx, zurich := context.Background(), offices.Ref(node, "zurich")
	queue := letters.Of(zurich)

	sent := must(queue.SendAll(ctx, []string{"a", "b", "c", "d", "e"}))
	fmt.Println(len(sent), "sent")
	for i, d := range must(queue.Receive(ctx, handle.ReceiveConfig{Max: 4, Lock: time.Minute})) {
		until := d.LockedUntil()
		fmt.Println(d.Body, d.Extend(ctx, time.Hour), d.LockedUntil().After(until))
		switch i {
		case 0:
			fmt.Println(d.Ack(ctx, actor.None{}))
		case 1:
			fmt.Println(d.Nack(ctx, errors.New("nobody at home"))) // again after the queue's pause
		case 2:
			fmt.Println(d.RetryAfter(ctx, time.Hour, errors.New("closed until noon")))
		case 3:
			fmt.Println(d.GiveUp(ctx, errors.New("no such street")))
			fmt.Println(actor.CodeOf(d.Ack(ctx, actor.None{}))) // it is settled
		}
	}

	// What an operator does.
	for m, err := range queue.Peek(ctx) {
		fmt.Println(m.Body, m.State, m.Error, err)
	}
	ctx = handle.WithReason(ctx, "the address is wrong") // for the audit log
	fmt.Println(must(queue.Skip(ctx)), "skipped")
	dead := queue.DeadLetters()
	for m, err := range dead.List(ctx) {
		fmt.Println(m.Body, m.State, m.Error, err)
	}
	fmt.Println(must(dead.Requeue(ctx, sent[3].ID)), must(dead.RequeueAll(ctx)), "again")
	fmt.Println(must(queue.Delete(ctx, sent[1].ID)), must(queue.Purge(ctx)), must(dead.Delete(ctx, sent[0].ID)), "removed")
	fmt.Println(must(queue.Stats(ctx)).Done, "done")

	// A message to another actor that failed is kept by its sender.
	must(ping.Call(ctx, zurich, actor.None{}))
	for {
		for m, err := range zurich.DeadLetters().List(ctx) {
			fmt.Println(m.Type, m.Key, m.Method, m.Error, err)
			return
		}
	}
	// Output:
	// 5 sent
	// a <nil> true
	// <nil>
	// b <nil> true
	// <nil>
	// c <nil> true
	// <nil>
	// d <nil> true
	// <nil>
	// failed_precondition
	// b delayed nobody at home <nil>
	// c delayed closed until noon <nil>
	// e pending  <nil>
	// 1 skipped
	// d dead no such street <nil>
	// e dead skipped by an operator <nil>
	// 1 1 again
	// 1 3 0 removed
	// 1 done
	// office [other] refuse not today <nil>
}
