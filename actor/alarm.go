package actor

import (
	"time"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// An Alarm is a kind of durable timer of an actor; its payload is a T. Bind its handler with
// [OnAlarm]. Each actor has at most one armed alarm for each instance name. The name is "" unless
// [Alarm.Named] sets another.
//
// An alarm rings once, at its time or as soon after it as the node runs. The commit of its handler
// removes it. So it rings again if the handler fails, with growing pauses. Setting it again
// replaces it, even from its own handler.
type Alarm[S, T any] struct {
	_ [0]func(S, T) // keeps types of other values from being converted into it
	alarm
}

// An alarm is an Alarm with a payload of any type.
type alarm struct {
	decl     *declared
	payload  *codec.Value
	instance string
}

// NewAlarm declares a kind of alarm of t. The name has the form that [NewType] describes and is
// unique among the type's alarms.
func NewAlarm[T, S any](t *Type[S], name string) *Alarm[S, T] {
	c := coreOf(t)
	payload := codec.Of[T](c.codec, codec.CBOR)
	return &Alarm[S, T]{alarm: alarm{payload: payload, decl: c.declare(declared{
		kind: kindAlarm, name: name, faults: prefixed("payload ", payload.Faults()),
		values: []codec.Described{payload.Describe(host.AlarmPayload)},
	})}}
}

// Named returns the alarm's instance of that name. Instances of one alarm ring independently. The
// handler reads the name from [Context.AlarmInstance].
func (a *Alarm[S, T]) Named(instance string) *Alarm[S, T] {
	return &Alarm[S, T]{alarm: alarm{a.decl, a.payload, instance}}
}

// At arms the alarm, or replaces it if it is armed. A time that has passed rings after the commit.
//
// If At fails, so does the turn, whether or not the handler looks at the error.
func (a *Alarm[S, T]) At(ctx *Context, due time.Time, payload T) error {
	return a.at(ctx, due, &payload)
}

func (a *alarm) at(ctx *Context, due time.Time, payload any) error {
	if err := ctx.own(a.decl); err != nil {
		return ctx.fail(err)
	}
	data, err := a.payload.Append(host.CBOR, nil, payload)
	if err != nil {
		return ctx.fail(valueError(a.decl, err))
	}
	return ctx.fail(ctx.turn.SetAlarm(host.Alarm{Name: a.decl.name, Instance: a.instance, Due: due, Payload: data}))
}

// After is At, counted from the turn's time.
func (a *Alarm[S, T]) After(ctx *Context, d time.Duration, payload T) error {
	return a.at(ctx, ctx.Now().Add(d), &payload)
}

// Cancel disarms the alarm and reports whether it was armed.
//
// If Cancel fails, so does the turn, whether or not the handler looks at the error.
func (a *alarm) Cancel(ctx *Context) (bool, error) {
	if err := ctx.own(a.decl); err != nil {
		return false, ctx.fail(err)
	}
	armed, err := ctx.turn.CancelAlarm(a.decl.name, a.instance)
	return armed, ctx.fail(err)
}

// Get describes the alarm; false means that it is not armed.
func (a *Alarm[S, T]) Get(ctx *Context) (one handle.Armed[T], armed bool, err error) {
	found, err := a.armed(ctx)
	if err != nil {
		return one, false, err
	}
	for i := range found {
		if found[i].Instance == a.instance {
			if err := a.read(&found[i], &one); err != nil {
				return handle.Armed[T]{}, false, err
			}
			return one, true, nil
		}
	}
	return one, false, nil
}

// List returns the armed instances of the alarm in the order of their names.
func (a *Alarm[S, T]) List(ctx *Context) ([]handle.Armed[T], error) {
	found, err := a.armed(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]handle.Armed[T], len(found))
	for i := range found {
		if err := a.read(&found[i], &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (a *alarm) armed(ctx *Context) ([]host.Alarm, error) {
	if err := ctx.own(a.decl); err != nil {
		return nil, err
	}
	return ctx.turn.Alarms(a.decl.name)
}

func (a *Alarm[S, T]) read(h *host.Alarm, one *handle.Armed[T]) error {
	one.Instance, one.Due, one.Attempts = h.Instance, h.Due, h.Attempts
	if err := a.payload.Decode(host.CBOR, h.Payload, &one.Payload); err != nil {
		return valueError(a.decl, err)
	}
	return nil
}
