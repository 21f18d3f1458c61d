// Package workflowtest runs workflows in memory, for tests: with a clock that jumps, with bodies of
// steps replaced, with the process dying wherever the test wants.
//
// [New] makes an [Env], which is a host in memory of the run of one workflow and of the children
// that it spawns in other actors. Nothing happens in it by itself: [Env.Start], [Actor.Send] and
// the like only write, and [Env.Wait], [Env.Settle], [Env.Advance] and [Env.Until] let what is
// there to do happen.
//
// [CrashEverywhere] runs a test again and again, and lets the process die before and after every
// commit of it. [Replay] and [ReplayDir] hold a program against recordings of runs of earlier
// versions of it.
//
// # Time
//
// The clock of an Env stands still while there is anything else to do, and then jumps to when a run
// wants to wake. Bodies of steps run on goroutines of their own, one after another in the order in
// which they were asked for; so a test comes to the same history each time. A body that waits for
// something that only happens after it says so with [Block].
//
// In a bubble of testing/synctest the clock is that of the bubble, and bodies run at the same time,
// as they do in production. That is how to test time limits of steps, and bodies that wait for each
// other or sleep.
package workflowtest
