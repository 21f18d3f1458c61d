package actor

import (
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// A Schedule is a kind of recurring timer of an actor; its payload is a T. Bind its handler with
// [OnSchedule]. Each actor has at most one schedule for each instance name. The name is "" unless
// [Schedule.Named] sets another.
//
// A run is a turn, and is done when its commit is durable. A run that fails leaves nothing behind;
// it is recorded as failed, and the next tick comes as usual. The one run of Rule.At is tried
// again, with growing pauses. Ticks are missed while the node is down, the actor is paused or an
// earlier run is under way. By default one run makes up for all of them ([Rule.Missed]). Runs of
// one schedule never overlap.
//
// Setting a schedule again replaces it. The same rule keeps its ticks, so a schedule may be set at
// every wake. For a single appointment without a history there is [Alarm].
type Schedule[S, T any] struct {
	_ [0]func(S, T) // keeps types of other values from being converted into it
	schedule
}

// A schedule is a Schedule with a payload of any type.
type schedule struct {
	label
	payload  *codec.Value
	instance string
}

// A Rule says when a schedule runs, and how.
type Rule = handle.Rule

// Missed is the policy for ticks of a schedule that are missed: while the node is down, the actor
// is paused or an earlier run is under way.
type Missed = host.Missed

// The policies for missed ticks; MissedOnce is the default. package host documents each.
const (
	MissedOnce = host.MissedOnce
	MissedAll  = host.MissedAll
	MissedNone = host.MissedNone
)

// NewSchedule declares a kind of schedule of t. The name has the form that [NewType] describes and
// is unique among the type's schedules. The name "*" stands for every name that is not declared;
// [Schedule.Named] selects one. T must be encodable both as CBOR and as JSON.
func NewSchedule[T, S any](t *Type[S], name string) *Schedule[S, T] {
	c := coreOf(t)
	payload := both[T](c)
	return &Schedule[S, T]{schedule: schedule{payload: payload, label: labelOf(c.declare(declared{
		kind: kindSchedule, name: name, faults: prefixed("payload ", payload.Faults()),
		values: []codec.Described{payload.Describe(host.SchedulePayload)},
	}))}}
}

// Named returns the schedule's instance of that name. Instances of one schedule run independently.
// If the schedule was declared as "*", Named returns the schedule of that name instead. Using it
// fails if the name does not have the form of names, or has a declaration of its own. The handler
// finds the running schedule in [Context.Tick].
func (s *Schedule[S, T]) Named(name string) *Schedule[S, T] {
	if s.decl.name == host.AnyName {
		return &Schedule[S, T]{schedule: schedule{label: s.label.named(name), payload: s.payload}}
	}
	return &Schedule[S, T]{schedule: schedule{label: s.label, payload: s.payload, instance: name}}
}

// Of returns the schedule of an actor, for callers and operators.
func (s *Schedule[S, T]) Of(ref Ref[S]) handle.Schedule[T] {
	all := ref.ref.site(label{decl: s.decl, name: s.listName()})
	return handle.NewSchedule[T](ref.ref.site(s.label), s.instance, s.payload, all, s.mine)
}

// Set sets the schedule, or replaces it. The error code is InvalidArgument if the rule is wrong.
//
// If Set fails, so does the turn, whether or not the handler looks at the error.
func (s *Schedule[S, T]) Set(ctx *Context, rule Rule, payload T) error {
	return s.set(ctx, rule, &payload)
}

func (s *schedule) set(ctx *Context, rule Rule, payload any) error {
	if err := s.inTurn(ctx); err != nil {
		return ctx.fail(err)
	}
	data, err := s.payload.Append(host.CBOR, nil, payload)
	if err != nil {
		return ctx.fail(valueError(s.decl, err))
	}
	stored := host.Schedule{Name: s.name, Instance: s.instance, Payload: data}
	if err := handle.FillSchedule(&stored, rule, s.decl.String()); err != nil {
		return ctx.fail(err)
	}
	_, err = ctx.turn.SetSchedule(stored)
	return ctx.fail(err)
}

// Cancel removes the schedule and its history and reports whether there was one.
//
// If Cancel fails, so does the turn, whether or not the handler looks at the error.
func (s *schedule) Cancel(ctx *Context) (bool, error) {
	if err := s.inTurn(ctx); err != nil {
		return false, ctx.fail(err)
	}
	was, err := ctx.turn.CancelSchedule(s.name, s.instance)
	return was, ctx.fail(err)
}

// Get describes the schedule; false means that it is not set. It works in a turn and in a query.
func (s *Schedule[S, T]) Get(ctx Reader) (one handle.Scheduled[T], set bool, err error) {
	found, err := s.get(ctx)
	if err != nil || found == nil {
		return one, false, err
	}
	one, err = handle.ReadSchedule[T](found, s.payload, s.decl.String())
	return one, err == nil, err
}

// get returns the schedule as it is stored; nil if it is not set.
func (s *schedule) get(ctx Reader) (*host.Schedule, error) {
	if err := s.inTurn(ctx); err != nil {
		return nil, err
	}
	found, err := ctx.reader().Schedules(s.name)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i].Name == s.name && found[i].Instance == s.instance {
			return &found[i], nil
		}
	}
	return nil, nil
}

// List returns the instances of the schedule that are set, in the order of their names. If the
// schedule was declared as "*", it returns all schedules without a declaration of their own, in the
// order of names. It works in a turn and in a query.
func (s *Schedule[S, T]) List(ctx Reader) ([]handle.Scheduled[T], error) {
	found, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]handle.Scheduled[T], len(found))
	for i := range found {
		if out[i], err = handle.ReadSchedule[T](&found[i], s.payload, s.decl.String()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *schedule) list(ctx Reader) ([]host.Schedule, error) {
	if err := ctx.own(s.decl); err != nil {
		return nil, err
	}
	found, err := ctx.reader().Schedules(s.listName())
	mine := make([]host.Schedule, 0, len(found))
	for i := range found {
		if s.mine(found[i].Name) {
			mine = append(mine, found[i])
		}
	}
	return mine, err
}

// listName returns the name by which to list schedules; "" lists all.
func (s *schedule) listName() string {
	if s.decl.name == host.AnyName {
		return ""
	}
	return s.name
}

// mine reports whether the contract stands for schedules of that name.
func (s *schedule) mine(name string) bool {
	return s.decl.name != host.AnyName || s.decl.core.find(kindSchedule, name) == nil
}

// A Tick describes one run of a schedule to its handler.
type Tick = host.Tick

// OnSchedule binds a schedule to a method of the state: OnSchedule(Nightly, (*Tenant).nightly).
// [Context.Tick] describes the run.
func OnSchedule[S, T any](s *Schedule[S, T], handler func(*S, *Context, T) error) Binding[S] {
	if s == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: s.decl, handler: funcName(handler), in: s.payload, call: quiet(handler)}}
}

// Tick describes the run of the schedule whose handler is running. It is zero in other turns.
func (c *Context) Tick() Tick {
	if c.tick == nil {
		return Tick{}
	}
	return *c.tick
}
