// Package kv calls the key-value store of one actor, for callers and operators:
//
//	store := tenants.Ref(node, "acme").KV()
//	entry, found, err := store.Get(ctx, kv.Key{"user", 7})
//
// Keys are arrays of parts, in the order of [Key]. Values have an encoding: a document in JSON, a
// text, bytes. Each call is a request of its own, and reads entries of one commit; [Store.Commit]
// checks and changes many together. Handlers of the actor itself use ctx.KV() of package actor,
// which is part of their commit.
//
// Errors are an *host.Error, which package actor calls Error. The code is InvalidArgument for a bad
// reference, key, filter or mutation, TooLarge for a value beyond a limit, and PermissionDenied for
// a caller that is no operator if the type has no OpenKV. A missing actor has no entries. Any call
// may fail with a code of the node, such as Unavailable, Overloaded or DeadlineExceeded.
package kv
