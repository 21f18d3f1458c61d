package actor

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// maxValueBytes is the most that Limits.ValueBytes may allow.
const maxValueBytes = 16 << 20

// Limits bound one actor of a type. A zero field means the default of the runtime.
type Limits = host.Limits

// A Spec says how a type's actors live. All fields are optional.
type Spec[S any] struct {
	// OnCreate runs in the turn that creates an actor, before the call that caused it.
	OnCreate func(*S, *Context) error
	// OnWake runs each time the actor comes into memory, creation included, before the first call. It is the place to fill
	// unexported fields.
	OnWake func(*S, *Context) error
	// OnSleep runs before the actor leaves memory in an orderly way: not when the node crashes.
	OnSleep func(*S, *Context) error
	// OnDestroy runs in the turn that destroys the actor. If it fails, the actor stays.
	OnDestroy func(*S, *Context) error

	// IdleTimeout is how long an actor stays in memory unused. 0 means the runtime's default; negative, only memory
	// pressure and shutdown put it to sleep.
	IdleTimeout time.Duration
	// Version is the version of the state's form; raise it together with a change to Migrate. A state that was stored by a
	// higher version is refused, untouched, with the error code StateTooNew.
	Version uint64
	// Migrate fills a zero state from one stored with a lower version; nil decodes it as it is. It must depend on nothing
	// but its arguments: queries run it as well, on a copy. The result is saved by the next turn that changes it.
	//
	//	func (t *Tenant) migrate(old actor.Stored) error {
	//		if old.Version() == 0 {
	//			var v0 struct{ Names string }
	//			if err := old.Decode(&v0); err != nil {
	//				return err
	//			}
	//			t.Names = strings.Split(v0.Names, ",")
	//			return nil
	//		}
	//		return old.Decode(t)
	//	}
	Migrate func(s *S, old Stored) error
	// Limits bound each actor.
	Limits Limits
}

// A Stored is a state as an earlier version of the type's code saved it.
type Stored struct {
	version uint64
	blob    []byte
	codec   *codec
}

// Version returns the Spec.Version that the state was saved with.
func (o Stored) Version() uint64 { return o.version }

// Decode decodes the state into what v points to: a struct of the old form, or the new state as far as its fields still
// fit. Stored fields that v does not have are ignored. It may be called more than once.
func (o Stored) Decode(v any) error { return o.codec.decodeCBOR(o.blob, v) }

// A Binding ties a contract value to the handler that implements it. Made by [On], [OnQuery], [OnAlarm] and [OnCreate].
type Binding[S any] struct {
	decl    *declared
	handler string
	act     func(s *S, t host.Turn, as host.Codec, input, out []byte) ([]byte, error)
	query   func(s *S, r host.Reader, as host.Codec, input, out []byte) ([]byte, error)
	alarm   func(s *S, t host.Turn, instance string, payload []byte) error
}

// On binds an action to a method of the state: On(Add, (*Tenant).add).
func On[S, In, Out any](a *Action[S, In, Out], handler func(*S, *Context, In) (Out, error)) Binding[S] {
	if a == nil {
		return Binding[S]{}
	}
	d, in, out := a.decl, a.in, a.out
	b := Binding[S]{decl: d, handler: funcName(handler)}
	b.act = func(s *S, t host.Turn, as host.Codec, input, dst []byte) ([]byte, error) {
		var arg In
		if err := in.decode(as, input, &arg); err != nil {
			return dst, inputError(d, err)
		}
		ctx := &Context{turn: t, core: d.core}
		result, err := handler(s, ctx, arg)
		if err = ctx.end(err); err != nil {
			return dst, err
		}
		return appendOutput(d, out, as, dst, &result)
	}
	return b
}

// OnQuery binds a query to a method of the state: OnQuery(Sent, Tenant.sent). The value receiver is a copy of the
// committed state that the handler may change without effect.
func OnQuery[S, In, Out any](q *Query[S, In, Out], handler func(S, *ReadContext, In) (Out, error)) Binding[S] {
	if q == nil {
		return Binding[S]{}
	}
	d, in, out := q.decl, q.in, q.out
	b := Binding[S]{decl: d, handler: funcName(handler)}
	b.query = func(s *S, r host.Reader, as host.Codec, input, dst []byte) ([]byte, error) {
		var arg In
		if err := in.decode(as, input, &arg); err != nil {
			return dst, inputError(d, err)
		}
		result, err := handler(*s, &ReadContext{r: r, core: d.core}, arg)
		if err != nil {
			return dst, err
		}
		return appendOutput(d, out, as, dst, &result)
	}
	return b
}

// OnCreate binds a type's creation method to a method of the state: OnCreate(Open, (*Account).open).
func OnCreate[S, In any](c *Create[S, In], handler func(*S, *Context, In) error) Binding[S] {
	if c == nil {
		return Binding[S]{}
	}
	d, in := c.decl, c.in
	b := Binding[S]{decl: d, handler: funcName(handler)}
	b.act = func(s *S, t host.Turn, as host.Codec, input, dst []byte) ([]byte, error) {
		var arg In
		if err := in.decode(as, input, &arg); err != nil {
			return dst, inputError(d, err)
		}
		ctx := &Context{turn: t, core: d.core}
		return dst, ctx.end(handler(s, ctx, arg))
	}
	return b
}

// OnAlarm binds an alarm to a method of the state: OnAlarm(Remind, (*Tenant).remind).
func OnAlarm[S, T any](a *Alarm[S, T], handler func(*S, *Context, T) error) Binding[S] {
	if a == nil {
		return Binding[S]{}
	}
	d, w := a.decl, a.payload
	b := Binding[S]{decl: d, handler: funcName(handler)}
	b.alarm = func(s *S, t host.Turn, instance string, payload []byte) error {
		var arg T
		if err := w.decode(host.CBOR, payload, &arg); err != nil {
			return valueError(d, err)
		}
		ctx := &Context{turn: t, core: d.core, instance: instance}
		return ctx.end(handler(s, ctx, arg))
	}
	return b
}

func appendOutput[Out any](d *declared, w *wire[Out], as host.Codec, dst []byte, v *Out) ([]byte, error) {
	out, err := w.append(as, dst, v)
	if err != nil {
		return dst, Errorf(Internal, "output of %s: %s", d, err)
	}
	return out, nil
}

// funcName returns the name of a Go function, or "" for nil.
func funcName(f any) string {
	if p := reflect.ValueOf(f).Pointer(); p != 0 {
		return runtime.FuncForPC(p).Name()
	}
	return ""
}

// A Definition is an actor type with its implementation: what a runtime hosts. Immutable. Made by [Define].
type Definition struct {
	name     string
	behavior *host.Behavior
	faults   []error
}

// Define implements a type. Every action, query, alarm and creation method that is declared on the type must be bound,
// once. Mistakes are not reported here but by [Definition.Validate], which opening a runtime calls.
func Define[S any](t *Type[S], spec Spec[S], bindings ...Binding[S]) Definition {
	if t == nil || t.core == nil {
		return Definition{faults: []error{&ContractError{Reason: "Define was given a nil Type"}}}
	}
	d := definer[S]{core: t.core, bound: make(map[*declared]Binding[S])}
	d.bind(bindings)
	p := &program[S]{core: t.core, spec: spec, state: newWire[S](t.core, cborValue)}
	behavior := d.compile(p)
	d.checkState(p)
	return Definition{name: t.core.name, behavior: behavior, faults: d.faults}
}

// Type returns the name of the actor type.
func (d Definition) Type() string { return d.name }

// Validate reports every fault of the contract and of its implementation, joined; each is a [*ContractError].
func (d Definition) Validate() error {
	if d.behavior == nil && len(d.faults) == 0 {
		return &ContractError{Reason: "a Definition is made by Define"}
	}
	return errors.Join(d.faults...)
}

// Behavior returns what a runtime runs, or nil if [Definition.Validate] reports a fault.
func (d Definition) Behavior() *host.Behavior {
	if len(d.faults) > 0 {
		return nil
	}
	return d.behavior
}

// A definer works out one Definition.
type definer[S any] struct {
	core   *core
	bound  map[*declared]Binding[S]
	faults []error
}

func (d *definer[S]) fault(contract, format string, args ...any) {
	d.faults = append(d.faults, &ContractError{Type: d.core.name, Contract: contract, Reason: fmt.Sprintf(format, args...)})
}

func (d *definer[S]) bind(bindings []Binding[S]) {
	for i, b := range bindings {
		switch {
		case b.decl == nil:
			d.fault("", "binding %d is of a nil contract value", i+1)
		case b.decl.core != d.core:
			d.fault(b.decl.String(), "is declared on another Type value, %q, and cannot be bound here", b.decl.core.name)
		case b.handler == "":
			d.fault(b.decl.String(), "is bound to a nil handler")
			d.bound[b.decl] = b
		default:
			if other, ok := d.bound[b.decl]; ok {
				d.fault(b.decl.String(), "is bound twice, to %s and %s", other.handler, b.handler)
			}
			d.bound[b.decl] = b
		}
	}
}

// compile checks what is declared and lays out the behavior's tables.
func (d *definer[S]) compile(p *program[S]) *host.Behavior {
	if f := nameFault(d.core.name); f != "" {
		d.fault("", "%s", f)
	}
	behavior := &host.Behavior{
		Type:         d.core.name,
		StateVersion: p.spec.Version,
		IdleTimeout:  p.spec.IdleTimeout,
		Limits:       p.spec.Limits,
		HasSleep:     p.spec.OnSleep != nil,
		SharedState:  p.state.shape.flat,
		New:          func() host.Instance { return &instance[S]{program: p} },
		Decode:       p.decode,
		Query:        p.query,
	}
	type place struct {
		space kind
		name  string
	}
	taken := make(map[place]*declared)
	for _, c := range d.core.contracts() {
		if f := nameFault(c.name); f != "" {
			d.fault(c.String(), "%s", f)
		}
		at := place{c.kind.space(), c.name}
		if other, ok := taken[at]; ok {
			d.fault(c.String(), "there is also %s; names must differ", other)
		}
		taken[at] = c
		for _, f := range c.faults {
			d.fault(c.String(), "%s", f)
		}
		b, ok := d.bound[c]
		if bind := c.kind.binder(); bind != "" && !ok {
			d.fault(c.String(), "is declared but not bound: pass actor.%s(...) to actor.Define", bind)
			continue
		}
		switch c.kind {
		case kindAction, kindQuery, kindCreate:
			behavior.Methods = append(behavior.Methods, host.Method{Name: c.name, Kind: c.kind.method(), Handler: b.handler})
			p.methods = append(p.methods, b)
		case kindAlarm:
			behavior.Alarms = append(behavior.Alarms, host.AlarmMethod{Name: c.name, Handler: b.handler})
			p.alarms = append(p.alarms, b)
		case kindEvent:
			behavior.Events = append(behavior.Events, host.Event{Name: c.name, Durable: c.durable})
		}
	}
	return behavior
}

func (k kind) method() host.MethodKind {
	switch k {
	case kindQuery:
		return host.Query
	case kindCreate:
		return host.Creation
	}
	return host.Action
}

// checkState checks the state's type and the spec.
func (d *definer[S]) checkState(p *program[S]) {
	for _, f := range p.state.faults() {
		d.fault("state", "%s", f)
	}
	if p.spec.Migrate != nil && p.spec.Version == 0 {
		d.fault("Spec.Migrate", "is never called while Spec.Version is 0")
	}
	l := p.spec.Limits
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"TurnTimeout", int64(l.TurnTimeout)},
		{"MailboxCount", int64(l.MailboxCount)},
		{"MailboxBytes", l.MailboxBytes},
		{"StateBytes", int64(l.StateBytes)},
		{"ValueBytes", int64(l.ValueBytes)},
		{"StorageBytes", l.StorageBytes},
		{"WriteSetBytes", int64(l.WriteSetBytes)},
		{"SendAttempts", int64(l.SendAttempts)},
	} {
		if n.value < 0 {
			d.fault("Spec.Limits."+n.name, "is negative")
		}
	}
	if l.ValueBytes > maxValueBytes {
		d.fault("Spec.Limits.ValueBytes", "is %d; a value has at most %d bytes", l.ValueBytes, maxValueBytes)
	}
}
