// Package sqlitevfs keeps SQLite databases in a key-value store: a page is a key, and what a transaction changes is
// handed to a write set of the caller's, to be committed together with whatever else is in it.
//
// A [Database] belongs to one keyspace, as one actor has it. Its work is done in sessions. The one write session at a
// time, [Database.Write], is one SQLite transaction from its first statement to [Session.Commit], which puts the changed
// pages into a [Writer] and does not make them durable: that is for the writer's owner. Any number of read sessions,
// [Database.Read], see what their [Reader] sees, usually a snapshot. Each session gives out an ordinary *[database/sql.DB];
// BEGIN, COMMIT and ROLLBACK inside it work on savepoints of the session.
//
// Below, a session runs on a native connection, which costs some 0.4 MiB to keep. A [Pool] keeps those that were used last,
// bounded in number and bytes. One that is closed leaves SQLite behind, made new, for the next that is opened, which
// then costs little more than to read the schema; without that it costs some 0.2 ms.
//
// [Open] is for programs that have a store of their own and no actors: a [DB] with Update and View over a [Store].
//
// # Layout
//
// Keys are those of package keyspace: 09 00 00 is the [Metadata], 09 01 00 and a big-endian u32 a page of the database
// file, counted from 0. A page of 4,096 bytes is stored as it is, or as it was: then the value of the metadata has a patch, which
// says how it has changed since. The pages with their patches, one after the other, are a database file that any SQLite
// opens; that is what [Export] writes.
package sqlitevfs
