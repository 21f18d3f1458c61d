package guides_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
)

var (
	Shops  = actor.NewType[Shop]("shop")
	Order  = actor.NewAction[string, actor.None](Shops, "order")
	Orders = actor.NewQueue[string](Shops, "orders", actor.QueueConfig{})
	Mail   = actor.NewQueue[string](Shops, "mail", actor.QueueConfig{Workers: true, Lock: time.Minute})
	Price  = actor.NewRequestQueue[string, int](Shops, "price", actor.QueueConfig{})
)

type Shop struct{ Packed []string }

func (s *Shop) order(ctx *actor.Context, article string) (actor.None, error) {
	_, err := Orders.Put(ctx, article, actor.Delay(time.Second)) // a part of this turn's commit
	return actor.None{}, err
}

func (s *Shop) pack(ctx *actor.Context, article string) error {
	if article == "" {
		return errors.New("an order without an article")
	}
	s.Packed = append(s.Packed, article)
	_, err := Mail.Put(ctx, "packed: "+article)
	return err // the state, the mail and the end of the message are one commit
}

func (s *Shop) price(_ *actor.Context, article string) (int, error) { return 100 * len(article), nil }

func shop() actor.Definition {
	return actor.Define(Shops, actor.Spec[Shop]{},
		actor.On(Order, (*Shop).order),
		actor.OnMessage(Orders, (*Shop).pack),
		actor.OnRequest(Price, (*Shop).price),
	)
}

func TestQueues(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		acme := Shops.Ref(h, "acme")
		var mu sync.Mutex
		var delivered []string
		deliver := func(_ context.Context, letter string) error {
			mu.Lock()
			defer mu.Unlock()
			delivered = append(delivered, letter)
			if len(delivered) == 3 {
				stop()
			}
			return nil
		}

		if _, err := Order.Call(ctx, acme, "kettle"); err != nil {
			t.Fatal(err)
		}
		_, err := Orders.Of(acme).Send(ctx, "teapot", actor.DedupID("order-4711")) // durable when it returns
		if err != nil {
			t.Fatal(err)
		}
		if sent, err := Orders.Of(acme).Send(ctx, "teapot", actor.DedupID("order-4711")); err != nil || !sent.Duplicate {
			t.Errorf("%+v %v", sent, err)
		}
		cents, err := Price.Of(acme).Ask(ctx, "teapot") // waits for the reply
		if err != nil || cents != 600 {
			t.Errorf("%d %v", cents, err)
		}
		if _, err := Orders.Of(acme).Send(ctx, "", actor.Backoff()); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		for letter, err := range Orders.Of(acme).DeadLetters().List(ctx) {
			if err != nil || letter.Body != "" || letter.Error == "" {
				t.Errorf("%+v %v", letter, err)
			}
		}
		n, err := Orders.Of(acme).DeadLetters().RequeueAll(ctx)
		if err != nil || n != 1 {
			t.Errorf("%d %v", n, err)
		}
		if _, err := Order.Call(ctx, acme, "cup"); err != nil {
			t.Fatal(err)
		}
		h.Crash()

		err = Mail.Of(acme).Work(ctx, handle.WorkConfig{Workers: 4}, func(ctx context.Context, d *handle.Delivery[string, actor.None]) (actor.None, error) {
			return actor.None{}, deliver(ctx, d.Body) // its lock is extended meanwhile
		})
		if err != nil {
			t.Error(err)
		}
		slices.Sort(delivered)
		if want := []string{"packed: cup", "packed: kettle", "packed: teapot"}; !slices.Equal(delivered, want) {
			t.Errorf("delivered is %q", delivered)
		}
	}, shop())
}
