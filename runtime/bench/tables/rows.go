package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
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

var words = func() (w [1024]string) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range w {
		word := make([]byte, 3+r.IntN(7))
		for k := range word {
			word[k] = byte('a' + r.IntN(26))
		}
		w[i] = string(word)
	}
	return w
}()

// text appends words until there are size bytes.
func text(b []byte, r *rand.Rand, size int) []byte {
	for len(b) < size {
		b = append(append(b, words[r.IntN(len(words))]...), ' ')
	}
	return b[:size]
}

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
			words[r.IntN(len(words))], r.Float64()*1000, string(text(nil, r, 40+r.IntN(160))))
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

// idOf returns the id of an actor: a slot at random, as the hash of its name makes it.
func idOf(i int) keyspace.ActorID {
	r := rand.New(rand.NewPCG(uint64(i), 4))
	var random [10]byte
	binary.BigEndian.PutUint64(random[:], r.Uint64())
	return keyspace.NewActorID(uint16(r.IntN(keyspace.Slots)), 1, random)
}

func directoryRow(i int) []byte {
	return keyspace.AppendDirectoryRow(nil, "default", "account", []string{fmt.Sprint("account-", i)})
}

func rootRow(i int) []byte {
	return keyspace.AppendMetadataRow(nil, idOf(i), keyspace.AppendPersisted(nil))
}

func entryRow(i, k int) []byte {
	key, err := keyspace.AppendUserTuple(nil, tuple.Tuple{"entry", k})
	check(err)
	return keyspace.AppendMetadataRow(nil, idOf(i), key)
}

func pageRow(i, k int) []byte {
	return keyspace.AppendMetadataRow(nil, idOf(i), keyspace.AppendSQLiteChunk(nil, keyspace.SQLiteMain, uint32(k)))
}

// each calls f with every row of an actor.
func (s *rows) each(i int, f func(row, value []byte)) {
	r, id := rand.New(rand.NewPCG(uint64(i), 3)), idOf(i)
	metadata := make([]byte, 14)
	for k := range metadata[8:] {
		metadata[8+k] = byte(r.Uint32())
	}
	f(directoryRow(i), id[:])
	f(keyspace.AppendIdentityRow(nil, id), directoryRow(i))
	f(rootRow(i), text(append(make([]byte, 0, 256), append(metadata, make([]byte, 40)...)...), r, 100+r.IntN(140)))
	for k := range jsonOf {
		size := int(200 * math.Pow(4096.0/200, r.Float64()))
		v := fmt.Appendf(metadata[:14:14], `{"id":"%016x","n":%d,"owner":"%s","note":"`, r.Uint64(), r.IntN(1_000_000), words[r.IntN(len(words))])
		f(entryRow(i, k), append(text(v, r, size-2), `"}`...))
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
