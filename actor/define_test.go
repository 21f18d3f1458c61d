package actor_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

type counter struct{ N int }

func (c *counter) add(_ *actor.Context, n int) (int, error) { c.N += n; return c.N, nil }

func (c counter) get(*actor.ReadContext, actor.None) (int, error) { return c.N, nil }

func (c *counter) ring(*actor.Context, string) error { c.N++; return nil }

func (c *counter) open(_ *actor.Context, n int) error { c.N = n; return nil }

func (c *counter) maySubscribe(*actor.Context, handle.ConnectionInfo) error { return nil }

func (c *counter) leave(*actor.Context, *actor.Connection[actor.None]) error { return nil }

func TestValidateReportsEveryFaultAtOnce(t *testing.T) {
	//lint:ignore U1000 Validate must find it
	type hidden struct{ mu sync.Mutex }
	type state struct {
		Lock    sync.Mutex
		Hidden  hidden
		F       func()
		Ch      chan int
		Err     error
		Skipped func() `cbor:"-"`
	}
	typ := actor.NewType[state]("9lives")
	other := actor.NewType[state]("other")
	bound := actor.NewAction[int, int](typ, "twice")
	foreign := actor.NewAction[int, int](other, "foreign")
	nilHandler := actor.NewAction[int, int](typ, "nil")
	actor.NewAction[func(), map[struct{ A int }]int](typ, "unbound")
	actor.NewQuery[int, int](typ, "unbound") // same name as the action
	actor.NewQuery[int, int](typ, "bad name")
	actor.NewAlarm[int](typ, "forgotten")
	actor.NewCreate[int](typ)
	actor.NewEvent[int](typ, "", actor.EventConfig{})
	actor.NewEvent[int](typ, "unbound", actor.EventConfig{}) // events have names of their own
	actor.NewMap[struct{ A int }, int](typ, "structs", actor.MapConfig{})
	h := func(*state, *actor.Context, int) (int, error) { return 0, nil }
	var none *actor.Query[state, int, int]

	def := actor.Define(typ, actor.Spec[state]{
		Migrate: func(*state, actor.Stored) error { return nil },
		Limits:  actor.Limits{ValueBytes: 16<<20 + 1},
	},
		actor.On(bound, h), actor.On(bound, h), actor.On(foreign, h), actor.On(nilHandler, nil), actor.OnQuery(none, nil))
	err := hasFaults(t, "9lives", def,
		`actor type "9lives": a name is a letter, then`,
		`action "twice": is bound twice, to `,
		`action "foreign": is declared on another Type value, "other"`,
		`action "nil": is bound to a nil handler`,
		`binding 5 is of a nil contract value`,
		`action "unbound": is declared but not bound: pass actor.On(`,
		`action "unbound": input a func cannot be encoded`,
		`action "unbound": output a map's keys must be strings or integers`,
		`query "unbound": there is also action "unbound"`,
		`query "unbound": is declared but not bound: pass actor.OnQuery(`,
		`query "bad name": a name is a letter`,
		`alarm "forgotten": is declared but not bound: pass actor.OnAlarm(`,
		`creation "create": is declared but not bound: pass actor.OnCreate(`,
		`event "": a name has 1 to 64 characters`,
		`map "structs": a key cannot be a struct: use a string`,
		`state: Lock: nothing of it would be saved`,
		`state: Hidden: nothing of it would be saved`,
		`state: F: a func cannot be encoded`,
		`state: Ch: a chan cannot be encoded`,
		`state: Err: an interface with methods does not decode`,
		`Spec.Migrate: is never called while Spec.Version is 0`,
		`Spec.Limits.ValueBytes: is 16777217`,
	)
	allowed := strings.Contains(err.Error(), "Skipped") || strings.Contains(err.Error(), `event "unbound"`)
	errorIf(t, allowed, "refused what is allowed:\n%s", err)
}

// hasFaults checks that Validate reports each of these faults of a type.
func hasFaults(t *testing.T, typ string, def actor.Definition, want ...string) error {
	t.Helper()
	err := def.Validate()
	fatalIf(t, err == nil || def.Behavior() != nil, "the definition was accepted")
	for _, want := range want {
		errorIf(t, !strings.Contains(err.Error()+"\n", want), "missing: %s", want)
	}
	fault, is := errors.AsType[*actor.ContractError](err)
	errorIf(t, !is || fault.Type != typ, "faults are not ContractErrors: %v", err)
	return err
}

func TestValidateReportsEveryFaultOfQueuesToLimits(t *testing.T) {
	typ := actor.NewType[desk]("desk")
	other := actor.NewType[desk]("other")
	actor.NewQueue[func()](typ, "unbound", actor.QueueConfig{})
	actor.NewRequestQueue[int, chan int](typ, "unbound", actor.QueueConfig{}) // same name as the queue
	mail := actor.NewQueue[job](typ, "mail", actor.QueueConfig{Workers: true})
	bad := actor.NewQueue[job](typ, "bad name", actor.QueueConfig{
		MaxMessages: -1, MaxBytes: -1, MaxMessageBytes: -2, Backoff: []time.Duration{-1, 31 * 24 * time.Hour}, Lock: -time.Second,
		DedupWindow: -1, DeadLetterRetention: -1, MaxDeadLetters: -1, ReplyRetention: -1,
	})
	long := actor.NewQueue[job](typ, "long", actor.QueueConfig{Lock: 31 * 24 * time.Hour, MaxBytes: 8, MaxMessageBytes: 9})
	actor.NewStream[int](typ, "small", actor.StreamConfig{MaxBytes: 8, MaxItemBytes: 9})
	any1 := actor.NewQueue[job](typ, "*", actor.QueueConfig{})
	any2 := actor.NewRequestQueue[job, int](typ, "*", actor.QueueConfig{})
	actor.NewSchedule[error](typ, "dusk")
	anySchedule1 := actor.NewSchedule[int](typ, "*")
	anySchedule2 := actor.NewSchedule[int](typ, "*")
	actor.NewMap[int, int](typ, "bad map",
		actor.MapConfig{MaxKeys: -1, MaxBytes: -1, DefaultTTL: -1, LogEvents: -1, LogBytes: -1, LogFor: -1})
	plain := actor.NewMap[int, int](typ, "plain", actor.MapConfig{LogEvents: 1})
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

	def := actor.Define(typ, actor.Spec[desk]{Limits: actor.Limits{
		CallRate: math.NaN(), TurnTimeout: -1, QueryTimeout: -1, CallBurst: -1, Connections: -1, ConnectionBytes: -1, ConnectionGrace: -1, TaskGrace: -1,
	}},
		actor.OnMessage(mail, handle), actor.OnMessage(bad, handle), actor.OnMessage(long, nil), actor.OnMessage(any1, handle),
		actor.OnRequest(any2, func(*desk, *actor.Context, job) (int, error) { return 0, nil }),
		actor.OnSchedule(anySchedule1, tick), actor.OnSchedule(anySchedule2, tick),
		actor.OnSubscribe(foreign, maySubscribe), actor.OnSubscribe(heard, maySubscribe), actor.OnSubscribe(heard, maySubscribe),
		actor.OnConnect(first, nil), actor.OnDisconnect(first, leave), actor.OnDisconnect(first, leave),
		actor.OnChange(plain, func(*desk, *actor.Context, actor.MapChange[int, int]) error { return nil }),
		actor.OnMessage(noQueue, handle), actor.OnRequest(noRequests, nil), actor.OnSchedule(noSchedule, tick),
		actor.OnSubscribe(noEvent, maySubscribe), actor.OnConnect(noConnections, nil), actor.OnDisconnect(noConnections, nil),
	)
	hasFaults(t, "desk", def,
		`queue "unbound": is declared but not bound: pass actor.OnMessage(...) to actor.Define, or set QueueConfig.Workers`,
		`queue "unbound": body a func cannot be encoded`,
		`queue "unbound": there is also queue "unbound"; names must differ`,
		`queue "unbound": is declared but not bound: pass actor.OnRequest(`,
		`queue "unbound": reply a chan cannot be encoded`,
		`queue "mail": is received by workers (QueueConfig.Workers) and cannot be bound, to `,
		`queue "bad name": a name is a letter`,
		`queue "bad name": QueueConfig.Backoff[0] is -1ns; a pause is 0 to 720h0m0s`,
		`queue "bad name": QueueConfig.Backoff[1] is 744h0m0s`,
		`queue "long": QueueConfig.Lock is 744h0m0s; it is 1ms to 720h0m0s`, `queue "long": QueueConfig.MaxMessageBytes is 9, more than MaxBytes`,
		`stream "small": StreamConfig.MaxItemBytes is 9, more than MaxBytes`,
		`queue "long": is bound to a nil handler`,
		`queue "*": there is also queue "*"`,
		`schedule "dusk": is declared but not bound: pass actor.OnSchedule(...) to actor.Define`+"\n",
		`schedule "dusk": payload an interface with methods does not decode`,
		`schedule "*": there is also schedule "*"`,
		`stream "cairn.log": a name is a letter`,
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
		`binding 15 is of a nil contract value`,
		`binding 20 is of a nil contract value`,
		`map "plain": MapConfig.LogEvents, LogBytes and LogFor are of a map with Log`,
		`map "plain": has no log (MapConfig.Log), so its changes cannot be bound, to `,
		`Spec.Limits.CallRate: is NaN`,
	)
	for format, fields := range map[string]string{
		`queue "bad name": QueueConfig.%s is negative`: "MaxMessages MaxBytes MaxMessageBytes Lock DedupWindow DeadLetterRetention MaxDeadLetters ReplyRetention",
		`stream "cairn.log": StreamConfig.%s is neg`:   "MaxItems MaxBytes MaxAge MaxItemBytes",
		`map "bad map": MapConfig.%s is negative`:      "MaxKeys MaxBytes DefaultTTL LogEvents LogBytes LogFor",
		`Spec.Limits.%s: is negative`:                  "TurnTimeout QueryTimeout CallBurst Connections ConnectionBytes ConnectionGrace TaskGrace",
	} {
		for field := range strings.FieldsSeq(fields) {
			hasFaults(t, "desk", def, fmt.Sprintf(format, field))
		}
	}
	burst := actor.Define(actor.NewType[desk]("x"), actor.Spec[desk]{Limits: actor.Limits{CallBurst: 5}})
	hasFaults(t, "x", burst, "Spec.Limits.CallBurst: has no effect")
}

func TestContractOfANilTypeIsAFaultNotAPanic(t *testing.T) {
	var typ *actor.Type[desk]
	act := actor.NewAction[int, int](typ, "add")
	actor.NewEvent[int](typ, "e", actor.EventConfig{})
	actor.NewMap[int, int](typ, "m", actor.MapConfig{})
	queue := actor.NewQueue[job](typ, "q", actor.QueueConfig{})
	requests := actor.NewRequestQueue[job, int](typ, "r", actor.QueueConfig{})
	schedule := actor.NewSchedule[int](typ, "s")
	stream := actor.NewStream[int](typ, "t", actor.StreamConfig{})
	clients := actor.NewConnections[int, int](typ)
	good := actor.NewType[desk]("desk")
	for name, def := range map[string]actor.Definition{
		"no type": actor.Define(typ, actor.Spec[desk]{}), "zero": {},
		"action": actor.Define(good, actor.Spec[desk]{}, actor.On(act, func(*desk, *actor.Context, int) (int, error) { return 0, nil })),
		"queue":  actor.Define(good, actor.Spec[desk]{}, actor.OnMessage(queue, func(*desk, *actor.Context, job) error { return nil })),
	} {
		errorIf(t, def.Validate() == nil, "%s: it was accepted", name)
	}
	ref := good.Ref(&replies{}, "a")
	for name, err := range map[string]error{
		"send":   second(queue.Of(ref).Send(t.Context(), job{})),
		"ask":    second(requests.Of(ref).Ask(t.Context(), job{})),
		"set":    second(schedule.Of(ref).Set(t.Context(), actor.Rule{Every: time.Hour}, 1)),
		"read":   second(stream.Of(ref).Read(t.Context(), handle.Position{}, handle.ReadConfig{})),
		"append": second(stream.Of(ref).Append(t.Context(), 1)),
		"close":  second(clients.Of(ref).Close(t.Context(), "c", "")),
	} {
		hasCode(t, name, err, actor.InvalidArgument)
	}
}

func TestBehaviorHasWhatIsDeclared(t *testing.T) {
	typ := actor.NewType[counter]("counter")
	var (
		get     = actor.NewQuery[actor.None, int](typ, "get")
		add     = actor.NewAction[int, int](typ, "add")
		create  = actor.NewCreate[int](typ)
		ring    = actor.NewAlarm[string](typ, "ring")
		first   = actor.NewEvent[int](typ, "first", actor.EventConfig{})
		nightly = actor.NewSchedule[string](typ, "*")
		clients = actor.NewConnections[actor.None, actor.None](typ)
		jobs    = actor.NewQueue[string](typ, "jobs", actor.QueueConfig{
			MaxMessages: 1, MaxBytes: 3, MaxMessageBytes: 2, Backoff: []time.Duration{4,
				5}, Lock: time.Second, DedupWindow: 7, DeadLetterRetention: 8,
			MaxDeadLetters: 9, ReplyRetention: 10,
		})
	)
	actor.NewEvent[int](typ, "second", actor.EventConfig{Durable: true})
	actor.NewRequestQueue[job, int](typ, "once", actor.QueueConfig{Workers: true, Backoff: []time.Duration{}})
	actor.NewStream[job](typ, "s", actor.StreamConfig{MaxItems: 1, MaxBytes: 4, MaxAge: 3, MaxItemBytes: 2, External: true})
	def := actor.Define(typ, actor.Spec[counter]{
		Version: 3, IdleTimeout: time.Second, Limits: actor.Limits{StateBytes: 9}, OnSleep: func(*counter, *actor.Context) error { return nil },
	},
		actor.OnAlarm(ring, (*counter).ring), actor.OnCreate(create, (*counter).open), actor.On(add, (*counter).add),
		actor.OnQuery(get, counter.get), actor.OnMessage(jobs, (*counter).ring), actor.OnSchedule(nightly, (*counter).ring),
		actor.OnSubscribe(first, (*counter).maySubscribe), actor.OnDisconnect(clients, (*counter).leave))
	ensure(t, def.Validate())
	got := *def.Behavior()
	got.New, got.Decode, got.Query, got.Convert, got.Schema = nil, nil, nil, nil, nil
	const handler = "github.com/cairn-run/cairn/actor_test.(*counter)."
	if want := (host.Behavior{
		Type: "counter", StateVersion: 3, IdleTimeout: time.Second, Limits: host.Limits{StateBytes: 9}, HasSleep: true, SharedState: true,
		Methods: []host.Method{
			{Name: "get", Kind: host.Query, Handler: "github.com/cairn-run/cairn/actor_test.counter.get"},
			{Name: "add", Kind: host.Action, Handler: handler + "add"}, {Name: "create", Kind: host.Creation, Handler: handler + "open"},
		},
		Alarms:      []host.AlarmMethod{{Name: "ring", Handler: handler + "ring"}},
		Events:      []host.Event{{Name: "first", Subscribe: handler + "maySubscribe"}, {Name: "second", Durable: true}},
		Schedules:   []host.ScheduleMethod{{Name: host.AnyName, Handler: handler + "ring"}},
		Connections: host.ConnectionMethods{Disconnect: handler + "leave"},
		Queues: []host.Queue{{
			Name: "jobs", Handler: handler +
				"ring", Backoff: []time.Duration{4, 5}, Lock: time.Second, Messages: 1, Bytes: 3, MessageBytes: 2,
			DedupWindow: 7, DeadFor: 8, Dead: 9, ReplyFor: 10,
		}, {Name: "once", Backoff: []time.Duration{}}},
		Streams: []host.Stream{{Name: "s", Items: 1, Bytes: 4, Age: 3, ItemBytes: 2, External: true}},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestOnlyFlatStatesAreShared(t *testing.T) {
	type inner struct {
		A [4]float64
		T time.Time
	}
	type hidden struct {
		A int
		p *int
	}
	_ = hidden{}.p
	for name, c := range map[string]struct {
		*host.Behavior
		shared bool
	}{
		"flat": {behaviorOf(t, actor.Spec[struct{ I inner }]{}), true}, "number": {behaviorOf(t, actor.Spec[int]{}), true},
		"slice": {behaviorOf(t, actor.Spec[struct{ S []int }]{}),
			false}, "map": {behaviorOf(t, actor.Spec[struct{ M [2]map[int]int }]{}), false},
		"pointer": {behaviorOf(t, actor.Spec[struct{ P *int }]{}), false}, "any": {behaviorOf(t, actor.Spec[struct{ V any }]{}), false},
		"hidden": {behaviorOf(t, actor.Spec[hidden]{}), false},
	} {
		errorIf(t, c.SharedState != c.shared, "%s: shared %t", name, c.SharedState)
	}
	typ := actor.NewType[counter]("counter")
	grab := actor.NewQuery[actor.None, int](typ, "grab")
	b := actor.Define(typ, actor.Spec[counter]{}, actor.OnQuery(grab, func(s counter, _ *actor.ReadContext, _ actor.None) (int, error) {
		s.N++ // of a copy
		return s.N, nil
	})).Behavior()
	state, err := b.Decode(0, nil)
	check(t, err)
	for range 2 {
		out, err := b.Query(&stub{}, 0, state, host.JSON, nil, nil)
		errorIf(t, err != nil || string(out) != "1", "a query changed the state: %s, %v", out, err)
	}
}
