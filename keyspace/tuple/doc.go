// Package tuple is a codec for the FoundationDB tuple encoding: an ordered sequence of typed
// elements becomes bytes whose bytewise order is the order of the elements.
//
// The encoding is the public one, byte for byte, so every tool that reads it reads Cairn's keys.
// The package exists because the official Go package needs cgo and the FoundationDB client library,
// allocates on every key, and panics on malformed bytes.
//
// The nouns:
//
//   - [Tuple] is a slice of elements; [Tuple.Pack] and [Unpack] convert whole tuples.
//   - The Append functions write one element each into a buffer and allocate nothing when the
//     buffer has room.
//   - [Decoder] reads one element at a time, by type.
//   - [SyntaxError] says which byte of an input is wrong; [ElementError] says which element of a
//     tuple cannot be encoded.
//
// # What the decoder accepts
//
// The encoding is canonical: a decoder that accepts bytes guarantees that packing the result gives
// exactly these bytes again. Otherwise two keys could name one thing, and there would be
// duplicates. So:
//
//   - An integer with more bytes than it needs (16 00 01 for 1, or a big integer that fits eight
//     bytes) is refused.
//   - An unterminated string, byte string or nested tuple is refused, and so is an element cut
//     short. There are no trailing bytes: after an element only the next element may follow.
//   - An incomplete versionstamp (ten FF bytes) is refused in both directions; it stands for a
//     value that only a FoundationDB server could fill in.
//   - Floating-point numbers keep their bits: negative zero sorts just below zero, and each NaN
//     keeps its sign and payload (negative NaNs sort below everything, positive ones above).
//   - Strings are not required to be valid UTF-8, neither when packing nor when decoding: the
//     official vectors contain one that is not, and a codec that cannot read a key back cannot
//     repair it either. Callers that care check with [unicode/utf8.ValidString].
//   - Tuples nest at most [MaxDepth] deep, in both directions.
package tuple
