// Package runtime runs a node: a store, the actors in it, and the ways to reach them.
//
// [Open] embeds a node in a program; the [Runtime] takes calls through the contracts of package
// actor, and its Handler serves them over HTTP. [Main] is a complete daemon for a program that only
// has actors; [Program] adds flags and work of its own. [Inspect] reads the data of a stopped node.
//
// Inside, package engine keeps the data, the kernel decides which actor runs when, and the gateway
// speaks HTTP. If NATS is configured, a publisher sends every change there and takes calls from it.
package runtime
