package sqlitevfs

import (
	"context"
	"io"
)

// PageSize is the size of a page in bytes. An import converts databases with other pages.
const PageSize = 4096

// A Reader reads the keys of one database. It is used by one goroutine at a time.
type Reader interface {
	// Get appends the value of a key to dst and returns the result, and false if there is no such
	// key.
	Get(dst, key []byte) ([]byte, bool, error)
	// Scan calls f for the keys with start <= key < end in their order, until f returns false. The
	// arguments of f are valid during the call only.
	Scan(start, end []byte, f func(key, value []byte) bool) error
}

// A Writer collects changes to the keys of one database until its owner commits or drops them all.
// Reads see the changes.
type Writer interface {
	Reader
	// Put sets a key; both slices are copied. old is the length of the value that it replaces, or
	// -1 if there is none: the database always knows. If there is no room the error is [ErrFull].
	Put(key, value []byte, old int) error
	// DeleteRange removes the keys with start <= key < end.
	DeleteRange(start, end []byte) error
	// Room returns how many bytes of keys and values can be added before Put fails.
	Room() int64
}

// A Bounded writer also says which of its bounds is reached. Without it an error says only that
// there is no room.
type Bounded interface {
	Writer
	// Refusal returns the error of a Put that adds n bytes of keys and values. It wraps [ErrFull],
	// and is nil if they fit.
	Refusal(n int64) error
}

// A Store is the store of [Open]. Its keys may be in a larger keyspace, as long as no others begin
// with 0x09.
type Store interface {
	// Snapshot returns the store as of its last commit, which later commits do not change.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Update calls f with a writer. If f returns nil, Update commits the writer's changes,
	// atomically and durably. There is one Update at a time.
	Update(ctx context.Context, f func(Writer) error) error
}

// A Snapshot is a Reader that must be closed.
type Snapshot interface {
	Reader
	io.Closer
}
