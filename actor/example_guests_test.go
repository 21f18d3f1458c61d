package actor_test

import (
	"context"
	"fmt"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// A bar seats guests. It keeps their names, not their passwords.
var (
	bars   = actor.NewType[bar]("bar")
	order  = actor.NewAction[string, int](bars, "order")
	evict  = actor.NewAction[actor.None, actor.None](bars, "evict")
	who    = actor.NewQuery[actor.None, string](bars, "who")
	guests = actor.NewConnections[ticket, guest](bars)
	news   = actor.NewEvent[string](bars, "news", actor.EventConfig{Durable: true})
)

type (
	bar    struct{ Last string }
	ticket struct{ Name, Password string }
	guest  struct {
		Name   string
		Drinks int
	}
)

func (*bar) enter(_ *actor.Context, c *actor.Connection[guest], t ticket) error {
	c.State.Name = t.Name
	return c.ForgetParams()
}

func (b *bar) order(ctx *actor.Context, drink string) (int, error) {
	c, ok, err := guests.Caller(ctx) // the connection that the call came over
	if err != nil || !ok {
		return 0, actor.Errorf(actor.PermissionDenied, "guests only")
	}
	c.State.Drinks++
	c.Save(ctx)
	news.EmitTo(ctx, c.ID, "here is your "+drink)
	news.EmitExcept(ctx, c.State.Name+" has "+drink, ctx.Caller())
	return c.State.Drinks, nil
}

func (*bar) evict(ctx *actor.Context, _ actor.None) (actor.None, error) {
	for c, err := range guests.All(ctx) {
		if err != nil {
			return actor.None{}, err
		}
		c.Close(ctx, actor.Errorf(actor.PermissionDenied, "we close"))
	}
	return actor.None{}, nil
}

func (b *bar) leave(ctx *actor.Context, c *actor.Connection[guest]) error {
	b.Last = fmt.Sprint(c.State.Name, " left: ", ctx.DisconnectCause())
	return nil
}

func (b bar) who(ctx *actor.ReadContext, _ actor.None) (string, error) {
	c, ok, err := guests.Get(ctx, ctx.Caller())
	if err != nil || !ok {
		return b.Last, err
	}
	params, err := guests.Params(c)
	return fmt.Sprintf("%s, %s, %d drink, password %q", c.State.Name, c.Transport, c.State.Drinks, params.Password), err
}

func Example_guests() {
	node, stop := open(actor.Define(bars, actor.Spec[bar]{}, actor.On(order, (*bar).order), actor.On(evict, (*bar).evict),
		actor.OnQuery(who, bar.who), actor.OnConnect(guests, (*bar).enter), actor.OnDisconnect(guests, (*bar).leave)))
	defer stop()
	ctx, at := context.Background(), host.Address{Type: "bar", Key: []string{"blue"}}
	// A client connects over a WebSocket or server-sent events; this is what the gateway does for
	// it.
	connect := func(name string) host.LiveConnection {
		return must(node.Connect(ctx, at, host.ConnectRequest{
			Params: []byte(`{"Name":"` + name + `","Password":"secret"}`), Events: []string{"news"}, Transport: "go",
		}))
	}
	ada, bob := connect("Ada"), connect("Bob")
	fmt.Printf("%s\n", must(ada.Call(ctx, &host.Request{Address: at, Method: "order", Codec: host.JSON, Input: []byte(`"tea"`)})).Output)
	fmt.Printf("%s\n", must(ada.Call(ctx, &host.Request{Address: at, Method: "who", Codec: host.JSON})).Output)
	for _, c := range []host.LiveConnection{ada, bob} {
		fmt.Println(must(news.Decode(must(c.Next(ctx)).Events[0].Data)))
	}
	blue := bars.Ref(node, "blue")
	fmt.Println(must(guests.Of(blue).Close(ctx, bob.Welcome().Connection, "lights out")))
	fmt.Println(must(who.Call(ctx, blue, actor.None{})))
	must(evict.Call(ctx, blue, actor.None{}))
	fmt.Println(must(who.Call(ctx, blue, actor.None{})))
	// Output:
	// 1
	// "Ada, go, 1 drink, password \"\""
	// here is your tea
	// Ada has tea
	// true
	// Bob left: failed_precondition: lights out
	// Ada left: permission_denied: we close
}
