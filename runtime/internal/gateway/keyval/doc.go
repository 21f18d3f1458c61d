// Package keyval serves the key-value store and a queue of an actor over the interface of KeyVal:
// keys in paths, lists, atomic commits, filters, search, a queue with dead letters, and watchers,
// over REST and server-sent events.
//
// It only translates to the methods kv.* and queue.*. Its clients are written in JavaScript, so a
// number in a key is a double:
//
//		users/7, ["users",7]                        ("users", 7.0)
//		["users",{"__type":"bigint","value":"7"}]   ("users", 7)
//
//	 1. Whatever a client sends, nothing is deleted that it has not named: a body that cannot be read is an error.
//	 2. A number never loses digits. An integer that JavaScript's numbers cannot hold is {"__type":"bigint","value":text}.
//	 3. A versionstamp is the version of an entry as clients of Deno KV see it, in hexadecimal.
package keyval
