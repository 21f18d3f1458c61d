// Package workflowtest runs workflows in memory, for tests: with a clock that jumps, replaced
// bodies of steps, and crashes at any place.
//
// [New] makes an [Env], a host in memory for the run of one workflow and for the children that it
// spawns in other actors. It does nothing by itself: [Env.Start], [Actor.Send] and the like only
// write, and [Env.Wait], [Env.Settle], [Env.Advance] and [Env.Until] run what is due.
//
// [CrashEverywhere] runs a test repeatedly, with a crash before and after every commit of it.
// [Replay] and [ReplayDir] check a program against recordings of runs of its earlier versions.
//
// # Time
//
// The clock of an Env stands still while there is anything else to do, and then jumps to the next
// wake time of a run. Bodies of steps run on goroutines of their own, one after another in the
// order in which the steps began, so a test makes the same history each time. A body calls [Block]
// to wait for an event that comes only after it.
//
// In a bubble of testing/synctest the clock is that of the bubble, and bodies run at the same time,
// as they do in production. That is how to test time limits of steps, and bodies that wait for each
// other or sleep.
package workflowtest
