// Package actor is what an application imports to write durable actors and to call them.
//
// An actor is a state struct with a key, run by one turn at a time. Whatever a turn does (the state, its maps, its
// queues, schedules, alarms and streams, what it keeps for its clients, its events, its messages to other actors) becomes
// one commit when the handler returns nil, and leaves no trace when it returns an error or panics. No reply leaves before
// the commit is durable.
//
// The nouns:
//
//   - A [Type] is a kind of actor. Its contract is a set of package variables declared on it: [Action], [Query],
//     [Create], [Event], [Alarm], [Map], [Queue], [RequestQueue], [Schedule], [Stream] and [Connections]. A caller needs
//     only the contract.
//   - A [Definition] is a type's implementation: [Define] binds handlers, which are methods of the state struct, to the
//     contract with [On], [OnQuery], [OnCreate], [OnAlarm], [OnMessage], [OnRequest], [OnSchedule], [OnConnect],
//     [OnDisconnect] and [OnSubscribe]. A runtime takes definitions.
//   - A [Ref] names one actor: a type, a key, and the [Node] that takes the calls.
//   - A [Context] is what a turn may do, a [ReadContext] what a query may do, a [Task] what runs beside the turns. All are
//     a context.Context and a Node.
//   - An [Error] with a [Code] is what crosses between actors and callers.
//
// Declare and bind in two steps: the contract in package variables, the binding in a function that returns the
// Definition. A handler that names its own contract would otherwise be an initialization cycle.
//
// # In a turn and from outside
//
// What an actor holds is used in its turns, as part of their commit, and by callers, who say which actor with a Ref. Where
// both can do the same, the method for callers ends in Of: [Queue.Stats] and [Queue.StatsOf], [Stream.Close] and
// [Stream.CloseOf]. Errors of callers are an [*Error].
//
// Work that has to be done goes into a [Queue], whose messages the actor handles one turn each, or that workers receive;
// work at a certain time into an [Alarm] or a [Schedule]; work that may be lost, and must not keep the actor from its turns,
// into a [Task]. What clients follow as it happens is an [Event], if who was not there does not need it, or an item of a
// [Stream], which is kept.
//
// A queue, schedule or stream that is declared as "*" stands for every name that is not declared: Named says which.
//
// # What is saved
//
// The state, inputs, outputs between actors, the payloads of alarms and schedules, messages, items of streams, what is kept
// for connections and map values are CBOR; inputs and outputs at the gateways, parameters of connections and events are
// JSON. Exported fields are saved, under the name in their cbor tag, else in their json tag, else the
// field's own. A stored field that the struct no longer has is ignored, a new field starts as its zero value; other
// changes take a [Spec] with a higher Version and a Migrate function. Nil and empty slices and maps stay apart. A
// time.Time keeps its nanoseconds and its offset, though not its location's name. A value in a field of type any comes
// back as nil, bool, int64, big.Int, float64, string, []byte, time.Time, []any or map[string]any.
//
// Unexported fields are working memory: they are never saved, and are zero again after a sleep and after any turn that
// failed.
package actor
