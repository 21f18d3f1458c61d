// Package workflow runs ordinary Go functions that survive crashes, restarts and deploys.
//
// A workflow function is deterministic: it decides, and asks for everything else by name. What each named operation came
// to is kept in a history; after a crash the function runs again from its first line, and operations that are in the
// history return what they returned before. While the process lives, the function is not run again: it is a coroutine
// that waits where it is.
//
// The package knows no database and no actor. It runs over a [Turn], which is one transaction of its host: whatever an
// operation changes, its entry in the history included, is part of that one transaction.
//
// # Locations
//
// An operation is identified by its name within its scope. Scopes nest: the root, the iterations of a loop, the branches of
// a join. Within a scope the order of operations is recorded as well, and a function that asks for something else, or in
// another order, than its history says is paused with a report instead of being run on (see [Diverged]).
package workflow
