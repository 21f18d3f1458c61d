package sqlitevfs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Defaults of Options.
const (
	DefaultMaxOpen    = 2000
	DefaultMaxMemory  = 1 << 30
	DefaultConnMemory = 96 << 20
	DefaultTurnBytes  = 64 << 20
	DefaultCacheBytes = 2 << 20
	DefaultIdleTime   = 30 * time.Second
	DefaultStatements = 32
	DefaultTemporary  = 64 << 20
	DefaultMaxLength  = 16 << 20

	DefaultMaxTemporary = 512 << 20
)

// Options of a Pool. The zero value of a field means its default.
type Options struct {
	// MaxOpen bounds the open connections. When it is reached, the least recently used idle one is
	// closed; if all are in use, opening another fails with [ErrBusy]. Spare instances for other
	// databases are not counted: MaxOpen/128 for reading, at least 2 and at most 16, and as many
	// for writing.
	MaxOpen int
	// MaxMemory bounds the memory of the open connections, in bytes: beyond it, idle ones are
	// closed. The connections in use together may exceed it by ConnMemory. Beyond that, opening
	// another one, or a statement that needs more memory, fails with [ErrBusy].
	MaxMemory int64
	// ConnMemory bounds the heap of one connection, in bytes: page cache, sorts, statements. A
	// statement that needs more fails with [ErrMemory]. At least 1 MiB.
	ConnMemory int64
	// TurnBytes bounds the pages that one write session changes, in bytes; a statement that changes
	// more fails with [ErrFull]. The data to undo single statements and savepoints takes up to
	// twice as much.
	TurnBytes int64
	// CacheBytes bounds the page cache of one connection.
	CacheBytes int64
	// Temporary bounds the temporary files of one connection, in bytes: large sorts, VACUUM. They
	// are in memory.
	Temporary int64
	// MaxTemporary bounds the temporary files of all connections together, and the files that are
	// imported, in bytes.
	MaxTemporary int64
	// MaxLength bounds one string, blob or row, in bytes.
	MaxLength int
	// Statements is how many prepared statements a connection keeps.
	Statements int
	// IdleTime is the time after which an idle connection is closed.
	IdleTime time.Duration
	// Logger gets the messages for operators; nil means slog.Default().
	Logger *slog.Logger
}

// withDefaults returns the options with all fields set, or their faults, joined.
func (o Options) withDefaults() (Options, error) {
	var faults []error
	set := func(name string, v *int64, otherwise, least int64) {
		if *v == 0 {
			*v = otherwise
		}
		if *v < least {
			faults = append(faults, fmt.Errorf("sqlitevfs: Options.%s is %d; the least is %d", name, *v, least))
		}
	}
	open, length, statements, idle := int64(o.MaxOpen), int64(o.MaxLength), int64(o.Statements), int64(o.IdleTime)
	set("MaxOpen", &open, DefaultMaxOpen, 1)
	set("MaxMemory", &o.MaxMemory, DefaultMaxMemory, 1)
	set("ConnMemory", &o.ConnMemory, DefaultConnMemory, MinConnMemory)
	set("TurnBytes", &o.TurnBytes, DefaultTurnBytes, MinTurnBytes)
	set("CacheBytes", &o.CacheBytes, DefaultCacheBytes, 16*PageSize)
	set("Temporary", &o.Temporary, DefaultTemporary, chunkSize)
	set("MaxTemporary", &o.MaxTemporary, DefaultMaxTemporary, chunkSize)
	set("MaxLength", &length, DefaultMaxLength, MinLength)
	set("Statements", &statements, DefaultStatements, 1)
	set("IdleTime", &idle, int64(DefaultIdleTime), 1)
	o.MaxOpen, o.MaxLength, o.Statements, o.IdleTime = int(open), int(length), int(statements), time.Duration(idle)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, errors.Join(faults...)
}

// A Pool opens connections for many databases and keeps the most recently used ones. Its methods
// may be called from any goroutine.
//
//  1. A connection is in exactly one of three states. It is in use by one session. Or it is idle,
//     in its database's list and in the pool's list, which is in the order of use. Or it is being
//     closed, and the pool only counts it. A few instances of closed connections are spare, and
//     belong to no connection.
//  2. Connections are opened and closed without the lock.
//  3. One timer serves all: it is set for the longest idle connection or spare.
type Pool struct {
	options Options
	open    context.Context // bounds the heap of the connections that are opened with it
	prefix  string          // of the names of their file systems
	buffers buffers

	temporary sharedBudget

	mu             sync.Mutex
	changed        sync.Cond // of inUse, closing, armed, ahead, watching
	closed         bool
	serial         uint64       // of the last opened connection
	newest, oldest *conn        // idle
	idleBytes      int64        // of the idle ones, part of stats.Bytes
	spares         []*instance  // in the order in which they became spare
	templates      [2]*template // of instances that read, and that write
	stats          Stats
	granted        int64 // how far the connections in use may still grow, in bytes
	closing        int   // being closed
	ahead          bool  // an instance is being made in advance
	armed          bool  // the timer is set, or its function has not yet checked
	timer          *time.Timer

	lookAfter, stopAfter time.Duration // the constants, except in tests
	watched              map[*stopper]string
	watching             bool // watchTimer is set, or its function runs
	watchTimer           *time.Timer
}

// NewPool returns a pool, or the faults of its options, joined.
func NewPool(o Options) (*Pool, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var id [8]byte
	rand.Read(id[:])
	p := &Pool{options: o, prefix: "cairn-" + hex.EncodeToString(id[:]) + "-", lookAfter: lookAfter,
		stopAfter: stopAfter}
	p.open = sqlite3.WithMaxMemory(context.Background(), o.ConnMemory)
	p.changed.L = &p.mu
	p.temporary.limit = o.MaxTemporary
	return p, nil
}

// Close closes the idle connections and refuses new sessions; connections in use are closed when
// their session ends, and Close waits for that.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil && p.timer.Stop() {
		p.armed = false
	}
	var gone []*conn
	for p.oldest != nil {
		gone = append(gone, p.drop(p.oldest))
	}
	spares := p.stale(0)
	p.mu.Unlock()
	p.closeAll(gone)
	p.closeSpares(spares)
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.stats.InUse+p.closing > 0 || p.armed || p.ahead {
		p.changed.Wait()
	}
	if p.watching && p.watchTimer.Stop() {
		p.watching = false
	}
	for p.watching {
		p.changed.Wait()
	}
	return nil
}

// Stats are counts of a pool.
type Stats struct {
	Open, InUse             int   // connections
	Bytes                   int64 // memory of the open connections, estimated
	Opened, Evicted, Closed uint64
}

// Stats returns the counts of the pool.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Database returns a database, which costs nothing before its first statement. name is for logs.
func (p *Pool) Database(name string) *Database {
	return &Database{pool: p, name: name, limits: p.limits(Limits{})}
}

// take returns an idle connection for a session. If it returns nil, the session may open one, which
// is already counted. epoch is that of the database.
func (p *Pool) take(s *Session) (_ *conn, epoch uint64, err error) {
	var gone []*conn
	defer func() { p.closeAll(gone) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, 0, fmt.Errorf("%w: the pool was closed", ErrClosed)
	}
	d := s.database
	if err := d.claim(s); err != nil {
		return nil, 0, err
	}
	for _, c := range slices.Backward(d.idle) {
		if c.write == s.write {
			p.unlink(c)
			p.stats.InUse++
			return c, d.epoch, nil
		}
	}
	for p.oldest != nil && (p.stats.Open >= p.options.MaxOpen || p.stats.Bytes > p.options.MaxMemory) {
		gone = append(gone, p.evict())
	}
	if err := p.full(); err != nil {
		if s.write {
			d.writer = nil
		}
		return nil, 0, err
	}
	p.stats.InUse++
	p.stats.Open++
	p.stats.Opened++
	return nil, d.epoch, nil
}

// full returns the reason why no connection can be opened if none is idle, or nil. REQUIRES: mu
func (p *Pool) full() error {
	if p.stats.Open >= p.options.MaxOpen {
		return fmt.Errorf("%w: all %d connections are in use", ErrBusy, p.options.MaxOpen)
	}
	// A connection that has grown to its limit does not keep all others out.
	if most := p.most(); p.stats.Bytes > most {
		return fmt.Errorf("%w: the connections in use take %d bytes of memory, and no more are opened beyond %d", ErrBusy, p.stats.Bytes, most)
	}
	return nil
}

// put takes back the connection of a session; c is nil if none could be opened. It closes the
// connection if it is stained.
func (p *Pool) put(s *Session, c *conn) {
	var gone []*conn
	p.mu.Lock()
	d := s.database
	if d.writer == s {
		d.writer = nil
	}
	p.stats.InUse--
	if c != nil {
		delete(p.watched, &c.stop)
		d.extensions |= c.extensions
		p.revoke(c)
	}
	switch {
	case c == nil:
		p.stats.Open--
		p.changed.Broadcast()
	case c.stained != "" || p.closed || d.closed || c.epoch != d.epoch:
		p.count(c)
		gone = append(gone, p.forget(c))
	default:
		p.count(c)
		p.link(c)
		for p.stats.Bytes > p.options.MaxMemory && p.oldest != nil {
			gone = append(gone, p.evict())
		}
		p.arm()
	}
	p.mu.Unlock()
	p.closeAll(gone)
}

// due is the size up to which a connection is kept, in bytes: its memory never shrinks.
func (p *Pool) due() int64 { return 2<<20 + p.options.CacheBytes*5/4 }

// count updates the size of a connection in use. REQUIRES: mu
func (p *Pool) count(c *conn) {
	size := c.size()
	p.stats.Bytes += size - c.bytes
	c.bytes = size
}

// grown is count during a session.
func (p *Pool) grown(c *conn) {
	p.mu.Lock()
	p.count(c)
	p.mu.Unlock()
}

// link adds a connection to the idle ones. REQUIRES: mu
func (p *Pool) link(c *conn) {
	c.since = time.Now()
	p.idleBytes += c.bytes
	c.older, c.newer = p.newest, nil
	if p.newest != nil {
		p.newest.newer = c
	} else {
		p.oldest = c
	}
	p.newest = c
	c.database.idle = append(c.database.idle, c)
}

// unlink removes a connection from the idle ones. REQUIRES: mu
func (p *Pool) unlink(c *conn) {
	p.idleBytes -= c.bytes
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		p.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		p.newest = c.older
	}
	c.older, c.newer = nil, nil
	d := c.database
	i := slices.Index(d.idle, c)
	d.idle = slices.Delete(d.idle, i, i+1)
}

// evict drops the longest idle connection. REQUIRES: mu, an idle connection
func (p *Pool) evict() *conn {
	p.stats.Evicted++
	return p.drop(p.oldest)
}

// drop removes an idle connection from the pool; the caller must pass it to closeAll. REQUIRES: mu
func (p *Pool) drop(c *conn) *conn {
	p.unlink(c)
	return p.forget(c)
}

// forget removes a connection from the counts; the caller must pass it to closeAll. REQUIRES: mu
func (p *Pool) forget(c *conn) *conn {
	p.stats.Open--
	p.stats.Bytes -= c.bytes
	p.stats.Closed++
	p.closing++
	return c
}

// closeAll closes connections that were removed from the pool.
func (p *Pool) closeAll(gone []*conn) {
	if len(gone) == 0 {
		return
	}
	for _, c := range gone {
		c.close()
	}
	p.mu.Lock()
	p.closing -= len(gone)
	p.changed.Broadcast()
	p.mu.Unlock()
}

// arm sets the timer if a connection or a spare is idle. REQUIRES: mu
func (p *Pool) arm() {
	if p.armed || p.closed || p.oldest == nil && len(p.spares) == 0 {
		return
	}
	p.armed = true
	wait := p.options.IdleTime
	if p.oldest != nil {
		wait = time.Until(p.oldest.since.Add(p.options.IdleTime))
	}
	if len(p.spares) > 0 {
		wait = min(wait, time.Until(p.spares[0].since.Add(p.options.IdleTime)))
	}
	wait = max(wait, 0)
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, p.sweep)
		return
	}
	p.timer.Reset(wait)
}

// sweep closes connections and spares that were idle for too long.
func (p *Pool) sweep() {
	var gone []*conn
	p.mu.Lock()
	for p.oldest != nil && time.Since(p.oldest.since) >= p.options.IdleTime {
		gone = append(gone, p.drop(p.oldest))
	}
	spares := p.stale(p.options.IdleTime)
	p.mu.Unlock()
	p.closeSpares(spares)
	p.closeAll(gone)
	p.mu.Lock()
	p.armed = false
	p.arm()
	p.changed.Broadcast()
	p.mu.Unlock()
}
