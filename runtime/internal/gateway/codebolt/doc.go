// Package codebolt serves the key-value store of an actor over the interface of Codebolt: instances
// with namespaces of records, over REST, and their changes as events.
//
// It only translates to the methods kv.*. The record of a key is the entry of
//
//	("cb", instance, namespace, key)    the value, a JSON document
//	("cb", instance)                    the instance: {"id","name","description","createdAt","updatedAt"}
//	("cb", true, name, instance)        finds an instance by its name: null
//
// and each instance is a scope, which counts its namespaces and their records.
//
//  1. A record is only written to an instance that exists, which the same commit checks.
//  2. An instance appears and disappears in one commit, with its name and its records. Its scope is
//     made before and removed after; a scope without an instance is not shown.
//  3. Events come from the store's log, with its numbers. The first follower turns the log on.
//  4. Two instances have the same name only if they were imported.
package codebolt
