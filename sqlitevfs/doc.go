// Package sqlitevfs keeps SQLite databases in a key-value store: a page is a key. A transaction
// puts its changed pages into a write set of the caller, which commits them together with its other
// changes.
//
// A [Database] belongs to one keyspace, such as an actor's. It is used in sessions.
// [Database.Write] begins the write session, one at a time. It is one SQLite transaction from its
// first statement to [Session.Commit], which puts the changed pages into a [Writer]; the writer's
// owner makes them durable. [Database.Read] begins a read session, any number at a time. It sees
// the pages of its [Reader], usually a snapshot. Each session has an ordinary *[database/sql.DB];
// BEGIN, COMMIT and ROLLBACK inside it work on savepoints of the session.
//
// A session runs on a native connection, which costs some 0.4 MiB to keep. A [Pool] keeps the most
// recently used ones, bounded in number and bytes. A closed connection leaves its SQLite instance,
// reset, for the next connection. That one then costs little more than reading the schema; without
// a spare instance it costs some 0.2 ms.
//
// [Open] is for programs that have their own store and no actors: a [DB] with Update and View over
// a [Store].
//
// # Layout
//
// Keys are those of package keyspace: 09 00 00 is the [Metadata], 09 01 00 and a big-endian u32 a
// page of the database file, counted from 0. A page of 4,096 bytes is stored in its present state
// or in an earlier one. In the second case the value of the metadata has a patch with the changes
// since. The patched pages in order are a database file that any SQLite opens; [Export] writes that
// file.
package sqlitevfs
