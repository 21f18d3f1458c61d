// Package host is the contract between an actor's code and the runtime that hosts it, at the level
// of bytes.
//
// It stands to package actor as database/sql/driver stands to database/sql. Application authors use
// package actor, whose typed contracts and bindings compile down to a [Behavior]; a runtime takes
// behaviors, gives every turn a [Turn] to read and write through, and answers calls that reach it
// through a [Node].
//
// The nouns: a [Behavior] is one actor type's code. An [Instance] is one awake actor's state in
// memory. A [Turn] is what a handler may do while it runs, a [Reader] what a query may do. A [Node]
// takes calls: a runtime in this process, a remote client, or the turn that is running.
//
// The package is outside the module's compatibility promise.
package host
