// Package strata serves the key-value store of an actor over the interface of Strata: commands for
// typed values, with transactions and history.
//
// It only translates to the methods kv.*. A key of a space, which is "default" unless a command
// names another, is the entry of
//
//	(space, key)
//
// and its value is typed. Values of other interfaces are shown with their own type.
//
//  1. A faulty key is an error before anything is done.
//  2. A transaction is only in the memory of the gateway until its commit. It belongs to one actor
//     and one branch, and ends after 30 s without a command.
//  3. A command of a transaction that has ended by itself is refused. It is never done outside of
//     the transaction.
//  4. The first write to a space makes it a scope that keeps versions, unless it is a scope
//     already.
package strata
