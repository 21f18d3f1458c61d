package actor

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// An Alarm is a kind of durable timer of an actor; its payload is a T. Bind its handler with
// [OnAlarm]. Each actor has at most one armed alarm for each instance name; the Alarm's own methods
// are those of instance "", and [Alarm.Named] gives others.
//
// An alarm rings once, at its time or as soon after it as the node runs. It is removed by the
// commit of its handler, so it rings again if the handler fails, with growing pauses. Setting it
// again replaces it, also from its own handler.
type Alarm[S, T any] struct {
	decl    *declared
	payload *wire[T]
}

// NewAlarm declares a kind of alarm of t. The name has the form that [NewType] describes and is
// unique among the type's alarms.
func NewAlarm[T, S any](t *Type[S], name string) *Alarm[S, T] {
	c := coreOf(t)
	a := &Alarm[S, T]{payload: newWire[T](c, cborValue)}
	a.decl = declare(t, declared{
		kind: kindAlarm, name: name, faults: prefixed("payload ", a.payload.faults()),
		values: []value{a.payload.value(c, host.AlarmPayload)},
	})
	return a
}

// Name returns the alarm's name.
func (a *Alarm[S, T]) Name() string { return a.decl.name }

// Named returns the alarm's instance of that name. Instances of one alarm ring independently.
// [Context.AlarmInstance] tells the handler which one rang.
func (a *Alarm[S, T]) Named(instance string) AlarmInstance[S, T] {
	return AlarmInstance[S, T]{alarm: a, instance: instance}
}

// At is [AlarmInstance.At] for instance "".
func (a *Alarm[S, T]) At(ctx *Context, due time.Time, payload T) error {
	return a.Named("").At(ctx, due, payload)
}

// After is [AlarmInstance.After] for instance "".
func (a *Alarm[S, T]) After(ctx *Context, d time.Duration, payload T) error {
	return a.Named("").After(ctx, d, payload)
}

// Cancel is [AlarmInstance.Cancel] for instance "".
func (a *Alarm[S, T]) Cancel(ctx *Context) (bool, error) { return a.Named("").Cancel(ctx) }

// Get is [AlarmInstance.Get] for instance "".
func (a *Alarm[S, T]) Get(ctx *Context) (Armed[T], bool, error) { return a.Named("").Get(ctx) }

// List returns the armed instances of the alarm in the order of their names.
func (a *Alarm[S, T]) List(ctx *Context) ([]Armed[T], error) {
	if err := ctx.own(a.decl); err != nil {
		return nil, err
	}
	alarms, err := ctx.turn.Alarms(a.decl.name)
	if err != nil {
		return nil, err
	}
	armed := make([]Armed[T], len(alarms))
	for i := range alarms {
		if armed[i], err = a.armed(&alarms[i]); err != nil {
			return nil, err
		}
	}
	return armed, nil
}

func (a *Alarm[S, T]) armed(h *host.Alarm) (Armed[T], error) {
	armed := Armed[T]{Instance: h.Instance, Due: h.Due, Attempts: h.Attempts}
	if err := a.payload.decode(host.CBOR, h.Payload, &armed.Payload); err != nil {
		return armed, valueError(a.decl, err)
	}
	return armed, nil
}

// An Armed describes an alarm that will ring.
type Armed[T any] struct {
	// Instance is "" unless the alarm was set through [Alarm.Named].
	Instance string
	Due      time.Time
	Payload  T
	// Attempts counts how often its handler has failed.
	Attempts int
}

// An AlarmInstance is one alarm of an actor, told apart from others of its kind by a name.
type AlarmInstance[S, T any] struct {
	alarm    *Alarm[S, T]
	instance string
}

// At arms the alarm, or replaces it if it is armed. A time that has passed rings after the commit.
//
// If At fails, so does the turn, whether or not the handler looks at the error.
func (i AlarmInstance[S, T]) At(ctx *Context, due time.Time, payload T) error {
	d := i.alarm.decl
	if err := ctx.own(d); err != nil {
		return ctx.fail(err)
	}
	data, err := i.alarm.payload.append(host.CBOR, nil, &payload)
	if err != nil {
		return ctx.fail(valueError(d, err))
	}
	return ctx.fail(ctx.turn.SetAlarm(host.Alarm{Name: d.name, Instance: i.instance, Due: due, Payload: data}))
}

// After is At, counted from the turn's time.
func (i AlarmInstance[S, T]) After(ctx *Context, d time.Duration, payload T) error {
	return i.At(ctx, ctx.Now().Add(d), payload)
}

// Cancel disarms the alarm and reports whether it was armed.
//
// If Cancel fails, so does the turn, whether or not the handler looks at the error.
func (i AlarmInstance[S, T]) Cancel(ctx *Context) (bool, error) {
	if err := ctx.own(i.alarm.decl); err != nil {
		return false, ctx.fail(err)
	}
	armed, err := ctx.turn.CancelAlarm(i.alarm.decl.name, i.instance)
	return armed, ctx.fail(err)
}

// Get describes the alarm; false means that it is not armed.
func (i AlarmInstance[S, T]) Get(ctx *Context) (Armed[T], bool, error) {
	if err := ctx.own(i.alarm.decl); err != nil {
		return Armed[T]{}, false, err
	}
	alarms, err := ctx.turn.Alarms(i.alarm.decl.name)
	if err != nil {
		return Armed[T]{}, false, err
	}
	for k := range alarms {
		if alarms[k].Instance == i.instance {
			armed, err := i.alarm.armed(&alarms[k])
			return armed, err == nil, err
		}
	}
	return Armed[T]{}, false, nil
}
