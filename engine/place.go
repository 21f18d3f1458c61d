package engine

import (
	"bytes"
	"sync"
)

// A place is where the last visit with After stopped. Long listings are read page by page, and the
// next page continues with the same iterator.
type place struct {
	mu     sync.Mutex
	c      any // *cursor of Pebble: forward, on the last visited key, which is one row; nil if there is no place
	end    []byte
	closed bool
}

// keepPlace keeps a cursor that goes up to end, and closes the previous one.
func keepPlace(p *place, c *cursor, end []byte) {
	c.value = nil // it may be large
	var old any = c
	p.mu.Lock()
	if !p.closed {
		p.c, old = c, p.c
		p.end = append(p.end[:0], end...)
	}
	p.mu.Unlock()
	closeCursor(old) // it stood on a key, so it read without a fault
}

func closeCursor(c any) {
	if c, ok := c.(*cursor); ok {
		c.close()
	}
}

// takePlace returns the cursor, moved to the next key, if a range begins there; else nil.
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
