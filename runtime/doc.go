// Package runtime runs a node: a store, the actors in it, and the ways to reach them.
//
// [Open] embeds a node in a program; the [Runtime] takes calls through the contracts of package
// actor, and its Handler serves them over HTTP. [Main] is the whole daemon for a program that is
// nothing but its actors, and [Program] the same with flags and work of its own. [Inspect] looks
// into the data of a node that is stopped.
//
// What happens inside: package engine keeps the data, the kernel decides which actor runs when, and
// the gateway speaks HTTP. If NATS is configured, a publisher sends every change there and takes
// calls from it.
package runtime
