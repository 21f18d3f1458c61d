package actor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// A Spec configures the actors of a type. All fields are optional.
type Spec[S any] struct {
	// OnCreate runs in the turn that creates an actor, before the call that caused it.
	OnCreate func(*S, *Context) error
	// OnWake runs each time the actor comes into memory, creation included, before the first call.
	// It is the place to fill unexported fields.
	OnWake func(*S, *Context) error
	// OnSleep runs before the actor leaves memory, except when the node crashes.
	OnSleep func(*S, *Context) error
	// OnDestroy runs in the turn that destroys the actor. If it fails, the actor stays.
	OnDestroy func(*S, *Context) error

	// IdleTimeout is how long an actor stays in memory unused. 0 means the runtime's default. If it
	// is negative, only memory pressure and shutdown put the actor to sleep.
	IdleTimeout time.Duration
	// Version is the version of the state's form; raise it together with a change to Migrate. A
	// state that was stored by a higher version is refused, untouched, with the error code
	// StateTooNew.
	Version uint64
	// Migrate fills a zero state from one stored with a lower version; nil decodes it as it is. It
	// must depend on its arguments only, because queries run it too, on a copy. The next turn that
	// changes the state saves the result.
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

	// Migrations are the schema of the actors' SQLite databases. When an actor wakes, it applies
	// missing migrations in order, before any of its code runs. Append new migrations, and never
	// change applied ones. If one fails the actor does not run, with the error code ActorFailed,
	// and its data is as it was. See [ReadMigrations].
	Migrations []Migration
	// OpenSQL opens the built-in methods sql.query and sql.exec to all callers of the actor.
	// Otherwise they are for operators.
	OpenSQL bool
	// OpenKV opens the built-in methods kv.* in the same way.
	OpenKV bool
	// SQLDecimal allows SQLite's functions of exact decimals (decimal_add and so on). They are left
	// out by default, because one call with long numbers takes as long as the turn or query may.
	SQLDecimal bool
}

// A Stored is a state saved by an earlier version of the type's code.
type Stored struct {
	version uint64
	blob    []byte
	codec   *codec.Codec
}

// Version returns the Spec.Version that the state was saved with.
func (o Stored) Version() uint64 { return o.version }

// Decode decodes the state into the value that v points to: a struct of the old form, or the new
// state as far as its fields still fit. Stored fields that v does not have are ignored. It may be
// called more than once.
func (o Stored) Decode(v any) error { return o.codec.DecodeCBOR(o.blob, v) }

// A Definition is an actor type with its implementation. A runtime hosts it. Made by [Define].
// Immutable.
type Definition struct {
	name     string
	behavior *host.Behavior
	faults   []error
}

// Define implements a type. Bind each action, query, creation method, alarm, schedule and queue of
// the type exactly once, except queues that workers or the run receive. Hooks of connections and
// events, and handlers of the changes of maps, are optional. [Definition.Validate] reports
// mistakes; opening a runtime calls it.
func Define[S any](t *Type[S], spec Spec[S], bindings ...Binding[S]) Definition {
	if t == nil || t.core == nil {
		return Definition{faults: []error{&ContractError{Reason: "Define was given a nil Type"}}}
	}
	p := &program{
		core: t.core, version: spec.Version, state: codec.Of[S](t.core.codec, codec.CBOR), stateOf: stateOf[S],
		create: hook(spec.OnCreate), wake: hook(spec.OnWake), sleep: hook(spec.OnSleep), destroy: hook(spec.OnDestroy),
	}
	if spec.Migrate != nil {
		p.migrate = func(s any, old Stored) error { return spec.Migrate(s.(*S), old) }
	}
	b := &host.Behavior{
		IdleTimeout: spec.IdleTimeout,
		Limits:      spec.Limits,
		Migrations:  spec.Migrations,
		OpenSQL:     spec.OpenSQL,
		OpenKV:      spec.OpenKV,
		SQLDecimal:  spec.SQLDecimal,
		New:         func() host.Instance { return &(&instance[S]{awake: awake{p}}).awake },
	}
	ties := make([]tie, len(bindings))
	for i := range bindings {
		ties[i] = bindings[i].tie
	}
	return define(p, b, ties)
}

// hook returns the lifecycle hook f as a function of a state of any type.
func hook[S any](f func(*S, *Context) error) func(s any, ctx *Context) error {
	if f == nil {
		return nil
	}
	return func(s any, ctx *Context) error { return f(s.(*S), ctx) }
}

// define completes a program and its behavior.
func define(p *program, b *host.Behavior, bindings []tie) Definition {
	b.StateVersion, b.SharedState, b.Migrations = p.version, p.state.IsFlat(), slices.Clone(b.Migrations)
	b.HasSleep, b.HasWake = p.sleep != nil, p.wake != nil
	b.Decode, b.Query, b.Convert, b.Schema = p.decode, p.query, p.convert, p.schema
	d := definer{core: p.core, behavior: b, bound: make(map[place]bound),
		values: make(map[host.ValueKind][]codec.Described), connect: none, disconnect: none}
	for i := range bindings {
		d.bind(bindings[i], i)
	}
	d.compile()
	d.checkState(p.state.Faults(), p.migrate != nil)
	d.checkLimits(b.Limits)
	d.checkMigrations(b.Migrations)
	if len(d.faults) == 0 {
		p.values = d.values
		p.methods, p.alarms, p.queues = numbered(bindings, d.methods), numbered(bindings, d.alarms),
			numbered(bindings, d.queues)
		p.schedules, p.events, p.maps = numbered(bindings, d.schedules),
			numbered(bindings, d.events), numbered(bindings, d.maps)
		p.connections = numbered(bindings, []int{d.connect, d.disconnect})
	}
	return Definition{name: p.core.name, behavior: b, faults: d.faults}
}

// numbered returns the bindings with the given numbers. For the number none the binding is empty.
func numbered(bindings []tie, numbers []int) []tie {
	out := make([]tie, len(numbers))
	for i, n := range numbers {
		if n != none {
			out[i] = bindings[n]
		}
	}
	return out
}

// Type returns the name of the actor type.
func (d Definition) Type() string { return d.name }

// Validate reports every fault of the contract and of its implementation, joined; each is a
// [*ContractError].
func (d Definition) Validate() error {
	if d.behavior == nil && len(d.faults) == 0 {
		return &ContractError{Reason: "a Definition is made by Define"}
	}
	return errors.Join(d.faults...)
}

// Behavior returns the behavior for a runtime, or nil if [Definition.Validate] reports a fault.
func (d Definition) Behavior() *host.Behavior {
	if len(d.faults) > 0 {
		return nil
	}
	return d.behavior
}

// A definer builds one Definition: the tables of the behavior, and the number of the binding of
// each row.
type definer struct {
	core     *core
	behavior *host.Behavior
	bound    map[place]bound
	values   map[host.ValueKind][]codec.Described
	faults   []error

	methods, alarms, queues, schedules, events, maps []int
	connect, disconnect                              int
}

// none is the number of an absent binding.
const none = -1

// A bound is a binding with its number.
type bound struct {
	tie
	number int
}

// at returns the binding of a place, or an empty one.
func (d *definer) at(decl *declared, s slot) (b bound, ok bool) {
	if b, ok = d.bound[place{decl, s}]; !ok {
		b.number = none
	}
	return b, ok
}

// A place is where a handler goes.
type place struct {
	decl *declared
	slot slot
}

func (d *definer) fault(contract, format string, args ...any) {
	d.faults = append(d.faults,
		&ContractError{Type: d.core.name, Contract: contract, Reason: fmt.Sprintf(format, args...)})
}

// bind enters a binding, an argument of Define.
func (d *definer) bind(b tie, number int) {
	at := place{b.decl, b.slot}
	switch {
	case b.decl == nil:
		d.fault("", "binding %d is of a nil contract value", number+1)
	case b.decl.core != d.core:
		d.fault(b.decl.String(), "is declared on another Type value, %q, and cannot be bound here", b.decl.core.name)
	case b.decl.queue.ByRun:
		d.fault(b.decl.String(),
			"is received by the workflow run (QueueConfig.ByRun) and cannot be bound, to %s", b.handler)
	case b.decl.workers:
		d.fault(b.decl.String(), "is received by workers (QueueConfig.Workers) and cannot be bound, to %s", b.handler)
	case b.handler == "":
		d.fault(b.decl.String(), "is bound to a nil handler")
		d.bound[at] = bound{b, number}
	default:
		if other, ok := d.bound[at]; ok {
			d.fault(b.decl.String(), "is bound twice, to %s and %s", other.handler, b.handler)
		}
		d.bound[at] = bound{b, number}
	}
}

// compile checks the declared contract values and lays out the tables.
func (d *definer) compile() {
	d.behavior.Type = d.core.name
	if f := nameFault(d.core.name); f != "" {
		d.fault("", "%s", f)
	}
	type spot struct {
		space kind
		name  string
	}
	taken := make(map[spot]*declared)
	for _, c := range d.core.contracts() {
		if f := c.nameFault(); f != "" {
			d.fault(c.String(), "%s", f)
		}
		at := spot{c.kind.space(), c.name}
		if other, ok := taken[at]; ok && c.kind == kindConnections {
			d.fault(c.String(), "are declared twice; a type has one NewConnections")
		} else if ok {
			d.fault(c.String(), "there is also %s; names must differ", other)
		}
		taken[at] = c
		for _, f := range c.faults {
			d.fault(c.String(), "%s", f)
		}
		b, ok := d.at(c, slotOnly)
		if bind := c.binder(); bind != "" && !ok {
			hint := ""
			if c.kind.space() == kindQueue {
				hint = ", or set QueueConfig.Workers"
			}
			d.fault(c.String(), "is declared but not bound: pass actor.%s(...) to actor.Define%s", bind, hint)
			continue
		}
		d.add(c, b)
	}
}

// add enters a contract value into the tables.
func (d *definer) add(c *declared, b bound) {
	behavior := d.behavior
	for _, v := range c.values {
		d.values[v.Kind] = append(d.values[v.Kind], v)
	}
	switch c.kind {
	case kindAction, kindQuery, kindCreate:
		behavior.Methods = append(behavior.Methods,
			host.Method{Name: c.name, Kind: c.kind.method(), Handler: b.handler})
		d.methods = append(d.methods, b.number)
	case kindAlarm:
		behavior.Alarms = append(behavior.Alarms, host.AlarmMethod{Name: c.name, Handler: b.handler})
		d.alarms = append(d.alarms, b.number)
	case kindEvent:
		behavior.Events = append(behavior.Events, host.Event{Name: c.name, Durable: c.durable, Subscribe: b.handler})
		d.events = append(d.events, b.number)
	case kindQueue:
		q := c.queue
		q.Handler = b.handler
		behavior.Queues = append(behavior.Queues, q)
		d.queues = append(d.queues, b.number)
	case kindSchedule:
		behavior.Schedules = append(behavior.Schedules, host.ScheduleMethod{Name: c.name, Handler: b.handler})
		d.schedules = append(d.schedules, b.number)
	case kindStream:
		behavior.Streams = append(behavior.Streams, c.stream)
	case kindMap:
		if b.handler != "" && (c.scope == nil || !c.scope.Log) {
			d.fault(c.String(), "has no log (MapConfig.Log), so its changes cannot be bound, to %s", b.handler)
		}
		if c.scope != nil {
			scope := *c.scope
			scope.Handler = b.handler
			behavior.Maps = append(behavior.Maps, scope)
			d.maps = append(d.maps, b.number)
		}
	case kindAttribute:
		if slices.Contains(host.ListFields, c.name) {
			d.fault(c.String(), "every actor has a field of this name: %s", strings.Join(host.ListFields, ", "))
		}
		behavior.Attributes = append(behavior.Attributes, host.Attribute{Name: c.name, Kind: c.attribute})
		if len(behavior.Attributes) == host.MaxAttributes+1 {
			d.fault(c.String(), "a type has up to %d attributes", host.MaxAttributes)
		}
	case kindWorkflow:
		behavior.Workflows = append(behavior.Workflows, *b.workflow)
		if err := b.workflow.Program.Err(); err != nil {
			d.fault(c.String(), "%s", err)
		}
	case kindConnections:
		connect, _ := d.at(c, slotConnect)
		disconnect, _ := d.at(c, slotDisconnect)
		behavior.Connections = host.ConnectionMethods{Connect: connect.handler, Disconnect: disconnect.handler}
		d.connect, d.disconnect = connect.number, disconnect.number
	}
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

// checkState reports faults of the state's type, and a Migrate function that is never called.
func (d *definer) checkState(faults []string, migrates bool) {
	for _, f := range faults {
		d.fault("state", "%s", f)
	}
	if migrates && d.behavior.StateVersion == 0 {
		d.fault("Spec.Migrate", "is never called while Spec.Version is 0")
	}
}
