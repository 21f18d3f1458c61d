package actor

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// maxName bounds the names of types and of their contracts, in bytes.
const maxName = 64

// None is the input or output of a method that takes or returns nothing. It encodes to no bytes.
type None = codec.None

// A Type is a kind of actor with a state of type S. Make one with [NewType], in a package variable;
// the other contract values are declared on it. Safe for concurrent use.
//
// Every contract value stays registered with its Type for the life of the program, so that [Define]
// can refuse a value that is declared but not bound. Do not declare contracts in a loop.
type Type[S any] struct{ core *core }

// NewType declares a kind of actor. The name is 1 to 64 characters: a letter first, then letters,
// digits, "-" and "_". It is stored with every actor and must not change. A bad name is reported by
// [Definition.Validate].
func NewType[S any](name string) *Type[S] {
	return &Type[S]{core: newCore(name)}
}

// Name returns the type's name.
func (t *Type[S]) Name() string { return t.core.name }

// core is the part that the contract values of one Type share, without the state's Go type.
//
//  1. name and codec never change.
//  2. A contract's index is its position among those of its kind, fixed at declaration; declared
//     only grows.
type core struct {
	name  string
	codec *codec.Codec

	mu       sync.Mutex
	declared []*declared // guarded by mu
}

func newCore(name string) *core { return &core{name: name, codec: codec.New()} }

// A kind of contract value.
type kind uint8

const (
	kindAction kind = iota + 1
	kindQuery
	kindCreate
	kindAlarm
	kindEvent
	kindMap
	kindQueue
	kindSchedule
	kindStream
	kindConnections
	kindWorkflow
	kindAttribute
)

func (k kind) String() string {
	switch k {
	case kindAction:
		return "action"
	case kindQuery:
		return "query"
	case kindCreate:
		return "creation"
	case kindAlarm:
		return "alarm"
	case kindEvent:
		return "event"
	case kindMap:
		return "map"
	case kindQueue:
		return "queue"
	case kindSchedule:
		return "schedule"
	case kindStream:
		return "stream"
	case kindConnections:
		return "connections"
	case kindWorkflow:
		return "workflow"
	case kindAttribute:
		return "attribute"
	}
	return "unknown"
}

// binder names the function that binds the contract, or "" if nothing must be bound.
func (d *declared) binder() string {
	switch d.kind {
	case kindAction:
		return "On"
	case kindQuery:
		return "OnQuery"
	case kindCreate:
		return "OnCreate"
	case kindAlarm:
		return "OnAlarm"
	case kindSchedule:
		return "OnSchedule"
	case kindWorkflow:
		return "OnRun"
	}
	switch {
	case d.kind != kindQueue || d.workers || d.queue.ByRun:
		return ""
	case d.replies:
		return "OnRequest"
	}
	return "OnMessage"
}

// space groups the kinds whose names must differ from each other.
func (k kind) space() kind {
	switch k {
	case kindQuery, kindCreate:
		return kindAction
	}
	return k
}

// open reports whether a contract of the kind may stand for all names that are not declared.
func (k kind) open() bool {
	return k == kindQueue || k == kindSchedule || k == kindStream
}

// declared is the part of a contract value that does not depend on its Go types. Immutable.
type declared struct {
	core    *core
	kind    kind
	name    string
	text    string // its name in errors
	index   int
	durable bool
	queue   host.Queue
	workers bool
	replies bool
	stream  host.Stream
	scope   *host.Map // of a map that bounds or counts; nil otherwise
	values  []codec.Described
	faults  []string

	attribute host.AttributeKind
}

func (d *declared) String() string { return d.text }

// nameFault returns the fault of the declared name, or "".
func (d *declared) nameFault() string {
	if d.kind == kindConnections || d.kind.open() && d.name == host.AnyName {
		return ""
	}
	return nameFault(d.name)
}

// declare registers a contract value with its type.
func (c *core) declare(d declared) *declared {
	d.text = d.kind.String()
	if d.kind != kindConnections {
		d.text = fmt.Sprintf("%s %q", d.kind, d.name)
	}
	d.core = c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.declared {
		if other.kind == d.kind {
			d.index++
		}
	}
	c.declared = append(c.declared, &d)
	return &d
}

// coreOf returns the core of a type. A nil type is reported as a fault when a contract declared on
// it is used.
func coreOf[S any](t *Type[S]) *core {
	if t == nil || t.core == nil {
		return newCore("")
	}
	return t.core
}

// contracts returns the contract values declared so far.
func (c *core) contracts() []*declared {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.declared)
}

// nameFault returns the fault of a name, or "".
func nameFault(name string) string {
	if name == "" || len(name) > maxName {
		return fmt.Sprintf("a name has 1 to %d characters, not %d", maxName, len(name))
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '-' || c == '_'):
		default:
			return `a name is a letter, then letters, digits, "-" and "_"`
		}
	}
	return ""
}
