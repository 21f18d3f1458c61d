package sqlitevfs

import (
	"encoding/binary"
	"fmt"
	"sync"
)

const (
	minWindow = 16 // pages
	maxWindow = 64
	// maxGap is how many pages a scan may skip: a table's interior pages are between its leaves.
	maxGap = 3
	// minRun is the number of pages in a row after which the next are read ahead.
	minRun = 2
)

// buffers are pages that the connections of a pool share in turn.
type buffers struct {
	pages, windows sync.Pool
}

func (b *buffers) page() *page {
	if p, ok := b.pages.Get().(*page); ok {
		return p
	}
	return new(page)
}

func (b *buffers) putPage(p *page) {
	if p != nil {
		b.pages.Put(p)
	}
}

// A window is consecutive pages.
type window = [maxWindow]page

func (b *buffers) window() *window {
	if w, ok := b.windows.Get().(*window); ok {
		return w
	}
	return new(window)
}

// readAhead has the pages that a file has read ahead of SQLite. A single read of a page costs a
// lookup, some 2 us; in a row, a fraction of that.
type readAhead struct {
	head *page // the first page, or nil

	buffer *window // nil if nothing was read
	start  uint32  // the page at the beginning of buffer
	count  uint32  // pages in buffer
	size   uint32  // of the next window
	last   uint32  // the last page that was read
	run    int     // how many were read in a row
}

// page returns a page that was read ahead, or nil. It is valid until the next call of another
// method.
func (a *readAhead) page(n uint32) *page {
	if n == 0 && a.head != nil {
		return a.head
	}
	if n-a.start >= a.count {
		return nil
	}
	a.last = n
	return &a.buffer[n-a.start]
}

// first reads the first page.
func (a *readAhead) first(f *file) (*page, error) {
	b := f.buffers.page()
	if err := f.get(b[:], 0); err != nil {
		f.buffers.putPage(b)
		return nil, err
	}
	a.head = b
	return b, nil
}

// sequential records the read of a page, and reports whether the next pages will probably be read
// too.
func (a *readAhead) sequential(n uint32) bool {
	if step := n - a.last; step >= 1 && step <= maxGap {
		a.run++
	} else {
		a.run, a.size = 0, minWindow
	}
	a.last = n
	return a.run >= minRun
}

// scan reads a page and the ones after it, in one scan of the Reader.
func (a *readAhead) scan(f *file, n uint32) (*page, error) {
	if a.buffer == nil {
		a.buffer = f.buffers.window()
	}
	a.start, a.count = n, 0
	want := min(max(a.size, minWindow), f.base-n)
	a.size = min(want*2, maxWindow)
	// want is at most the rest below 2^32-1, the largest number of pages, so the end does not wrap.
	end := f.pageKey(f.end[:0], n+want)
	err := f.r.Scan(f.pageKey(f.key[:0], n), end, func(key, value []byte) bool {
		// Stop at anything except the expected page: a lookup of the missing page returns the
		// fault.
		if len(key) != pageKeySize || binary.BigEndian.Uint32(key[pageKeySize-4:]) != n+a.count ||
			len(value) != PageSize {
			return false
		}
		copy(a.buffer[a.count][:], value)
		f.patches.apply(n+a.count, a.buffer[a.count][:])
		a.count++
		return a.count < want
	})
	if err != nil {
		a.count = 0
		return nil, fmt.Errorf("read pages from %d on: %w", n, err)
	}
	if a.count == 0 {
		if err := f.get(a.buffer[0][:], n); err != nil {
			return nil, err
		}
		a.count = 1
	}
	return &a.buffer[0], nil
}

// drop drops the pages that were read.
func (a *readAhead) drop(b *buffers) {
	b.putPage(a.head)
	if a.buffer != nil {
		b.windows.Put(a.buffer)
	}
	*a = readAhead{}
}
