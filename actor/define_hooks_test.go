package actor_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

func TestValidateReportsEveryFaultOfTheNewKinds(t *testing.T) {
	typ := actor.NewType[desk]("desk")
	other := actor.NewType[desk]("other")
	actor.NewQueue[func()](typ, "unbound", actor.QueueConfig{})
	actor.NewRequestQueue[int, chan int](typ, "unbound", actor.QueueConfig{}) // same name as the queue
	mail := actor.NewQueue[job](typ, "mail", actor.QueueConfig{Workers: true})
	bad := actor.NewQueue[job](typ, "bad name", actor.QueueConfig{MaxMessages: -1, MaxBytes: -1, MaxMessageBytes: -2, Backoff: []time.Duration{-1, 31 * 24 * time.Hour}, Lock: -time.Second, DedupWindow: -1, DeadLetterRetention: -1, MaxDeadLetters: -1, ReplyRetention: -1})
	long := actor.NewQueue[job](typ, "long", actor.QueueConfig{Lock: 31 * 24 * time.Hour})
	any1 := actor.NewQueue[job](typ, "*", actor.QueueConfig{})
	any2 := actor.NewRequestQueue[job, int](typ, "*", actor.QueueConfig{})
	actor.NewSchedule[error](typ, "dusk")
	anySchedule1 := actor.NewSchedule[int](typ, "*")
	anySchedule2 := actor.NewSchedule[int](typ, "*")
	actor.NewStream[func()](typ, "cairn.log", actor.StreamConfig{MaxItems: -1, MaxBytes: -1, MaxAge: -1, MaxItemBytes: -1})
	actor.NewStream[int](typ, "*", actor.StreamConfig{})
	actor.NewStream[int](typ, "*", actor.StreamConfig{})
	first := actor.NewConnections[func(), error](typ)
	actor.NewConnections[int, int](typ)
	actor.NewEvent[int](typ, "cairn.bye", actor.EventConfig{})
	actor.NewEvent[int](typ, "*", actor.EventConfig{})
	foreign := actor.NewEvent[int](other, "foreign", actor.EventConfig{})
	heard := actor.NewEvent[int](typ, "heard", actor.EventConfig{})
	maySubscribe := func(*desk, *actor.Context, handle.ConnectionInfo) error { return nil }
	handle := func(*desk, *actor.Context, job) error { return nil }
	tick := func(*desk, *actor.Context, int) error { return nil }
	leave := func(*desk, *actor.Context, *actor.Connection[error]) error { return nil }
	var noQueue *actor.Queue[desk, job, actor.None]
	var noRequests *actor.Queue[desk, job, int]
	var noSchedule *actor.Schedule[desk, int]
	var noEvent *actor.Event[int]
	var noConnections *actor.Connections[desk, int, int]

	err := actor.Define(typ, actor.Spec[desk]{Limits: actor.Limits{
		CallRate: math.NaN(), CallBurst: -1, Connections: -1, ConnectionBytes: -1, ConnectionGrace: -1, TaskGrace: -1,
	}},
		actor.OnMessage(mail, handle), actor.OnMessage(bad, handle), actor.OnMessage(long, nil), actor.OnMessage(any1, handle),
		actor.OnRequest(any2, func(*desk, *actor.Context, job) (int, error) { return 0, nil }),
		actor.OnSchedule(anySchedule1, tick), actor.OnSchedule(anySchedule2, tick),
		actor.OnSubscribe(foreign, maySubscribe), actor.OnSubscribe(heard, maySubscribe), actor.OnSubscribe(heard, maySubscribe),
		actor.OnConnect(first, nil), actor.OnDisconnect(first, leave), actor.OnDisconnect(first, leave),
		actor.OnMessage(noQueue, handle), actor.OnRequest(noRequests, nil), actor.OnSchedule(noSchedule, tick),
		actor.OnSubscribe(noEvent, maySubscribe), actor.OnConnect(noConnections, nil), actor.OnDisconnect(noConnections, nil),
	).Validate()
	if err == nil {
		t.Fatal("the definition was accepted")
	}
	for _, want := range []string{
		`queue "unbound": is declared but not bound: pass actor.OnMessage(...) to actor.Define, or set QueueConfig.Workers`,
		`queue "unbound": body a func cannot be encoded`,
		`queue "unbound": there is also queue "unbound"; names must differ`,
		`queue "unbound": is declared but not bound: pass actor.OnRequest(`,
		`queue "unbound": reply a chan cannot be encoded`,
		`queue "mail": is received by workers (QueueConfig.Workers) and cannot be bound, to `,
		`queue "bad name": a name is a letter`,
		`queue "bad name": QueueConfig.MaxMessages is negative`,
		`queue "bad name": QueueConfig.MaxBytes is negative`,
		`queue "bad name": QueueConfig.MaxMessageBytes is negative`,
		`queue "bad name": QueueConfig.Backoff[0] is -1ns; a pause is 0 to 720h0m0s`,
		`queue "bad name": QueueConfig.Backoff[1] is 744h0m0s`,
		`queue "bad name": QueueConfig.Lock is negative`,
		`queue "bad name": QueueConfig.DedupWindow is negative`,
		`queue "bad name": QueueConfig.DeadLetterRetention is negative`,
		`queue "bad name": QueueConfig.MaxDeadLetters is negative`,
		`queue "bad name": QueueConfig.ReplyRetention is negative`,
		`queue "long": QueueConfig.Lock is 744h0m0s; it is at most 720h0m0s`,
		`queue "long": is bound to a nil handler`,
		`queue "*": there is also queue "*"`,
		`schedule "dusk": is declared but not bound: pass actor.OnSchedule(...) to actor.Define` + "\n",
		`schedule "dusk": payload an interface with methods does not decode`,
		`schedule "*": there is also schedule "*"`,
		`stream "cairn.log": a name is a letter`,
		`stream "cairn.log": StreamConfig.MaxItems is negative`,
		`stream "cairn.log": StreamConfig.MaxBytes is negative`,
		`stream "cairn.log": StreamConfig.MaxAge is negative`,
		`stream "cairn.log": StreamConfig.MaxItemBytes is negative`,
		`stream "cairn.log": item a func cannot be encoded`,
		`stream "*": there is also stream "*"`,
		`connections: parameters a func cannot be encoded`,
		`connections: state an interface with methods`,
		`connections: are declared twice; a type has one NewConnections`,
		`connections: is bound to a nil handler`,
		`connections: is bound twice, to `,
		`event "cairn.bye": a name is a letter`,
		`event "*": a name is a letter`,
		`event "foreign": is declared on another Type value, "other"`,
		`event "heard": is bound twice, to `,
		`binding 14 is of a nil contract value`,
		`binding 19 is of a nil contract value`,
		`Spec.Limits.CallRate: is NaN`,
		`Spec.Limits.CallBurst: is negative`,
		`Spec.Limits.Connections: is negative`,
		`Spec.Limits.ConnectionBytes: is negative`,
		`Spec.Limits.ConnectionGrace: is negative`,
		`Spec.Limits.TaskGrace: is negative`,
	} {
		if !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("missing: %s", want)
		}
	}
	var fault *actor.ContractError
	if !errors.As(err, &fault) || fault.Type != "desk" {
		t.Errorf("faults are not ContractErrors: %v", err)
	}
	burst := actor.Define(actor.NewType[desk]("x"), actor.Spec[desk]{Limits: actor.Limits{CallBurst: 5}}).Validate()
	if burst == nil || !strings.Contains(burst.Error(), "Spec.Limits.CallBurst: has no effect") {
		t.Error(burst)
	}
}

func TestNewContractsOfANilTypeAreFaultsNotPanics(t *testing.T) {
	var typ *actor.Type[desk]
	queue := actor.NewQueue[job](typ, "q", actor.QueueConfig{})
	requests := actor.NewRequestQueue[job, int](typ, "r", actor.QueueConfig{})
	schedule := actor.NewSchedule[int](typ, "s")
	stream := actor.NewStream[int](typ, "t", actor.StreamConfig{})
	clients := actor.NewConnections[int, int](typ)
	good := actor.NewType[desk]("desk")
	n := mustNode(t, actor.Define(good, actor.Spec[desk]{}))
	if err := actor.Define(good, actor.Spec[desk]{},
		actor.OnMessage(queue, func(*desk, *actor.Context, job) error { return nil }),
		actor.OnConnect(clients, func(*desk, *actor.Context, *actor.Connection[int], int) error { return nil }),
	).Validate(); err == nil {
		t.Error("contracts of a nil Type were accepted")
	}
	ref := good.Ref(n, "a")
	for name, err := range map[string]error{
		"send":   second(queue.Of(ref).Send(t.Context(), job{})),
		"ask":    second(requests.Of(ref).Ask(t.Context(), job{})),
		"set":    second(schedule.Of(ref).Set(t.Context(), actor.Rule{Every: time.Hour}, 1)),
		"read":   second(stream.Of(ref).Read(t.Context(), handle.Position{}, handle.ReadConfig{})),
		"append": second(stream.Of(ref).Append(t.Context(), 1)),
		"close":  second(clients.Of(ref).Close(t.Context(), "c", "")),
	} {
		if actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHooksAreNamedInTheBehavior(t *testing.T) {
	d := newDesks("desk")
	b := d.definition().Behavior()
	if b.Connections.Connect == "" || b.Connections.Disconnect == "" {
		t.Errorf("%+v", b.Connections)
	}
	for _, e := range b.Events {
		if (e.Subscribe != "") != (e.Name == "said") {
			t.Errorf("%+v", e)
		}
	}
	for _, q := range b.Queues {
		if (q.Handler == "") != (q.Name == "mail" || q.Name == "quotes") {
			t.Errorf("%+v", q)
		}
	}
	if len(b.Schedules) != 2 || b.Schedules[0].Handler == "" || b.Schedules[1].Name != host.AnyName {
		t.Errorf("%+v", b.Schedules)
	}
	if b = newProbes("probe").definition().Behavior(); b.Connections != (host.ConnectionMethods{}) {
		t.Errorf("%+v", b.Connections)
	}
}

func TestUnknownHookNumbersAreRefused(t *testing.T) {
	d := newDesks("desk")
	b := d.definition().Behavior()
	i := b.New()
	workers := find(b.Queues, "mail", queueName)
	for _, number := range []int{-1, 99, workers} {
		if _, err := i.Message(&fakeTurn{}, number, &host.Received{}, nil); actor.CodeOf(err) != actor.UnknownMethod {
			t.Errorf("queue %d: %v", number, err)
		}
	}
	for _, number := range []int{-1, 99} {
		if err := i.Schedule(&fakeTurn{}, number, &host.Tick{}, nil); actor.CodeOf(err) != actor.UnknownMethod {
			t.Errorf("schedule %d: %v", number, err)
		}
		if err := i.Subscribe(&fakeTurn{}, number, &host.ConnectionState{}); actor.CodeOf(err) != actor.UnknownMethod {
			t.Errorf("event %d: %v", number, err)
		}
	}
	if err := i.Schedule(&fakeTurn{}, 0, &host.Tick{}, []byte("\x61x")); actor.CodeOf(err) != actor.Internal {
		t.Errorf("a payload of another type: %v", err)
	}
	out, err := i.Message(&fakeTurn{}, 0, &host.Received{Body: []byte("\x01")}, []byte("kept"))
	if actor.CodeOf(err) != actor.Internal || string(out) != "kept" {
		t.Errorf("a body of another type: %q, %v", out, err)
	}
}
