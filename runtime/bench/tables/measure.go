package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/bench/internal/sample"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// A result is what one store showed. Times are processor time in seconds.
type result struct {
	size  float64            // bytes of the tables for each byte of the rows
	build float64            // a row, compactions included
	spent map[string]float64 // an operation, by kind
}

// kinds are the kinds of reads.
var kinds = []string{"wake: directory and root", "any JSON", "any page", "an absent key",
	"the same, filters asked", "JSON, filters asked", "all rows of an actor", "directory, a row"}

// measure builds the store of a variant and reads it.
func (s *rows) measure(dir string, v variant, cache int64, span time.Duration) result {
	check(os.RemoveAll(dir))
	defer os.RemoveAll(dir)
	o := options(cache)
	v.set(o)
	db, err := pebble.Open(dir, o)
	check(err)
	begin, n, bytes := usage.Processor(), 0, 0
	for i := range s.actors {
		b := db.NewBatch()
		s.each(i, func(row, value []byte) {
			check(b.Set(row, value, nil))
			n++
			bytes += len(row) + len(value)
		})
		check(b.Commit(pebble.NoSync))
		check(b.Close())
	}
	check(db.Flush())
	check(db.Compact(context.Background(), nil, []byte{0xFF}, true))
	s.bytes = bytes
	check(db.Close()) // which removes what was compacted
	size, err := usage.Tables(dir)
	check(err)
	r := result{size: size / float64(bytes), build: (usage.Processor() - begin) / float64(n),
		spent: make(map[string]float64)}

	o = options(cache) // with an empty cache
	v.set(o)
	db, err = pebble.Open(dir, o)
	check(err)
	any := func(r *rand.Rand) int { return r.IntN(s.actors) }
	for k, read := range []func(r *rand.Rand){
		func(r *rand.Rand) { i := any(r); get(db, directoryRow(i), true); get(db, rootRow(i), true) },
		func(r *rand.Rand) { get(db, entryRow(any(r), r.IntN(jsonOf)), true) },
		func(r *rand.Rand) { get(db, pageRow(any(r)/database*database, r.IntN(pagesOf)), true) },
		func(r *rand.Rand) { get(db, entryRow(any(r), jsonOf+1), false) },
		func(r *rand.Rand) { seek(db, entryRow(any(r), jsonOf+1), false) },
		func(r *rand.Rand) { seek(db, entryRow(any(r), r.IntN(jsonOf)), true) },
		func(r *rand.Rand) {
			scan(db, keyspace.AppendActorPrefix(nil, sample.ActorID(any(r))), jsonOf+2)
		},
	} {
		r.spent[kinds[k]] = load(span, read)
	}
	before := usage.Processor()
	prefix := keyspace.AppendDirectoryPrefix(nil, "default", "account", nil)
	scan(db, prefix, s.actors)
	r.spent[kinds[len(kinds)-1]] = (usage.Processor() - before) / float64(s.actors)
	check(db.Close())
	return r
}

// get reads a row, which is there or not.
func get(db *pebble.DB, row []byte, there bool) {
	_, c, err := db.Get(row)
	if err == nil {
		check(c.Close())
	}
	if errors.Is(err, pebble.ErrNotFound) == there {
		check(errors.Join(errors.New("a row is missing, or one too many"), err))
	}
}

// seek is get by an iterator, which asks the filters of the last level too. Pebble's Get does not.
func seek(db *pebble.DB, row []byte, there bool) {
	it, err := db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	check(err)
	if it.SeekPrefixGE(row) != there {
		check(errors.New("a row is missing, or one too many"))
	}
	if there {
		_, err := it.ValueAndErr()
		check(err)
	}
	check(it.Close())
}

// scan reads the rows with a prefix, of which there are least.
func scan(db *pebble.DB, prefix []byte, least int) (n int) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: keyspace.Successor(prefix)})
	check(err)
	for it.First(); it.Valid(); it.Next() {
		_, err := it.ValueAndErr()
		check(err)
		n++
	}
	check(it.Close())
	if n < least {
		check(errors.New("rows are missing"))
	}
	return n
}

// load runs op from 8 goroutines for a time and returns the processor time of one.
func load(span time.Duration, op func(r *rand.Rand)) float64 {
	var stop atomic.Bool
	var n atomic.Int64
	var wg sync.WaitGroup
	begin := usage.Processor()
	for w := range 8 {
		wg.Go(func() {
			for r := rand.New(rand.NewPCG(7, uint64(w))); !stop.Load(); n.Add(1) {
				op(r)
			}
		})
	}
	time.Sleep(span)
	stop.Store(true)
	wg.Wait()
	return (usage.Processor() - begin) / float64(n.Load())
}
