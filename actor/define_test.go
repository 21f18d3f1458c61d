package actor_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

type counter struct{ N int }

func (c *counter) add(_ *actor.Context, n int) (int, error) { c.N += n; return c.N, nil }

func (c counter) get(*actor.ReadContext, actor.None) (int, error) { return c.N, nil }

func (c *counter) ring(*actor.Context, string) error { c.N++; return nil }

func (c *counter) open(_ *actor.Context, n int) error { c.N = n; return nil }

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
	actor.NewMap[struct{ A int }, int](typ, "structs")
	h := func(*state, *actor.Context, int) (int, error) { return 0, nil }
	var none *actor.Query[state, int, int]

	def := actor.Define(typ, actor.Spec[state]{
		Migrate: func(*state, actor.Stored) error { return nil },
		Limits:  actor.Limits{TurnTimeout: -1, QueryTimeout: -1, ValueBytes: 16<<20 + 1},
	},
		actor.On(bound, h), actor.On(bound, h), actor.On(foreign, h), actor.On(nilHandler, nil), actor.OnQuery(none, nil))
	err := def.Validate()
	if err == nil || def.Behavior() != nil {
		t.Fatal("the definition was accepted")
	}
	for _, want := range []string{
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
		`Spec.Limits.TurnTimeout: is negative`,
		`Spec.Limits.QueryTimeout: is negative`,
		`Spec.Limits.ValueBytes: is 16777217`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(err.Error(), "Skipped") || strings.Contains(err.Error(), `event "unbound"`) {
		t.Errorf("refused what is allowed:\n%s", err)
	}
	var fault *actor.ContractError
	if !errors.As(err, &fault) || fault.Type != "9lives" {
		t.Errorf("faults are not ContractErrors: %v", err)
	}
}

func TestContractOfANilTypeIsAFaultNotAPanic(t *testing.T) {
	var typ *actor.Type[counter]
	add := actor.NewAction[int, int](typ, "add")
	actor.NewEvent[int](typ, "e", actor.EventConfig{})
	actor.NewMap[int, int](typ, "m")
	if err := actor.Define(typ, actor.Spec[counter]{}).Validate(); err == nil {
		t.Error("a nil Type was accepted")
	}
	good := actor.NewType[counter]("counter")
	if err := actor.Define(good, actor.Spec[counter]{}, actor.On(add, (*counter).add)).Validate(); err == nil {
		t.Error("an action of a nil Type was accepted")
	}
	if err := (actor.Definition{}).Validate(); err == nil {
		t.Error("a zero Definition was accepted")
	}
}

func TestBehaviorListsWhatIsDeclared(t *testing.T) {
	typ := actor.NewType[counter]("counter")
	var (
		get    = actor.NewQuery[actor.None, int](typ, "get")
		add    = actor.NewAction[int, int](typ, "add")
		create = actor.NewCreate[int](typ)
		ring   = actor.NewAlarm[string](typ, "ring")
	)
	actor.NewEvent[int](typ, "first", actor.EventConfig{})
	actor.NewEvent[int](typ, "second", actor.EventConfig{Durable: true})
	def := actor.Define(typ, actor.Spec[counter]{
		Version: 3, IdleTimeout: time.Second, Limits: actor.Limits{StateBytes: 9},
		OnSleep: func(*counter, *actor.Context) error { return nil },
	},
		actor.OnAlarm(ring, (*counter).ring), actor.OnCreate(create, (*counter).open),
		actor.On(add, (*counter).add), actor.OnQuery(get, counter.get))
	if err := def.Validate(); err != nil {
		t.Fatal(err)
	}
	b := def.Behavior()
	if b.Type != "counter" || b.StateVersion != 3 || b.IdleTimeout != time.Second || b.Limits.StateBytes != 9 || !b.HasSleep || b.HasWake {
		t.Errorf("behavior: %+v", b)
	}
	const pkg = "github.com/cairn-run/cairn/actor_test."
	if want := []host.Method{
		{Name: "get", Kind: host.Query, Handler: pkg + "counter.get"},
		{Name: "add", Kind: host.Action, Handler: pkg + "(*counter).add"},
		{Name: "create", Kind: host.Creation, Handler: pkg + "(*counter).open"},
	}; !slices.Equal(b.Methods, want) {
		t.Errorf("methods: %v", b.Methods)
	}
	if want := []host.AlarmMethod{{Name: "ring", Handler: pkg + "(*counter).ring"}}; !slices.Equal(b.Alarms, want) {
		t.Errorf("alarms: %v", b.Alarms)
	}
	if want := []host.Event{{Name: "first"}, {Name: "second", Durable: true}}; !slices.Equal(b.Events, want) {
		t.Errorf("events: %v", b.Events)
	}
}

func TestOnlyFlatStatesAreShared(t *testing.T) {
	type inner struct {
		A [4]float64
		T time.Time
	}
	shared(t, true, struct {
		S string
		I inner
	}{})
	shared(t, false, struct{ S []int }{})
	shared(t, false, struct{ M [2]map[int]int }{})
	shared(t, false, struct{ P *int }{})
	shared(t, false, struct {
		A int
		p *int
	}{})
	shared(t, false, struct{ V any }{})
	shared(t, true, 7)
}

func shared[S any](t *testing.T, want bool, _ S) {
	t.Helper()
	def := actor.Define(actor.NewType[S]("x"), actor.Spec[S]{})
	if err := def.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := def.Behavior().SharedState; got != want {
		t.Errorf("%T: shared %t, want %t", *new(S), got, want)
	}
}
