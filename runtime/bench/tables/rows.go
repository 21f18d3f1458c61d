package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/bench/internal/sample"
)

// rows are those of a number of actors.
type rows struct {
	actors int
	bytes  int
	pages  [][]byte // of a real database
}

// What an actor has: some JSON each, and some of them a database or something binary.
const (
	jsonOf   = 6
	pagesOf  = 8
	database = 4 // one actor in so many has one
	binaries = 4
	pageSize = 4096
)

// newRows makes the database whose pages actors have, with a table of so many orders.
func newRows(actors, orders int, dir string) *rows {
	path := filepath.Join(dir, "pages.db")
	db, err := driver.Open("file:" + path)
	check(err)
	defer os.Remove(path)
	_, err = db.Exec(`CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL, note TEXT);
		CREATE INDEX by_customer ON orders (customer)`)
	check(err)
	tx, err := db.Begin()
	check(err)
	r := rand.New(rand.NewPCG(5, 6))
	for range orders {
		_, err := tx.Exec(`INSERT INTO orders (customer, total, note) VALUES (?, ?, ?)`,
			sample.Word(r), r.Float64()*1000, string(sample.AppendText(nil, r, 40+r.IntN(160))))
		check(err)
	}
	check(tx.Commit())
	check(db.Close())
	file, err := os.ReadFile(path)
	check(err)
	s := &rows{actors: actors}
	for ; len(file) >= pageSize; file = file[pageSize:] {
		s.pages = append(s.pages, file[:pageSize])
	}
	return s
}

func directoryRow(i int) []byte {
	return keyspace.AppendDirectoryRow(nil, "default", "account", []string{fmt.Sprint("account-", i)})
}

func rootRow(i int) []byte {
	return keyspace.AppendMetadataRow(nil, sample.ActorID(i), keyspace.Persisted.Append(nil))
}

func entryRow(i, k int) []byte {
	packed, err := tuple.Tuple{"entry", k}.Pack()
	check(err)
	return keyspace.AppendMetadataRow(nil, sample.ActorID(i), keyspace.UserKV.Append(nil, packed))
}

func pageRow(i, k int) []byte {
	return keyspace.AppendMetadataRow(nil, sample.ActorID(i),
		keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, uint32(k)))
}

// each calls f with every row of an actor.
func (s *rows) each(i int, f func(row, value []byte)) {
	r, id := rand.New(rand.NewPCG(uint64(i), 3)), sample.ActorID(i)
	metadata := make([]byte, 14)
	for k := range metadata[8:] {
		metadata[8+k] = byte(r.Uint32())
	}
	f(directoryRow(i), id[:])
	f(keyspace.AppendIdentityRow(nil, id), directoryRow(i))
	f(rootRow(i), sample.AppendText(append(make([]byte, 0, 256),
		append(metadata, make([]byte, 40)...)...), r, 100+r.IntN(140)))
	for k := range jsonOf {
		size := int(200 * math.Pow(4096.0/200, r.Float64()))
		v := fmt.Appendf(metadata[:14:14], `{"id":"%016x","n":%d,"owner":"%s","note":"`, r.Uint64(),
			r.IntN(1_000_000), sample.Word(r))
		f(entryRow(i, k), append(sample.AppendText(v, r, size-2), `"}`...))
	}
	if i%database == 0 {
		for k := range pagesOf {
			f(pageRow(i, k), append(metadata[:14:14], s.pages[(i*pagesOf+k)%len(s.pages)]...))
		}
	}
	if i%binaries == 1 {
		v := make([]byte, 1024)
		for k := range v {
			v[k] = byte(r.Uint32())
		}
		f(entryRow(i, jsonOf), v)
	}
}
