package sqlitevfs

import (
	"log/slog"
	"time"
)

// Defaults of Options.
const (
	DefaultMaxOpen       = 2000
	DefaultMaxMemory     = 1 << 30
	DefaultConnMemory    = 32 << 20
	DefaultTurnBytes     = 64 << 20
	DefaultCacheBytes    = 2 << 20
	DefaultIdleTime      = 30 * time.Second
	DefaultStatements    = 32
	DefaultTemporary     = 64 << 20
	DefaultMaxResultText = 16 << 20
)

// Options of a Pool. The zero value of a field means its default.
type Options struct {
	// MaxOpen bounds the open connections. When it is reached the one that was used least recently is closed; if all are
	// in use, the next one to be opened is refused with [ErrBusy].
	MaxOpen int
	// MaxMemory bounds what the open connections take, in bytes, as far as they are idle.
	MaxMemory int64
	// ConnMemory bounds the heap of one connection, in bytes: page cache, undo journal, sorts, statements. A statement
	// that needs more fails with [ErrMemory].
	ConnMemory int64
	// TurnBytes bounds the pages that one write session changes, in bytes; a statement that changes more fails with [ErrFull].
	TurnBytes int64
	// CacheBytes bounds the page cache of one connection.
	CacheBytes int64
	// Temporary bounds the temporary files of one connection, in bytes: large sorts, VACUUM. They are in memory.
	Temporary int64
	// MaxLength bounds one string, blob or row, in bytes.
	MaxLength int
	// Statements is how many prepared statements a connection keeps.
	Statements int
	// IdleTime is after how long an idle connection is closed.
	IdleTime time.Duration
	// Logger takes what operators should know; nil means slog.Default().
	Logger *slog.Logger
}

// A Pool opens connections for many databases and keeps those that were used last. Its methods may be called from any
// goroutine.
type Pool struct{}

// NewPool returns a pool, or the faults of its options, joined.
func NewPool(o Options) (*Pool, error) { panic("seam") }

// Close closes the idle connections and refuses new sessions; connections in use are closed when their session ends, and
// Close waits for that.
func (p *Pool) Close() error { panic("seam") }

// Stats are counts of a pool.
type Stats struct {
	Open, InUse             int   // connections
	Bytes                   int64 // what the open connections take, estimated
	Opened, Evicted, Closed uint64
}

// Stats returns the counts of the pool.
func (p *Pool) Stats() Stats { panic("seam") }

// Database returns a database, which costs nothing before its first statement. name is for logs.
func (p *Pool) Database(name string) *Database { panic("seam") }
