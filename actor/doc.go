// Package actor is the API to write durable actors and to call them.
//
// An actor is a state struct with a key, run by one turn at a time. All effects of a turn (on
// state, maps, queues, schedules, alarms, streams, client state, events and messages to other
// actors) become one commit when the handler returns nil. They leave no trace when it returns an
// error or panics. No reply leaves before the commit is durable.
//
// The nouns:
//
//   - A [Type] is a kind of actor. Its contract is a set of package variables declared on it:
//     [Action], [Query], [Create], [Event], [Alarm], [Map], [Queue], [Schedule], [Stream],
//     [Connections] and [Workflow]. A caller needs only the contract.
//   - A [Definition] is a type's implementation: [Define] binds handlers, which are methods of the
//     state struct, to the contract with [On], [OnQuery], [OnCreate], [OnAlarm], [OnMessage],
//     [OnRequest], [OnSchedule], [OnConnect], [OnDisconnect], [OnSubscribe] and [OnRun]. A runtime
//     takes definitions.
//   - A [Context] is for turns, a [ReadContext] for queries, a [Task] for work beside the turns.
//     All are a context.Context and a Node.
//   - A [Ref] names one actor: a type, a key, and the [Node] that takes the calls. A contract value
//     and a Ref make a handle, for callers and operators: Mail.Of(ref). See package handle.
//   - An [Error] with a [Code] crosses between actors and callers.
//
// Declare and bind in two steps: the contract in package variables, the binding in a function that
// returns the Definition. Otherwise a handler that names its own contract would cause an
// initialization cycle.
//
// # In a turn and from outside
//
// The methods of a contract value are for turns, and part of their commit: [Queue.Put],
// [Stream.Append], [Schedule.Set]. Its handle is for callers and operators, and each call is a
// separate request: [handle.Queue.Send], [handle.Stream.Follow], [handle.Schedule.Trigger].
// Actions, queries and creation methods are called with a Ref ([Action.Call]). Errors of callers
// are an [*Error].
//
// Use a [Queue] for work that must be done: the actor handles each message in a turn, or workers
// receive it. Use an [Alarm] or a [Schedule] for work at a certain time, and a [Task] for long work
// that may be lost. Use an [Event] for clients that are connected now, and a [Stream] for readers
// that may come later.
//
// A queue, schedule or stream declared as "*" stands for every name that is not declared; Named
// selects the name.
//
// # Descriptions
//
// A type may describe its own JSON form with a method JSONSchema() []byte: a JSON Schema (2020-12)
// without "$defs" and "$ref". It is called on a zero value; a result that is not a JSON object
// counts as no schema. A method JSONExample() any returns an example for the schema.
//
// # What is saved
//
// The state, inputs, outputs between actors, payloads of alarms and schedules, messages, items of
// streams, connection states and map values are CBOR. Inputs and outputs at the gateways,
// parameters of connections, and events are JSON. Exported fields are saved, under the name in
// their cbor tag, else in their json tag, else the field's own. A stored field that the struct no
// longer has is ignored, and a new field starts as its zero value. Other changes need a [Spec] with
// a higher Version and a Migrate function. Nil and empty slices and maps stay apart. A time.Time
// keeps its nanoseconds and its offset, though not its location's name. A value in a field of type
// any comes back as nil, bool, int64, big.Int, float64, string, []byte, time.Time, []any or
// map[string]any.
//
// Unexported fields are working memory: they are never saved, and are zero again after a sleep and
// after any turn that failed.
package actor
