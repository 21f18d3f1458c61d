package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime"
)

// A write is one row that a commit puts or deletes.
type write struct {
	row, value []byte
	delete     bool
	is         keyspace.Row
}

// logical reports that the write is the row that says whether a logical key of that kind exists.
func (w *write) logical(kind keyspace.Kind) bool {
	return w.is.Type == keyspace.RowMetadata && len(w.is.Key) > 0 && w.is.Key[0] == byte(kind)
}

// A commit is the rows of one commit, in the order in which they are written.
type commit []write

// has reports that the commit puts, or deletes, a logical key of a kind.
func (c commit) has(kind keyspace.Kind, deleted bool) bool {
	return slices.ContainsFunc(c, func(w write) bool { return w.delete == deleted && w.logical(kind) })
}

// without returns the commit without the rows of a type.
func (c commit) without(t keyspace.RowType) commit {
	return slices.DeleteFunc(slices.Clone(c), func(w write) bool { return w.is.Type == t })
}

// batch returns a batch that writes what the commit wrote.
func (c commit) batch(db *pebble.DB) *pebble.Batch {
	batch := db.NewBatch()
	for i := range c {
		if w := &c[i]; w.delete {
			check(batch.Delete(w.row, nil))
		} else {
			check(batch.Set(w.row, w.value, nil))
		}
	}
	return batch
}

// logged runs f with a node and returns the commits that it made, as they stand in the log of its
// store. So a twin can write the very rows of Cairn. f must write less than a memtable holds.
func (b *bench) logged(o runtime.Options, f func(*runtime.Runtime)) []commit {
	dir, err := os.MkdirTemp(b.dir, "logged-")
	check(err)
	defer os.RemoveAll(dir)
	o.Dir = dir
	b.node(o, f)
	logs, err := wal.Scan(wal.Dir{FS: vfs.Default, Dirname: filepath.Join(dir, "store")})
	check(err)
	var commits []commit
	for _, log := range logs {
		commits = append(commits, readLog(log.OpenForRead())...)
	}
	return commits
}

func readLog(log wal.Reader) (commits []commit) {
	defer log.Close()
	for {
		r, _, err := log.NextRecord()
		if errors.Is(err, io.EOF) {
			return commits
		}
		check(err)
		batch, err := io.ReadAll(r)
		check(err)
		commits = append(commits, readBatch(batch))
	}
}

func readBatch(batch []byte) (c commit) {
	r := batchrepr.Read(batch)
	for {
		kind, row, value, ok, err := r.Next()
		check(err)
		if !ok {
			return c
		}
		w := write{row: bytes.Clone(row), value: bytes.Clone(value)}
		switch kind {
		case pebble.InternalKeyKindDelete:
			w.delete = true
		case pebble.InternalKeyKindSet:
		default:
			continue // a range, or a mark of the store's own
		}
		w.is, err = keyspace.ParseRow(row)
		check(err)
		c = append(c, w)
	}
}
