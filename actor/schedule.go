package actor

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A Schedule is a kind of recurring timer of an actor; its payload is a T. Bind its handler with
// [OnSchedule]. Each actor has at most one for each instance name; the Schedule's own methods are
// those of instance "", and [Schedule.Named] gives others.
//
// A run is a turn. It is done when its commit is durable; a handler that fails leaves nothing
// behind and is tried again, with growing pauses. Ticks that come while the node is down, the actor
// paused or an earlier run under way are missed: by default one run makes up for all of them
// ([CatchUpAll], [CatchUpNone]). Runs of one schedule never overlap.
//
// Setting a schedule again replaces it; if its rule is the same, its ticks stay as they are, so
// that it may be set at every wake. For a single appointment without a history there is [Alarm].
type Schedule[S, T any] struct {
	label
	payload *wire[T]
}

// NewSchedule declares a kind of schedule of t. The name has the form that [NewType] describes and
// is unique among the type's schedules; or it is "*", which stands for every name that is not
// declared: [Schedule.Named] says which. T must be encodable both as CBOR and as JSON.
func NewSchedule[T, S any](t *Type[S], name string) *Schedule[S, T] {
	c := coreOf(t)
	payload := newWire[T](c, cborValue|jsonValue)
	d := declare(t, declared{
		kind: kindSchedule, name: name, faults: prefixed("payload ", payload.faults()),
		values: []value{payload.value(c, host.SchedulePayload)},
	})
	return &Schedule[S, T]{labelOf(d), payload}
}

// Name returns the schedule's name.
func (s *Schedule[S, T]) Name() string { return s.name }

// Named returns the schedule's instance of that name. Instances of one schedule run independently.
// If the schedule was declared as "*", it returns the schedule of that name instead; a name that
// has not the form of names, or is declared by itself, is reported when it is used. [Context.Tick]
// tells the handler which one runs.
func (s *Schedule[S, T]) Named(name string) ScheduleInstance[S, T] {
	if s.decl.name == host.AnyName {
		return ScheduleInstance[S, T]{label: s.label.named(name), payload: s.payload}
	}
	return ScheduleInstance[S, T]{label: s.label, payload: s.payload, instance: name}
}

func (s *Schedule[S, T]) only() ScheduleInstance[S, T] {
	return ScheduleInstance[S, T]{label: s.label, payload: s.payload}
}

// Cron is [ScheduleInstance.Cron] for instance "".
func (s *Schedule[S, T]) Cron(ctx *Context, expr string, payload T, opts ...CronOption) error {
	return s.only().Cron(ctx, expr, payload, opts...)
}

// Every is [ScheduleInstance.Every] for instance "".
func (s *Schedule[S, T]) Every(ctx *Context, d time.Duration, payload T, opts ...ScheduleOption) error {
	return s.only().Every(ctx, d, payload, opts...)
}

// At is [ScheduleInstance.At] for instance "".
func (s *Schedule[S, T]) At(ctx *Context, t time.Time, payload T, opts ...ScheduleOption) error {
	return s.only().At(ctx, t, payload, opts...)
}

// Cancel is [ScheduleInstance.Cancel] for instance "".
func (s *Schedule[S, T]) Cancel(ctx *Context) (bool, error) { return s.only().Cancel(ctx) }

// Get is [ScheduleInstance.Get] for instance "".
func (s *Schedule[S, T]) Get(ctx Reader) (Scheduled[T], bool, error) { return s.only().Get(ctx) }

// List returns the instances of the schedule that are set, in the order of their names. If the
// schedule was declared as "*", they are all schedules whose names are not declared by themselves,
// in the order of names. It works in a turn and in a query.
func (s *Schedule[S, T]) List(ctx Reader) ([]Scheduled[T], error) {
	if err := ctx.own(s.decl); err != nil {
		return nil, err
	}
	found, err := ctx.reader().Schedules(s.listName())
	if err != nil {
		return nil, err
	}
	return s.list(found)
}

// listName is the name to list schedules by: "" lists all.
func (s *Schedule[S, T]) listName() string {
	if s.name == host.AnyName {
		return ""
	}
	return s.name
}

func (s *Schedule[S, T]) list(found []host.Schedule) ([]Scheduled[T], error) {
	out := make([]Scheduled[T], 0, len(found))
	for i := range found {
		if s.name == host.AnyName && s.decl.core.find(kindSchedule, found[i].Name) != nil {
			continue
		}
		one, err := s.only().scheduled(&found[i])
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// A Scheduled describes a schedule that is set.
type Scheduled[T any] struct {
	// Name is the schedule's contract name; Instance is "" unless it was set through
	// [Schedule.Named].
	Name, Instance string
	// Rule says when it runs.
	Rule Rule
	// Zone is the time zone of a cron rule; "" is UTC.
	Zone string
	// Missed is what happens to missed ticks, CatchUp the cap of [MissedAll], and KeepRuns how many
	// runs the history keeps, negative for none. Zero fields are the defaults.
	Missed   Missed
	CatchUp  int
	KeepRuns int
	Payload  T
	// Next is the tick that comes next; zero when there is none.
	Next time.Time
	// Runs counts the runs, Attempts the failures of the current tick, Skipped the ticks that were
	// missed and not made up for.
	Runs     uint64
	Attempts int
	Skipped  uint64
	// LastResult is "ok", "error" or "", if there was no run yet; LastError says why.
	LastResult, LastError string
}

// A ScheduleInstance is one schedule of an actor, told apart from others of its kind by a name.
type ScheduleInstance[S, T any] struct {
	label
	payload  *wire[T]
	instance string
}

// Cron sets the schedule to run at the times that an expression says, by default in UTC ([In]). It
// has five fields, minute, hour, day of month, month and day of week; or six with seconds first; or
// is a descriptor such as "@daily".
//
// If Cron fails, so does the turn, whether or not the handler looks at the error. The error code is
// InvalidArgument if the expression is wrong.
func (i ScheduleInstance[S, T]) Cron(ctx *Context, expr string, payload T, opts ...CronOption) error {
	return i.set(ctx, Cron(expr), payload, opts)
}

// Every sets the schedule to run at a fixed interval of at least a second, in whole milliseconds,
// counted from now.
//
// If Every fails, so does the turn, whether or not the handler looks at the error.
func (i ScheduleInstance[S, T]) Every(ctx *Context, d time.Duration, payload T, opts ...ScheduleOption) error {
	return i.set(ctx, Every(d), payload, cronOptions(opts))
}

// At sets the schedule to run once, at a time. One that has passed runs after the commit. The
// schedule ends with its run.
//
// If At fails, so does the turn, whether or not the handler looks at the error.
func (i ScheduleInstance[S, T]) At(ctx *Context, t time.Time, payload T, opts ...ScheduleOption) error {
	return i.set(ctx, At(t), payload, cronOptions(opts))
}

func (i ScheduleInstance[S, T]) set(ctx *Context, rule Rule, payload T, opts []CronOption) error {
	if err := i.inTurn(ctx); err != nil {
		return ctx.fail(err)
	}
	data, err := i.payload.append(host.CBOR, nil, &payload)
	if err != nil {
		return ctx.fail(valueError(i.decl, err))
	}
	s, err := i.schedule(rule, data, opts)
	if err != nil {
		return ctx.fail(err)
	}
	_, err = ctx.turn.SetSchedule(s)
	return ctx.fail(err)
}

// Cancel removes the schedule and its history and reports whether there was one.
//
// If Cancel fails, so does the turn, whether or not the handler looks at the error.
func (i ScheduleInstance[S, T]) Cancel(ctx *Context) (bool, error) {
	if err := i.inTurn(ctx); err != nil {
		return false, ctx.fail(err)
	}
	was, err := ctx.turn.CancelSchedule(i.name, i.instance)
	return was, ctx.fail(err)
}

// Get describes the schedule; false means that it is not set. It works in a turn and in a query.
func (i ScheduleInstance[S, T]) Get(ctx Reader) (Scheduled[T], bool, error) {
	if err := i.inTurn(ctx); err != nil {
		return Scheduled[T]{}, false, err
	}
	found, err := ctx.reader().Schedules(i.name)
	if err != nil {
		return Scheduled[T]{}, false, err
	}
	return i.pick(found)
}

// pick finds the instance among the schedules of its name.
func (i ScheduleInstance[S, T]) pick(found []host.Schedule) (Scheduled[T], bool, error) {
	for k := range found {
		if found[k].Name == i.name && found[k].Instance == i.instance {
			one, err := i.scheduled(&found[k])
			return one, err == nil, err
		}
	}
	return Scheduled[T]{}, false, nil
}

func (i ScheduleInstance[S, T]) scheduled(h *host.Schedule) (Scheduled[T], error) {
	s := Scheduled[T]{
		Name: h.Name, Instance: h.Instance, Rule: ruleOf(h), Zone: h.Zone, Missed: h.Missed, CatchUp: h.CatchUp, KeepRuns: h.KeepRuns,
		Next: timeOf(h.Next), Runs: h.Runs, Attempts: h.Attempts, Skipped: h.Skipped, LastResult: h.LastResult, LastError: h.LastError,
	}
	if err := i.payload.decode(host.CBOR, h.Payload, &s.Payload); err != nil {
		return s, valueError(i.decl, err)
	}
	return s, nil
}

// A Tick is one run of a schedule, as its handler sees it.
type Tick = host.Tick

// OnSchedule binds a schedule to a method of the state: OnSchedule(Nightly, (*Tenant).nightly).
// [Context.Tick] describes the run. If the handler fails, the run is tried again.
func OnSchedule[S, T any](s *Schedule[S, T], handler func(*S, *Context, T) error) Binding[S] {
	if s == nil {
		return Binding[S]{}
	}
	d, w := s.decl, s.payload
	b := Binding[S]{decl: d, handler: funcName(handler)}
	b.schedule = func(s *S, t host.Turn, tick *host.Tick, payload []byte) error {
		var arg T
		if err := w.decode(host.CBOR, payload, &arg); err != nil {
			return valueError(d, err)
		}
		ctx := &Context{turn: t, core: d.core, tick: tick}
		return ctx.end(handler(s, ctx, arg))
	}
	return b
}

// Tick describes the run of the schedule whose handler is running. It is zero in other turns.
func (c *Context) Tick() Tick {
	if c.tick == nil {
		return Tick{}
	}
	return *c.tick
}
