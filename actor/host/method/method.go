// Package method is the table of the built-in methods: the methods that every actor has besides
// those of its type.
//
// A [Row] has the facts that programs need to call, serve, show and bound a method. Nothing else in
// the module repeats them: the runtime binds a function to each row, and gateways, clients and
// commands look a row up with [Find] or range over [All].
//
// A generic command needs four columns. Input is a struct whose members, by their json tags, are
// the arguments and flags; a member of a type with text must be given unless its tag says
// omitempty, and the tag range bounds a number. Output is the struct to print. Summary is the help
// text. Kind says whether the call changes something. The variable of a row, such as [QueueSend],
// also carries the types of input and output, so that a call with other types does not compile.
package method

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A Row describes a built-in method. The row of a name that the table lacks is the zero value: a
// method for operators that neither waits nor creates.
type Row struct {
	// Name has a dot, which names of types' methods cannot have. The part before the dot is the
	// family.
	Name string
	// Kind is Action, or Query for a method that changes nothing and can be repeated.
	Kind host.MethodKind
	// Input and Output are structs of package host or workflow; nil for none.
	Input, Output reflect.Type
	// New makes an input, the zero value, and returns a pointer to it. It takes less time than
	// reflect.New.
	New func() any
	// Caller is the group of callers that may use it.
	Caller Caller
	// Subject selects the types it applies to, and the values that its input and output carry.
	Subject Subject
	// Creates is set if a call creates the actor. For an OpenSQL or OpenKV method this holds only
	// if the type is open.
	Creates bool
	// Waits is set if the input has wait_ms, and a call waits that long for something to appear.
	Waits bool
	// Free is set if a call does not count against [host.Limits.CallRate], because it ends or
	// continues a counted one. A refusal would only bring back messages that a worker has received.
	Free bool
	// Reasoned is set if a call must give a reason.
	Reasoned bool
	// Offline is set if it also works on a store without a running node.
	Offline bool
	// Summary says in one sentence what it does.
	Summary string
}

// A Caller is a group of callers.
type Caller uint8

// The callers.
const (
	// Operators look after actors.
	Operators Caller = iota
	// OpenSQL is anyone if the type has OpenSQL, and operators if not; OpenKV is alike.
	OpenSQL
	OpenKV
	// Workers receive messages of queues.
	Workers
	// Followers read streams.
	Followers
	// Anyone is every client.
	Anyone
)

// A Subject is the part of an actor that a method concerns.
type Subject uint8

// The subjects. Except for the actor itself, a type has a subject if it declares one.
const (
	Actor Subject = iota
	// Queues are all queues, WorkerQueues the queues that workers receive from.
	Queues
	WorkerQueues
	Schedules
	Alarms
	// Streams are all streams, ExternalStreams the streams that clients append to.
	Streams
	ExternalStreams
	// Workflows are the programs of runs, with inputs of the type. Runs are the stored runs.
	Workflows
	Runs
)

// MaxWait bounds the wait of a call.
const MaxWait = time.Minute

// A Typed row has the Go types of its input and output. It does not embed the row, whose methods
// would be compiled for each pair of types.
type Typed[In, Out any] struct{ Row *Row }

// None is the input or output of a method that has none.
type None struct{}

// By returns the callers that may use the method, given what the type opens to its callers. It is
// never OpenSQL or OpenKV.
func (r *Row) By(open host.Open) Caller {
	need, opens := r.opened()
	switch {
	case !opens:
		return r.Caller
	case open&need != 0:
		return Anyone
	}
	return Operators
}

// Openable reports whether a type can open the method to its callers.
func (r *Row) Openable() bool {
	_, opens := r.opened()
	return opens
}

// opened returns what a type must open so that any caller may use the method; false means that this
// does not depend on the type.
func (r *Row) opened() (host.Open, bool) {
	switch r.Caller {
	case OpenSQL:
		return host.SQLOpen, true
	case OpenKV:
		return host.KVOpen, true
	}
	return 0, false
}

// Creating reports whether a call of the method creates an actor of a type.
func (r *Row) Creating(open host.Open) bool {
	need, opens := r.opened()
	return r.Creates && (!opens || open&need != 0)
}

// Counted reports whether calls from outside count against the rate of an actor. Those of operators
// do not, because operators must work while callers keep the actor busy.
func (r *Row) Counted(open host.Open) bool { return !r.Free && r.By(open) != Operators }

// BuiltIn reports whether a name is the name of a built-in method, in the table or not: names of
// types' methods have no dot.
func BuiltIn(name string) bool { return strings.IndexByte(name, '.') >= 0 }

// Find returns the row of a built-in method.
func Find(name string) (Row, bool) {
	if !BuiltIn(name) {
		return Row{}, false
	}
	i, ok := place(name)
	if !ok {
		return Row{}, false
	}
	return *table[i], true
}

// place returns the position of a name's row in the table, or where it belongs.
func place(name string) (int, bool) {
	return slices.BinarySearchFunc(table, name, func(r *Row, name string) int { return cmp.Compare(r.Name, name) })
}

// All returns the rows in the order of their names.
func All() []Row {
	rows := make([]Row, len(table))
	for i, r := range table {
		rows[i] = *r
	}
	return rows
}
