// Package kvconnect serves the key-value store of an actor to the clients of Deno KV, over the
// protocol KV Connect.
//
// It only translates: each request of the protocol becomes one call of kv.list_many or kv.commit,
// or watches keys. The messages are those of the package com.deno.kv.datapath, in Protocol Buffers.
//
//  1. A key that is written is a tuple of bytes, strings, integers, doubles and booleans, in its
//     one stored form. A bound of a range is any bytes.
//  2. What a client of Deno KV wrote it reads back byte by byte. Values of other encodings are
//     translated to what V8 serializes.
//  3. A fault of the client is a text with a status from 400 to 499, which ends its call. It
//     repeats a call after 500 and above.
package kvconnect
