package sqlitevfs

import (
	"fmt"
	"reflect"

	"github.com/ncruces/go-sqlite3"
)

// A session is granted memory before it begins: the growth of its connection. So the connections
// together stay within MaxMemory and ConnMemory even while statements run, when their sizes are not
// checked. A session gets ConnMemory while there is plenty, then half of the rest, and at least
// minGrant.

// minGrant is the least growth that is granted to a session, in bytes.
const minGrant = 1 << 20

// wasmPage is the unit in which the memory of a connection grows, in bytes.
const wasmPage = 64 << 10

// growth returns the library's limit for the memory of a connection, in units of wasmPage, or nil.
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

// most returns the most memory of all connections together, in bytes.
func (p *Pool) most() int64 { return p.options.MaxMemory + p.options.ConnMemory }

// grant grants memory to the connection of a session, and closes idle ones to make room.
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
	used := p.granted + p.stats.Bytes - p.idleBytes // of the connections in use
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

// crowded returns the error for a statement that found no memory although it is below ConnMemory,
// and returns other errors as they are.
func (c *conn) crowded(err error) error {
	if e, ok := err.(*Error); ok && c.short && e.Code&0xff == int(sqlite3.NOMEM) && e.Err == nil {
		return &Error{Code: int(sqlite3.BUSY), Message: "the connections in use leave too little memory", SQL: e.SQL,
			Err: fmt.Errorf("this one may take %d bytes now", *c.max*wasmPage)}
	}
	return err
}
