// Package keyspace defines all keys that Cairn stores: the keys of an actor, and their rows in the
// store of a node. It handles only bytes: no values, no input or output.
//
// There are two layers:
//
//   - A logical key belongs to one actor. Its first byte is its [Kind]. The variables of the
//     package, such as [QueueMessage] and [SQLiteChunk], are the table of layouts: each states the
//     bytes of a key once, and its methods append and parse keys. [Format] prints any key.
//   - A row is a key of the store: for each logical key a metadata row, with data rows if the value
//     is long; for each actor an identity row; and the rows of the node. [ParseRow] parses any row,
//     and [FormatRow] prints it.
//
// An [ActorID] ties them together. It begins with the actor's hash slot, so the rows of a range of
// slots are contiguous.
//
// # Ranges
//
// Two ends of ranges look alike and differ:
//
//   - Every key that begins with some bytes: [Successor] of these bytes.
//   - Every key whose tuple begins with some elements: [TupleEnd] of the packed elements. Bytes
//     alone would not do: ("a") packs to 02 61 00, which also begins ("a\x00b").
//
// Functions that append return dst, allocate nothing if it has room, and trust their arguments.
// Functions that parse trust nothing, never panic, and return a [*SyntaxError] with the offset of
// the byte at fault.
//
// docs/keyspace.md is the reference, with examples. A test checks that page against this package.
package keyspace
