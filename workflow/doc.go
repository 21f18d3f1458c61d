// Package workflow runs ordinary Go functions that survive crashes, restarts and deploys.
//
// A workflow function is deterministic: it decides, and asks for everything else by name. What
// each named operation came to is kept in a history; after a crash the function runs again from
// its first line, and operations that are in the history return what they returned before. While
// the process lives, the function is not run again: it is a coroutine that waits where it is.
//
// This package is what authors of workflow functions use: [Step] and its options, [Sleep],
// [Receive] and [Await], [Loop], [Join], [Race] and [ForEach], [Saga] and [Compensated], [Spawn],
// [Version]. It knows no database and no actor. A host runs the functions, with package
// workflow/host. Everything that an operation changes is part of one transaction of the host, as
// is its entry in the history.
//
// Some types are aliases of an internal package. Their comments list fields and methods as code.
//
// # Locations
//
// An operation is identified by its name within its scope. Scopes nest: the root, the iterations
// of a loop, the branches of a join. Within a scope the order of operations is recorded as well,
// and a function that asks for something else, or in another order, than its history says is
// paused with a report instead of being run on.
//
// # Order
//
// Of the coroutines of a run one executes at a time, so branches may share variables. The
// ends of operations are numbered, and the entry of each holds its number. When the function runs
// again, operations end in the order of these numbers, each when every coroutine waits; what
// happened while they were running is decided by that, so it happens again.
//
// # What a function must not do
//
// Go statements, channels, locks, I/O, package time and global variables belong into the bodies
// of steps, which run on goroutines of the host and may do anything. A function that waits by
// such means blocks its host, and one that decides by them may decide otherwise when it runs
// again. The package finds many such mistakes, but not all: a [Context] that is used by a
// goroutine of the function's own while the function executes is a data race, and is not noticed.
//
// Functions that run within a transaction (those of [Update], StepCtx.OnCommit, and the probes of
// [Await]) run where the host called Run.Advance. They must not call runtime.Goexit, which would
// end the host's goroutine.
package workflow
