package sqlitevfs

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

// Under SQLite's byte at 1 GiB lies a page that it never writes. These databases reach two pages beyond it.
const beyondLock = lockPage + 2

// madeUp is a database that makes up its pages: each begins with its number.
type madeUp struct {
	first, other page
	without      uint32
}

func newMadeUp(without uint32) *madeUp {
	m := &madeUp{without: without}
	copy(m.first[:], emptyFile())
	binary.BigEndian.PutUint32(m.first[headerPages:], beyondLock)
	return m
}

func (m *madeUp) Get(dst, key []byte) ([]byte, bool, error) {
	if string(key) != string(keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteMain)) {
		return dst, false, fmt.Errorf("a lookup of %x", key)
	}
	return Metadata{Pages: beyondLock, Sequence: 1}.append(dst), true, nil
}

func (m *madeUp) Scan(start, end []byte, f func(key, value []byte) bool) error {
	from, to := binary.BigEndian.Uint32(start[3:]), uint32(beyondLock)
	if len(end) == len(start) {
		to = min(to, binary.BigEndian.Uint32(end[3:]))
	}
	key := make([]byte, 0, pageKeySize)
	for n := from; n < to; n++ {
		b := &m.other
		binary.BigEndian.PutUint32(b[:], n)
		if n == 0 {
			b = &m.first
		}
		if n != m.without && !f(keyspace.SQLiteChunk.Append(key, keyspace.SQLiteMain, n), b[:]) {
			break
		}
	}
	return nil
}

// pageChecker is an io.Writer that takes pages of a madeUp database only.
type pageChecker struct{ next uint32 }

func (c *pageChecker) Write(p []byte) (int, error) {
	for b := p; len(b) > 0; b = b[PageSize:] {
		want := c.next
		if want == lockPage {
			want = 0 // zeros
		}
		if got := binary.BigEndian.Uint32(b); c.next > 0 && got != want {
			return 0, fmt.Errorf("page %d begins with %d", c.next, got)
		}
		c.next++
	}
	return len(p), nil
}

func TestExportHasAPageOfZerosForTheOneThatSQLiteNeverWrites(t *testing.T) {
	t.Parallel()
	for _, without := range []uint32{lockPage, beyondLock} { // absent, and there with anything in it
		var c pageChecker
		n, err := Export(context.Background(), &c, newMadeUp(without))
		if err != nil || n != beyondLock*PageSize || c.next != beyondLock {
			t.Errorf("%d bytes, %d pages: %v", n, c.next, err)
		}
	}
}

// keyCounter is a Writer that remembers which of the last pages it got.
type keyCounter struct {
	Writer
	pages int
	last  []uint32
}

func (c *keyCounter) Put(key, _ []byte, _ int) error {
	if len(key) == pageKeySize {
		c.pages++
		if n := binary.BigEndian.Uint32(key[3:]); n >= lockPage-1 {
			c.last = append(c.last, n)
		}
	}
	return nil
}

func (c *keyCounter) DeleteRange(_, _ []byte) error { return nil }

func TestPageThatSQLiteNeverWritesIsNotStored(t *testing.T) {
	t.Parallel()
	want := fmt.Sprint([]uint32{lockPage - 1, lockPage + 1})

	m := &image{temporary{size: beyondLock * PageSize}}
	chunk := make([]byte, chunkSize)
	for range beyondLock*PageSize/chunkSize + 1 {
		m.chunks = append(m.chunks, chunk)
	}
	var c keyCounter
	if err := putImage(context.Background(), &c, m, Metadata{Pages: beyondLock}); err != nil || c.pages != beyondLock-1 || fmt.Sprint(c.last) != want {
		t.Errorf("an import put %d pages, the last are %v: %v", c.pages, c.last, err)
	}

	c = keyCounter{}
	f := &file{w: &c, buffers: new(buffers)}
	if err := f.fill(lockPage-1, beyondLock); err != nil || fmt.Sprint(c.last) != want {
		t.Errorf("a file that grows got the pages %v: %v", c.last, err)
	}
}
