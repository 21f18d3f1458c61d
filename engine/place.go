package engine

import (
	"bytes"
	"sync"
)

// A place is where the last visit with After was stopped: long listings are read page by page, and
// the next page goes on with the same iterator.
type place struct {
	mu     sync.Mutex
	c      any // *cursor, which is one of Pebble's: forward, on the last key that was visited, which is one row; nil if there is no place
	end    []byte
	closed bool
}

// keepPlace takes a cursor that goes up to end, and closes the one before it.
func keepPlace(p *place, c *cursor, end []byte) {
	c.value = nil // it may be large
	var old any = c
	p.mu.Lock()
	if !p.closed {
		p.c, old = c, p.c
		p.end = append(p.end[:0], end...)
	}
	p.mu.Unlock()
	closeCursor(old) // which stood on a key, and so read without a fault
}

func closeCursor(c any) {
	if c, ok := c.(*cursor); ok {
		c.close()
	}
}

// takePlace returns the cursor, moved on, if that is where a range begins, and else nil.
func takePlace(p *place, start, end []byte) (*cursor, error) {
	p.mu.Lock()
	c, ok := p.c.(*cursor)
	if !ok || len(start) != len(c.key)+1 || start[len(c.key)] != 0 || !bytes.HasPrefix(start, c.key) || !bytes.Equal(end, p.end) {
		p.mu.Unlock()
		return nil, nil
	}
	p.c = nil
	p.mu.Unlock()
	if err := c.skip(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// drop closes the cursor.
func (p *place) drop() {
	p.mu.Lock()
	c := p.c
	p.c = nil
	p.mu.Unlock()
	closeCursor(c)
}

func (p *place) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop()
}
