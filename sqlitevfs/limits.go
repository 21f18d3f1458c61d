package sqlitevfs

import (
	"github.com/ncruces/go-sqlite3"
)

// Limits bound the sessions of one database. A zero field is as the pool's Options have it, which
// say what each bounds. ConnMemory and Temporary can be less than what the Options say, and not
// more: the memory of connections is shared out by that.
type Limits struct {
	ConnMemory, TurnBytes, Temporary int64
	MaxLength                        int
}

// The least that a limit can be; less counts as this.
const (
	MinConnMemory = 1 << 20
	MinTurnBytes  = 16 * PageSize
	MinTemporary  = chunkSize
	MinLength     = 1024
)

// MaxLength is the most that Limits.MaxLength can be: SQLite's own bound. More counts as this.
const MaxLength = 1_000_000_000

// limits returns l with nothing left out.
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

// SetLimits sets the limits of sessions that begin from now on. A session that has begun keeps its
// limits.
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

// fit gives the connection the limits of its database for a session. An instance that has served
// another database still has some limits of that database.
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
