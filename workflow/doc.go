// Package workflow runs ordinary Go functions that survive crashes, restarts and deploys.
//
// A workflow function is deterministic: it decides, and does everything else by named operations.
// The result of each operation is kept in a history. After a crash the function runs again from its
// first line, and operations in the history return what they returned before. While the process
// lives, the function is not run again: it is a coroutine that waits where it is.
//
// This package is for authors of workflow functions: [Step] and its options, [Sleep], [Receive] and
// [Await], [Loop], [Join], [Race] and [ForEach], [Saga] and [Compensated], [Spawn], [Version]. It
// knows no database and no actor. A host runs the functions, with package workflow/host. All
// changes of an operation, and its entry in the history, are part of one transaction of the host.
//
// Some types are aliases of an internal package. Their comments list fields and methods as code.
//
// # Locations
//
// An operation is identified by its name within its scope. Scopes nest: the root, the iterations of
// a loop, the branches of a join. The order of operations within a scope is recorded as well. If
// the function calls other operations than its history has, or in another order, the run is paused
// with a report.
//
// # Order
//
// Only one coroutine of a run executes at a time, so branches may share variables. The ends of
// operations are numbered, and the entry of each holds its number. When the function runs again,
// operations end in the order of these numbers, each when every coroutine waits. These numbers
// decide how coroutines interleave, so a replay repeats it.
//
// # What a function must not do
//
// Go statements, channels, locks, I/O, package time and global variables belong into the bodies of
// steps, which run on goroutines of the host and may do anything. A function that waits by such
// means blocks its host, and a function that decides by them may decide otherwise when it runs
// again. The package finds many such mistakes, but not all: using a [Context] on a goroutine of the
// function's own, while the function executes, is a data race that is not noticed.
//
// Functions that run within a transaction (those of [Update], StepCtx.OnCommit, and the probes of
// [Await]) run where the host called Run.Advance. They must not call runtime.Goexit, which would
// end the host's goroutine.
package workflow
