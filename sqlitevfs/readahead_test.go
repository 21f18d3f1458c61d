package sqlitevfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

// numberedPages returns a reader of pages that begin with their number.
func numberedPages(n uint32) *mapReader {
	r := &mapReader{keys: map[string][]byte{}}
	for i := range n {
		b := make([]byte, PageSize)
		binary.BigEndian.PutUint32(b, i)
		r.keys[string(keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, i))] = b
	}
	return r
}

func readNumber(t *testing.T, f *file, n uint32) error {
	t.Helper()
	p := make([]byte, PageSize)
	if _, err := f.ReadAt(p, int64(n)*PageSize); err != nil {
		return err
	}
	if got := binary.BigEndian.Uint32(p); got != n {
		t.Fatalf("page %d is page %d", n, got)
	}
	return nil
}

func TestPagesInARowAreReadAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		next        func(i uint32) uint32
		count       uint32
		gets, scans int // at most
	}{
		{"in a row", func(i uint32) uint32 { return i }, 1000, 4, 20},
		{"every second", func(i uint32) uint32 { return 2 * i }, 500, 4, 20},
		{"backwards", func(i uint32) uint32 { return 999 - i }, 1000, 1000, 0},
		{"far apart", func(i uint32) uint32 { return i * 379 % 1000 }, 1000, 1000, 0},
		{"in a row, and a page far away between", func(i uint32) uint32 {
			if i%50 == 49 {
				return 999
			}
			return i - i/50
		}, 900, 60, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := numberedPages(1000)
			f := &file{stop: new(stopper), buffers: new(buffers)}
			f.begin(r, nil, Metadata{Pages: 1000}, 10)
			for i := range c.count {
				if err := readNumber(t, f, c.next(i)); err != nil {
					t.Fatal(err)
				}
			}
			if r.gets > c.gets || r.scans > c.scans {
				t.Errorf("%d lookups and %d scans, want at most %d and %d", r.gets, r.scans, c.gets, c.scans)
			}
			if err := readNumber(t, f, 1000); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
			f.finish()
			if f.ahead != (readAhead{}) {
				t.Error("what was read is kept after the session")
			}
		})
	}
}

func TestReadAheadFindsHoles(t *testing.T) {
	t.Parallel()
	for hole := uint32(1); hole < 120; hole += 7 {
		r := numberedPages(150)
		delete(r.keys, string(keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, hole)))
		f := &file{stop: new(stopper), buffers: new(buffers)}
		f.begin(r, nil, Metadata{Pages: 150}, 10)
		for n := range uint32(150) {
			err := readNumber(t, f, n)
			if n == hole != errors.Is(f.fault, ErrCorrupt) || n == hole != (err != nil) {
				t.Fatalf("page %d, with page %d missing: %v", n, hole, err)
			}
			f.fault = nil
		}
		f.finish()
	}
}

// TestFileMatchesItsModel writes, cuts, reads and publishes at random, over a Writer that checks what it is told.
func TestFileMatchesItsModel(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	w := newMapStore().writer()
	f := &file{stop: new(stopper), buffers: new(buffers), limit: 1 << 40, write: true}
	var meta Metadata
	length := -1
	var committed, model []uint32 // the numbers that the pages begin with
	serial := uint32(1)
	for range 400 {
		f.begin(w, w, meta, length)
		model = append([]uint32(nil), committed...)
		for range rnd.IntN(30) {
			switch rnd.IntN(5) {
			case 0, 1, 2:
				n := rnd.IntN(len(model) + 4)
				b := make([]byte, PageSize)
				serial++
				binary.BigEndian.PutUint32(b, serial)
				if _, err := f.WriteAt(b, int64(n)*PageSize); err != nil {
					t.Fatal(err)
				}
				for len(model) <= n {
					model = append(model, 0)
				}
				model[n] = serial
			case 3:
				n := rnd.IntN(len(model) + 1)
				if rnd.IntN(3) == 0 && n < len(model) {
					if err := f.Truncate(int64(n) * PageSize); err != nil {
						t.Fatal(err)
					}
					model = model[:n]
				}
			default:
				checkFile(t, f, model)
			}
		}
		if rnd.IntN(3) > 0 {
			f.committing = true
			if err := f.SyncSuper(""); err != nil {
				t.Fatal(err)
			}
			if err := f.CommitPhaseTwo(); err != nil {
				t.Fatal(err)
			}
			committed, meta, length = model, f.meta, f.metaLength
			if int(meta.Pages) != len(model) {
				t.Fatalf("%d pages are published, want %d", meta.Pages, len(model))
			}
			checkFile(t, f, model)
		}
		f.finish()
		keys := len(committed)
		if length >= 0 {
			keys++
		}
		if len(w.keys) != keys {
			t.Fatalf("%d keys for %d pages", len(w.keys), len(committed))
		}
	}
}

func checkFile(t *testing.T, f *file, model []uint32) {
	t.Helper()
	if size, _ := f.Size(); size != int64(len(model))*PageSize {
		t.Fatalf("size %d, want %d pages", size, len(model))
	}
	p := make([]byte, PageSize)
	for n, want := range model {
		if _, err := f.ReadAt(p, int64(n)*PageSize); err != nil {
			t.Fatal(err)
		}
		if got := binary.BigEndian.Uint32(p); got != want {
			t.Fatalf("page %d begins with %d, want %d", n, got, want)
		}
	}
}

// SQLite does not write pages that a transaction adds and frees again, and so leaves holes.
func TestHolesOfATransactionArePublishedAsZeros(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (v); CREATE TABLE u (v)")
	for i := range 5 {
		w := m.writer()
		s := d.Write(context.Background(), w)
		mustExec(t, s, fmt.Sprintf("INSERT INTO t VALUES (zeroblob(%d)); INSERT INTO u VALUES (zeroblob(10000)); DELETE FROM t", 100000*(i+1)))
		if _, err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		m.commit(w)
		meta, _, _ := ReadMetadata(w)
		if len(w.keys) != int(meta.Pages)+1 {
			t.Fatalf("%d keys for %d pages", len(w.keys), meta.Pages)
		}
		checkStore(t, m, d)
	}
}
