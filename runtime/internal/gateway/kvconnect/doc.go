// Package kvconnect serves the key-value store of an actor to the clients of Deno KV, over the
// protocol KV Connect.
//
// It only translates: each request of the protocol becomes one call of kv.list_many or kv.commit,
// or watches keys. The messages are from the package com.deno.kv.datapath, in Protocol Buffers.
//
//  1. A written key is a tuple of bytes, strings, integers, doubles and booleans, in its only
//     stored form. A bound of a range is any bytes.
//  2. A client of Deno KV reads its own values back unchanged. Values of other encodings are
//     translated to V8's serialization.
//  3. A fault of the client is a text with a status from 400 to 499, after which the client gives
//     up. It repeats a call after 500 and above.
package kvconnect
