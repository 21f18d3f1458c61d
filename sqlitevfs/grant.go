package sqlitevfs

import (
	"fmt"
	"reflect"

	"github.com/ncruces/go-sqlite3"
)

// A session is granted memory before it begins: how far its connection may grow. So the connections
// together stay within MaxMemory and ConnMemory even while statements run, when nobody asks how
// large they are. A session gets ConnMemory as long as there is plenty, then half of what is left,
// and minGrant at least.

// minGrant is how far each session may grow its connection, in bytes.
const minGrant = 1 << 20

// wasmPage is in how many bytes the memory of a connection grows.
const wasmPage = 64 << 10

// growth returns where the library keeps how far the memory of a connection may grow, in units of
// wasmPage, or nil.
func growth(db *sqlite3.Conn) *int64 {
	wrapper := reflect.ValueOf(db).Elem().FieldByName("wrp")
	if wrapper.Kind() != reflect.Pointer || wrapper.Elem().Kind() != reflect.Struct {
		return nil
	}
	memory := wrapper.Elem().FieldByName("Memory")
	if memory.Kind() != reflect.Pointer || memory.Elem().Kind() != reflect.Struct ||
		!memory.Elem().FieldByName("Max").IsValid() {
		return nil
	}
	return fieldOf[int64](memory.Elem(), "Max")
}

// most returns what the connections may take together, in bytes.
func (p *Pool) most() int64 { return p.options.MaxMemory + p.options.ConnMemory }

// grant lets the connection of a session grow, and closes idle ones whose memory that may take.
func (p *Pool) grant(c *conn) {
	p.mu.Lock()
	limits := c.database.limits
	p.mu.Unlock()
	c.fit(limits)
	if c.max == nil {
		return
	}
	var gone []*conn
	p.mu.Lock()
	p.count(c)
	used := p.granted + p.stats.Bytes - p.idleBytes // of those in use
	wanted := max(c.limits.ConnMemory-c.size(), 0)
	c.granted = min(wanted, max(minGrant, (p.most()-used)/2))
	c.short = c.granted < wanted
	p.granted += c.granted
	for p.oldest != nil && p.stats.Bytes+p.granted > p.most() {
		gone = append(gone, p.evict())
	}
	p.mu.Unlock()
	*c.max = min(c.limits.ConnMemory, int64(len(*c.memory))+c.granted) / wasmPage
	p.closeAll(gone)
}

// revoke ends the grant of a connection. REQUIRES: mu
func (p *Pool) revoke(c *conn) {
	p.granted -= c.granted
	c.granted, c.short = 0, false
	if c.max != nil {
		*c.max = p.options.ConnMemory / wasmPage
	}
}

// crowded returns the error for a statement that found no memory although ConnMemory has more, and
// err for any other.
func (c *conn) crowded(err error) error {
	if e, ok := err.(*Error); ok && c.short && e.Code&0xff == int(sqlite3.NOMEM) && e.Err == nil {
		return &Error{Code: int(sqlite3.BUSY), Message: "the connections in use leave too little memory", SQL: e.SQL,
			Err: fmt.Errorf("this one may take %d bytes now", *c.max*wasmPage)}
	}
	return err
}
