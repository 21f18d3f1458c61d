// Package actortest tests actors on a real node in virtual time.
//
// [Run] starts a node on a disk in memory inside a testing/synctest bubble. It is the runtime that
// production uses; only the disk and the clock differ. Time stands still while anything runs and
// jumps when everything waits, so a day of alarms rings in microseconds during
// time.Sleep(24*time.Hour). [Harness.Crash] is a power cut: memory is lost, and so is every write
// that was not synced. [Harness.Restart] is a clean stop and start.
//
// The store's own housekeeping takes real time, because it ticks ten times a second: a virtual day
// takes about half a second, so tests should sleep for days rather than months.
//
// A Harness is an actor.Node, so contracts are called through it as through a runtime. Goroutines
// of the test are in the bubble too; network connections are not possible there.
package actortest
