// Package strata serves the key-value store of an actor as that of Strata: commands about typed
// values, with transactions and history.
//
// It only translates to the methods kv.*. The key of a space, which is "default" unless a command
// names another one, is the entry of
//
//	(space, key)
//
// and its value is typed. Values of other interfaces are shown as what they are.
//
//  1. What a command says of a key that is wrong, it says before anything is done.
//  2. A transaction is in the memory of the gateway, and nothing of it on the node before the
//     commit. It belongs to one actor and one branch, and ends when it has rested for 30 s.
//  3. A command of a transaction that has ended by itself is refused. It is never done outside of
//     it.
//  4. The first write to a space makes it a scope that keeps versions, unless it is a scope
//     already.
package strata
