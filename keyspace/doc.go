// Package keyspace is the map of everything that Cairn stores: which keys an
// actor has, and which rows of the node's store they become. It knows bytes and
// nothing else: no values, no input or output.
//
// There are two layers, and the nouns follow them:
//
//   - A logical key belongs to one actor. Its first byte is its [Kind]; what
//     follows is fixed by the kind. Each form of key has a type ([QueueMessage],
//     [SQLiteChunk], ...) that implements [Key], an Append function for the hot
//     path, and a Parse function. [Parse] and [Format] take any key.
//   - A row is a key of the store. Its [Space] says what the store keeps there;
//     [SpaceActors] holds the actors' own rows: for each logical key a metadata
//     row, with data rows if the value is long, and for each actor an identity row.
//     [Row] describes any row, [ParseRow] reads it, [FormatRow] prints it.
//
// An [ActorID] ties them together. It begins with the actor's hash slot, so
// that the rows of a range of slots are contiguous.
//
// # Ranges
//
// Two ends of ranges look alike and differ:
//
//   - Every key that begins with some bytes: [Successor] of these bytes.
//   - Every key whose tuple begins with some elements: [TupleEnd] of the packed
//     elements. Bytes alone would not do: ("a") packs to 02 61 00, which is also
//     how ("a\x00b") begins.
//
// Appending functions return dst, allocate nothing if it has room, and trust
// their arguments; parsing functions trust nothing, never panic, and return a
// [*SyntaxError] with the offset of the byte at fault.
//
// The layout is documented, with examples, in docs/keyspace.md; a test checks
// that page against this package.
package keyspace
