package sqlitevfs

import (
	"github.com/ncruces/go-sqlite3"
)

// Limits bound the sessions of one database. A zero field means the value of the pool's Options,
// which describe the bounds. ConnMemory and Temporary can be lower than in the Options, but not
// higher: the Options' values divide the memory among connections.
type Limits struct {
	ConnMemory, TurnBytes, Temporary int64
	MaxLength                        int
}

// The least values of the limits; a smaller value counts as the least.
const (
	MinConnMemory = 1 << 20
	MinTurnBytes  = 16 * PageSize
	MinTemporary  = chunkSize
	MinLength     = 1024
)

// MaxLength is the largest Limits.MaxLength: SQLite's own bound. A larger value counts as this.
const MaxLength = 1_000_000_000

// limits returns l with all fields set.
func (p *Pool) limits(l Limits) Limits {
	o := &p.options
	or := func(v, otherwise, least int64) int64 {
		if v == 0 {
			return otherwise
		}
		return max(v, least)
	}
	return Limits{
		ConnMemory: min(or(l.ConnMemory, o.ConnMemory, MinConnMemory), o.ConnMemory),
		TurnBytes:  or(l.TurnBytes, o.TurnBytes, MinTurnBytes),
		Temporary:  min(or(l.Temporary, o.Temporary, MinTemporary), o.Temporary),
		MaxLength:  int(min(or(int64(l.MaxLength), int64(o.MaxLength), MinLength), MaxLength)),
	}
}

// SetLimits sets the limits of sessions that begin from now on. A running session keeps its limits.
func (d *Database) SetLimits(l Limits) {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	d.limits = d.pool.limits(l)
}

// bounds returns the limits that errors name: those of the pool while the connection is being
// opened.
func (c *conn) bounds() Limits {
	if c.limits == (Limits{}) {
		return c.database.pool.limits(Limits{})
	}
	return c.limits
}

// fit sets the limits of the connection's database for a session. A reused instance still has some
// limits of its last database.
func (c *conn) fit(l Limits) {
	if c.limits == l {
		return
	}
	c.limits, c.maxLength = l, l.MaxLength
	c.file.limit = l.TurnBytes
	c.fs.temp.limit = min(l.Temporary, c.fs.temp.all.limit)
	c.fs.undo.limit = min(2*l.TurnBytes, c.fs.undo.all.limit)
	c.db.Limit(sqlite3.LIMIT_LENGTH, l.MaxLength)
}
