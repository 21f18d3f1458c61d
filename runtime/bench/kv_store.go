package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	bolt "go.etcd.io/bbolt"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
	"github.com/cairn-run/cairn/runtime/localnats"
	"github.com/cairn-run/cairn/runtime/store"
)

const (
	storeCallers = 64
	storeCount   = 1000
)

// storeRows compare stores inside of a program. Each put is durable, except those of NATS, which
// syncs its files every two minutes.
func storeRows() []row {
	one := row{name: "KV: puts, 64 callers, one store / bbolt, a commit each", target: "at least 8",
		ours: (*bench).storePuts, raw: func(b *bench) float64 { return b.boltPuts((*bolt.DB).Update) },
		more: []twin{{"  beside bbolt, 64 puts a commit (DB.Batch)",
			func(b *bench) float64 { return b.boltPuts((*bolt.DB).Batch) }},
			{"  beside NATS KV in the process",
				(*bench).natsPuts},
			{"  beside a table in " + sameLibrary.name,
				func(b *bench) float64 { return b.sqlitePuts(sameLibrary, 1) }}}}
	many := row{name: "KV: puts, 64 callers, 1,000 stores", target: "at least 3", ours: (*bench).storesPuts}
	for _, l := range otherLibraries() {
		one.more = append(one.more,
			twin{"  beside a table in " + l.name, func(b *bench) float64 { return b.sqlitePuts(l, 1) }})
		many.more = append(many.more,
			twin{many.name + " / " + l.name + ", one each",
				func(b *bench) float64 { return b.sqlitePuts(l, storeCount) }})
	}
	return []row{one, many}
}

func storeKey(w, i int) string { return fmt.Sprint("key-", (w+i*storeCallers)%1000) }

// storeText returns a value of 100 bytes, another one for each put: SQLite writes nothing for a row
// that stays as it is.
func storeText(w, i int) string { return fmt.Sprintf("%0100d", w+i*storeCallers) }

func (b *bench) storePuts() (v float64) {
	b.files(func(dir string) {
		st, err := store.Open(filepath.Join(dir, "store"))
		check(err)
		v = b.load(storeCallers, func(w, i int) { check(st.Set("group", storeKey(w, i), storeText(w, i))) })
		check(st.Close())
	})
	return v
}

func (b *bench) storesPuts() (v float64) {
	b.node(runtime.Options{Actors: []actor.Definition{cell.Definition()}}, func(rt *runtime.Runtime) {
		stores := make([]*store.Store, storeCount)
		for i := range stores {
			stores[i] = store.Of(cell.Type.Ref(rt, fmt.Sprint(i)).KV())
			check(stores[i].Set("group", "key", ""))
		}
		v = b.load(storeCallers, func(w, i int) {
			check(stores[(w+i*storeCallers)%storeCount].Set("group", storeKey(w, i), storeText(w, i)))
		})
	})
	return v
}

func (b *bench) boltPuts(commit func(*bolt.DB, func(*bolt.Tx) error) error) (v float64) {
	b.files(func(dir string) {
		db, err := bolt.Open(filepath.Join(dir, "db"), 0o600, nil)
		check(err)
		// A batch is committed when all callers are in it, and not after a time.
		db.MaxBatchSize, db.MaxBatchDelay = storeCallers, 10*time.Millisecond
		group := []byte("group")
		check(db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket(group); return err }))
		v = b.load(storeCallers, func(w, i int) {
			check(commit(db,
				func(tx *bolt.Tx) error {
					return tx.Bucket(group).
						Put([]byte(storeKey(w, i)), []byte(storeText(w, i)))
				}))
		})
		check(db.Close())
	})
	return v
}

func (b *bench) natsPuts() (v float64) {
	b.files(func(dir string) {
		s, err := localnats.Start(localnats.Options{JetStream: true, StoreDir: dir})
		check(err)
		defer s.Close()
		nc, err := s.Connect()
		check(err)
		defer nc.Close()
		js, err := jetstream.New(nc)
		check(err)
		bucket, err := js.CreateKeyValue(context.Background(), jetstream.KeyValueConfig{Bucket: "group"})
		check(err)
		v = b.load(storeCallers, func(w, i int) {
			_, err := bucket.Put(context.Background(), storeKey(w, i), []byte(storeText(w, i)))
			check(err)
		})
	})
	return v
}

// sqlitePuts puts into tables like that of go-store, in a number of files.
func (b *bench) sqlitePuts(l library, files int) (v float64) {
	b.files(func(dir string) {
		puts := make([]*sql.Stmt, files)
		for i := range puts {
			db := l.must(filepath.Join(dir, fmt.Sprint("db", i)))
			defer func() { check(db.Close()) }()
			db.SetMaxOpenConns(1) // writers of one file wait for each other anyway
			_, err := db.Exec("CREATE TABLE kv (grp TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, expires_at INTEGER, PRIMARY KEY (grp, key))")
			check(err)
			puts[i], err = db.Prepare("INSERT INTO kv VALUES ('group', ?, ?, NULL) ON CONFLICT (grp, key) DO UPDATE SET value = excluded.value, expires_at = NULL")
			check(err)
		}
		v = b.load(storeCallers, func(w, i int) {
			_, err := puts[(w+i*storeCallers)%files].Exec(storeKey(w, i), storeText(w, i))
			check(err)
		})
	})
	return v
}
