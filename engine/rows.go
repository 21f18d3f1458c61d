package engine

import "github.com/cairn-run/cairn/keyspace"

// A Reader reads the logical keys of one actor: a WriteSet sees its own writes, a Snapshot
// committed ones. Packages that keep records in an actor's keyspace use it, so a turn and a query
// run the same code.
type Reader interface {
	Get(key []byte) (Entry, bool, error)
	List(q ListQuery) (Page, error)
	// Each visits entries, which are valid during the visit.
	Each(q ListQuery, visit func(*Entry) bool) error
}

// A Writer writes the logical keys of one actor in a turn, and its rows in the
// wake index. *WriteSet is one.
type Writer interface {
	Reader
	Put(key, value []byte, o PutOptions) error
	Delete(key []byte) (bool, error)
	DeleteRange(start, end []byte) (int64, error)
	SetWake(dueMS int64, kind keyspace.WakeKind, name, instance string)
	ClearWake(dueMS int64, kind keyspace.WakeKind, name, instance string)
}

var (
	_ Writer = (*WriteSet)(nil)
	_ Reader = (*Snapshot)(nil)
)
