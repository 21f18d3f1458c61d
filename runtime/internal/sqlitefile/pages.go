package sqlitefile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sort"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// pages implements sqlitevfs.Writer: page i of the database stands at i times the page size of a
// file, and the metadata in memory.
type pages struct {
	file     *os.File
	there    []bool // by index: the page was put
	count    int64  // of them
	metadata []byte // nil: there is none
}

func (p *pages) close() error { return errors.Join(p.file.Close(), os.Remove(p.file.Name())) }

func pageKey(i int) []byte { return keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, uint32(i)) }

// pageOf returns the index of the page that a key names.
func pageOf(key []byte) (int, bool) {
	file, i, err := keyspace.SQLiteChunk.Parse(key)
	return int(i), err == nil && file == keyspace.SQLiteMain
}

var metadataKey = keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteMain)

// Get implements sqlitevfs.Reader.
func (p *pages) Get(dst, key []byte) ([]byte, bool, error) {
	if bytes.Equal(key, metadataKey) {
		return append(dst, p.metadata...), p.metadata != nil, nil
	}
	i, is := pageOf(key)
	if !is || i >= len(p.there) || !p.there[i] {
		return dst, false, nil
	}
	n := len(dst)
	dst = append(dst, make([]byte, sqlitevfs.PageSize)...)
	_, err := p.file.ReadAt(dst[n:], int64(i)*sqlitevfs.PageSize)
	return dst, err == nil, err
}

// Scan implements sqlitevfs.Reader.
func (p *pages) Scan(start, end []byte, f func(key, value []byte) bool) error {
	in := func(key []byte) bool { return bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0 }
	if p.metadata != nil && in(metadataKey) && !f(metadataKey, p.metadata) {
		return nil
	}
	page := make([]byte, 0, sqlitevfs.PageSize)
	for i := p.first(start); i < len(p.there); i++ {
		key := pageKey(i)
		if !in(key) {
			return nil
		}
		value, ok, err := p.Get(page, key)
		if err != nil || ok && !f(key, value) {
			return err
		}
	}
	return nil
}

// first returns the index of the first page that does not stand before a key.
func (p *pages) first(key []byte) int {
	return sort.Search(len(p.there), func(i int) bool { return bytes.Compare(pageKey(i), key) >= 0 })
}

// Put implements sqlitevfs.Writer.
func (p *pages) Put(key, value []byte, _ int) error {
	if bytes.Equal(key, metadataKey) {
		p.metadata = bytes.Clone(value)
		return nil
	}
	i, is := pageOf(key)
	if !is || len(value) != sqlitevfs.PageSize {
		return fmt.Errorf("sqlitefile: %x with %d bytes is not a page", key, len(value))
	}
	if i >= MaxBytes/sqlitevfs.PageSize {
		return sqlitevfs.ErrFull
	}
	for len(p.there) <= i {
		p.there = append(p.there, false)
	}
	if !p.there[i] {
		p.there[i] = true
		p.count++
	}
	_, err := p.file.WriteAt(value, int64(i)*sqlitevfs.PageSize)
	return err
}

// DeleteRange implements sqlitevfs.Writer.
func (p *pages) DeleteRange(start, end []byte) error {
	if bytes.Compare(start, metadataKey) <= 0 && bytes.Compare(metadataKey, end) < 0 {
		p.metadata = nil
	}
	for i := p.first(start); i < p.first(end); i++ {
		if p.there[i] {
			p.there[i] = false
			p.count--
		}
	}
	return nil
}

// Room implements sqlitevfs.Writer.
func (p *pages) Room() int64 { return MaxBytes - p.count*sqlitevfs.PageSize }
