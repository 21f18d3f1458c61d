// Package codebolt serves the key-value store of an actor as that of Codebolt: instances with
// namespaces of records, over REST, and their changes as events.
//
// It only translates to the methods kv.*. The record of a key is the entry of
//
//	("cb", instance, namespace, key)    the value, a JSON document
//	("cb", instance)                    the instance: {"id","name","description","createdAt","updatedAt"}
//	("cb", true, name, instance)        finds an instance by its name: null
//
// and each instance is a scope, which counts its namespaces and their records.
//
//  1. A record is only written to an instance that is there, in one commit with the check of that.
//  2. An instance appears and disappears in one commit, with its name and its records. Its scope is
//     made before and removed after: one without an instance is not shown.
//  3. Events are those of the store's log, numbered as there. The log is switched on by the first
//     follower.
//  4. Two instances have one name only if they were imported.
package codebolt
