package main

import (
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/bench/internal/rawpebble"
)

// rows of a durable action, with the size that the meter's has.
type actorRows struct{ root []byte }

// rootValue has the state, of 55 bytes, what is known of it, and the head.
var rootValue = make([]byte, 55+37)

func rowsFor(i int) actorRows {
	var random [10]byte
	random[9], random[8] = byte(i), byte(i>>8)
	id := keyspace.NewActorID(uint16(i*7%keyspace.Slots), 1, random)
	return actorRows{root: keyspace.AppendMetadataRow(nil, id, keyspace.Persisted.Append(nil))}
}

// pebbleDB runs f with a database that has the options of a store.
func (b *bench) pebbleDB(f func(*pebble.DB)) {
	dir, err := os.MkdirTemp(b.dir, "raw-")
	check(err)
	defer os.RemoveAll(dir)
	db, err := rawpebble.Open(dir)
	check(err)
	f(db)
	check(db.Close())
}

func put(db *pebble.DB, r *actorRows) *pebble.Batch {
	batch := db.NewBatch()
	check(batch.Set(r.root, rootValue, nil))
	return batch
}

func (b *bench) rawAlone() (v float64) {
	b.pebbleDB(func(db *pebble.DB) {
		r := rowsFor(1)
		v = b.p50(func(int) {
			batch := put(db, &r)
			check(batch.Commit(pebble.Sync))
			batch.Close()
		})
	})
	return v
}

// rawCommitters commits from n goroutines, each waiting for its own batch.
func (b *bench) rawCommitters(n, actors int) (v float64) {
	b.pebbleDB(func(db *pebble.DB) {
		all := make([]actorRows, actors)
		for i := range all {
			all[i] = rowsFor(i)
		}
		v = b.load(n, func(w, i int) {
			batch := put(db, &all[(w+i*n)%actors])
			check(batch.Commit(pebble.Sync))
			batch.Close()
		})
	})
	return v
}

// rawPipelined commits from one goroutine with up to depth batches that wait for the log.
func (b *bench) rawPipelined(depth int) (v float64) {
	b.pebbleDB(func(db *pebble.DB) {
		r := rowsFor(1)
		waiting := make(chan *pebble.Batch, depth)
		var wg sync.WaitGroup
		wg.Go(func() {
			for batch := range waiting {
				check(batch.SyncWait())
				batch.Close()
			}
		})
		v = b.load(1, func(int, int) {
			batch := put(db, &r)
			check(db.ApplyNoSyncWait(batch, pebble.Sync))
			waiting <- batch
		})
		close(waiting)
		wg.Wait()
	})
	return v
}
