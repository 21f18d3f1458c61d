// Package schedulerows keeps an actor's schedules: when a handler runs, repeatedly or once. It has
// rows only: no goroutine and no clock. [Due] returns the work of a row of the wake index to its
// caller, which runs the handler between [Book.Begin] and [Book.Done] in the handler's own turn. If
// that turn is undone, it calls [Book.Failed] in another turn.
//
// A schedule is one row: its rule, the payload, the tick that comes next, counts. It has exactly
// one row in the wake index, at the time of its next work, and only the turn that does this work
// moves the row. So a tick is neither lost nor recorded twice, even if the power fails.
//
// Ticks that have passed are handled when the row fires, by the schedule's setting:
//
//   - once: the last of them is run, with the number of ticks that it stands for.
//   - all: each is run by itself, the oldest first; of more than the cap, the oldest are skipped.
//   - none: ticks that came while the actor could not run, or while an earlier run was under way,
//     are skipped.
//
// A run that fails is recorded, and a recurring schedule waits for its next tick. A schedule for
// one moment is tried again as an alarm is, until it succeeds; with that, it and its history are
// gone. [clock] defines the effect of daylight saving.
package schedulerows
