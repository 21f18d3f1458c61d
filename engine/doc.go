// Package engine keeps the keyspaces of actors in one Pebble database per node. It is the only
// package that imports Pebble.
//
// A [Store] is the database. A [Space] is the keyspace of one awake actor, and its [WriteSet]
// collects what the actor's turns write, on top of what is stored; [Space.Commit] makes the write
// set one atomic batch. Commit returns as soon as the batch can be read, and calls back when it is
// durable, so an actor runs its next turns while the disk syncs. Output that must not leave the
// node before the commit is durable waits for the callback. A [Snapshot] reads the last commit from
// any goroutine.
//
// Beside the actors' own rows, a commit can change rows of the node: the directory
// ([Store.Lookup]), the wake index ([Store.Wakes]) and the outbox ([Store.Outbox]). Their bytes,
// like those of all rows, are in package keyspace.
//
// The cost model, for rows in the cache: opening a space is one read; a commit of a small state is
// one row and reads nothing; a Put of another key is one row more and reads it first, unless the
// caller knows that it is new; a Get is one read, and for a value of more than 10,000 bytes one for
// each of up to two chunks, or an iterator; a list is one iterator.
package engine
