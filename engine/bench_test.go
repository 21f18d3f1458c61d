package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairn-run/cairn/keyspace"
)

// Each benchmark of commits has a twin that writes the same rows with bare
// Pebble: data row, metadata row and head row of the state key, from buffers,
// with the same options but on Pebble's own filesystem: its logs are as Pebble
// makes them, not the spares of warm.go. Run both in one run; figures of
// different runs do not compare.

const benchState = 256 // bytes of the state

func benchOptions(b *testing.B) Options {
	return Options{Dir: b.TempDir(), CacheBytes: 64 << 20}
}

func benchStore(b *testing.B, o Options) *Store {
	s, err := Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func rawPebble(b *testing.B) *pebble.DB {
	o := benchOptions(b)
	o.EnsureDefaults()
	p := pebbleOptions(o, nil, &Store{opts: o})
	p.FS = vfs.Default
	db, err := pebble.Open(o.Dir, p)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
}

// rawActor holds the rows that a commit of a state writes.
type rawActor struct {
	root, value []byte
}

func newRawActor(n int) *rawActor {
	id := testID(n)
	m := metadata{version: 1000, created: 1_700_000_000_000, updated: 1_700_000_000_100, size: benchState}
	h := head{Head: Head{Generation: 1, Version: 1000, Keys: 1, Bytes: benchState + 1, Created: m.created, Updated: m.updated}}
	return &rawActor{
		root:  keyspace.AppendMetadataRow(nil, id, stateKey()),
		value: h.appendRoot(nil, &stateCache{exists: true, meta: m, value: make([]byte, benchState)}),
	}
}

func (a *rawActor) batch(db *pebble.DB) *pebble.Batch {
	batch := db.NewBatch()
	batch.Set(a.root, a.value, nil)
	return batch
}

func report(b *testing.B) {
	b.ReportAllocs()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

func BenchmarkCommitOneCaller(b *testing.B) {
	for name, o := range map[string]Options{"pipelined": {}, "plain": {PlainCommit: true}} {
		b.Run(name, func(b *testing.B) {
			o.Dir, o.CacheBytes = b.TempDir(), 64<<20
			sp := openSpace(b, benchStore(b, o), 1)
			value := make([]byte, benchState)
			done := make(chan struct{}, 1)
			told := func(error) { done <- struct{}{} }
			times := newTimes(b.N)
			b.ResetTimer()
			for i := range b.N {
				from := time.Now()
				sp.Writes().Advance(int64(i))
				sp.Writes().Put([]byte{1}, value, PutOptions{})
				if _, err := sp.Commit(told); err != nil {
					b.Fatal(err)
				}
				<-done
				times.add(from)
			}
			report(b)
			times.report(b)
		})
	}
	b.Run("raw", func(b *testing.B) {
		db, a := rawPebble(b), newRawActor(1)
		times := newTimes(b.N)
		b.ResetTimer()
		for range b.N {
			from := time.Now()
			batch := a.batch(db)
			if err := db.Apply(batch, pebble.Sync); err != nil {
				b.Fatal(err)
			}
			batch.Close()
			times.add(from)
		}
		report(b)
		times.report(b)
	})
}

// BenchmarkCommit64Spaces has 64 callers, each with spaces of its own out of a
// thousand, that wait for every commit.
func BenchmarkCommit64Spaces(b *testing.B) {
	const callers, actors = 64, 1024
	run := func(b *testing.B, each func(caller int) func()) {
		var left atomic.Int64
		left.Store(int64(b.N))
		steps := make([]func(), callers)
		for c := range steps {
			steps[c] = each(c)
		}
		b.ResetTimer()
		var wg sync.WaitGroup
		for _, step := range steps {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					step()
				}
			})
		}
		wg.Wait()
		report(b)
	}
	b.Run("cairn", func(b *testing.B) {
		s := benchStore(b, benchOptions(b))
		run(b, func(caller int) func() {
			spaces := make([]*Space, actors/callers)
			for i := range spaces {
				spaces[i] = openSpace(b, s, caller*len(spaces)+i)
			}
			value, done := make([]byte, benchState), make(chan struct{}, 1)
			told := func(error) { done <- struct{}{} }
			i := 0
			return func() {
				sp := spaces[i%len(spaces)]
				i++
				sp.Writes().Advance(int64(i))
				sp.Writes().Put([]byte{1}, value, PutOptions{})
				sp.Commit(told)
				<-done
			}
		})
	})
	b.Run("raw", func(b *testing.B) {
		db := rawPebble(b)
		run(b, func(caller int) func() {
			all := make([]*rawActor, actors/callers)
			for i := range all {
				all[i] = newRawActor(caller*len(all) + i)
			}
			i := 0
			return func() {
				batch := all[i%len(all)].batch(db)
				i++
				db.Apply(batch, pebble.Sync)
				batch.Close()
			}
		})
	})
}

// BenchmarkCommitDepth64 keeps 64 commits of one space in flight.
func BenchmarkCommitDepth64(b *testing.B) {
	const depth = 64
	for name, o := range map[string]Options{"pipelined": {}, "plain": {PlainCommit: true}} {
		b.Run(name, func(b *testing.B) {
			o.Dir, o.CacheBytes = b.TempDir(), 64<<20
			sp := openSpace(b, benchStore(b, o), 1)
			value, slots := make([]byte, benchState), make(chan struct{}, depth)
			told := func(error) { <-slots }
			b.ResetTimer()
			for i := range b.N {
				slots <- struct{}{}
				sp.Writes().Advance(int64(i))
				sp.Writes().Put([]byte{1}, value, PutOptions{})
				if _, err := sp.Commit(told); err != nil {
					b.Fatal(err)
				}
			}
			for range depth {
				slots <- struct{}{}
			}
			report(b)
		})
	}
	b.Run("raw", func(b *testing.B) {
		db, a := rawPebble(b), newRawActor(1)
		queue, done := make(chan *pebble.Batch, depth), make(chan struct{})
		go func() {
			for batch := range queue {
				batch.SyncWait()
				batch.Close()
			}
			close(done)
		}()
		b.ResetTimer()
		for range b.N {
			batch := a.batch(db)
			if err := db.ApplyNoSyncWait(batch, pebble.Sync); err != nil {
				b.Fatal(err)
			}
			queue <- batch
		}
		close(queue)
		<-done
		report(b)
	})
}

// BenchmarkTurnShared commits 16 turns at once, as a busy mailbox does.
func BenchmarkTurnShared(b *testing.B) {
	const turns, depth = 16, 8
	sp := openSpace(b, benchStore(b, benchOptions(b)), 1)
	value, slots := make([]byte, benchState), make(chan struct{}, depth)
	told := func(error) { <-slots }
	b.ResetTimer()
	for i := range b.N {
		w := sp.Writes()
		w.Savepoint()
		w.Advance(int64(i))
		w.Put([]byte{1}, value, PutOptions{})
		if i%turns == 0 {
			slots <- struct{}{}
			sp.Commit(told)
		}
	}
	for range depth {
		slots <- struct{}{}
	}
	b.ReportAllocs()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
}

// fillActors writes actors with a state, and flushes them.
func fillActors(b *testing.B, s *Store, n int) {
	value := make([]byte, benchState)
	for i := range n {
		sp := openSpace(b, s, i)
		sp.Writes().Put([]byte{1}, value, PutOptions{})
		if _, err := sp.Commit(nil); err != nil {
			b.Fatal(err)
		}
		sp.Close()
	}
	if err := s.db.Flush(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkWake(b *testing.B) {
	const actors = 10000
	s := benchStore(b, benchOptions(b))
	fillActors(b, s, actors)
	times := newTimes(b.N)
	b.ResetTimer()
	for i := range b.N {
		from := time.Now()
		sp, err := s.OpenSpace(testID(i * 7 % actors))
		if err != nil {
			b.Fatal(err)
		}
		if _, ok, err := sp.Writes().Get([]byte{1}); !ok || err != nil {
			b.Fatal(ok, err)
		}
		sp.Close()
		times.add(from)
	}
	b.ReportAllocs()
	times.report(b)
}

func benchKeys(b *testing.B, n int) *Space {
	s := benchStore(b, benchOptions(b))
	sp := openSpace(b, s, 1)
	for i := range n {
		sp.Writes().Put(fmt.Appendf([]byte{4}, "key %06d", i), make([]byte, 100), PutOptions{New: true})
	}
	commit(b, sp)
	if err := s.db.Flush(); err != nil {
		b.Fatal(err)
	}
	return sp
}

func BenchmarkGet(b *testing.B) {
	sp := benchKeys(b, 10000)
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = fmt.Appendf([]byte{4}, "key %06d", i*9)
	}
	b.Run("write set", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if _, ok, err := sp.Writes().Get(keys[i%len(keys)]); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			sn := sp.Snapshot()
			if _, ok, err := sn.Get(keys[i%len(keys)]); !ok || err != nil {
				b.Fatal(ok, err)
			}
			sn.Close()
		}
	})
	for i := range keys {
		keys[i] = fmt.Appendf([]byte{4}, "nothing %06d", i)
	}
	b.Run("absent", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if _, ok, err := sp.Writes().Get(keys[i%len(keys)]); ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
}

// BenchmarkGetThenPut is a turn that reads a key and writes it, without a commit.
func BenchmarkGetThenPut(b *testing.B) {
	sp := benchKeys(b, 10000)
	w := sp.Writes()
	value := make([]byte, 100)
	for name, format := range map[string]string{"present": "key %06d", "absent": "nothing %06d"} {
		keys := make([][]byte, 1000)
		for i := range keys {
			keys[i] = fmt.Appendf([]byte{4}, format, i*9)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				key := keys[i%len(keys)]
				at := w.Savepoint()
				w.Advance(int64(i))
				if _, _, err := w.Get(key); err != nil {
					b.Fatal(err)
				}
				if err := w.Put(key, value, PutOptions{}); err != nil {
					b.Fatal(err)
				}
				w.Rollback(at)
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	sp := benchKeys(b, 10000)
	for _, reverse := range []bool{false, true} {
		for _, keysOnly := range []bool{false, true} {
			b.Run(fmt.Sprintf("100 entries/reverse=%v/keys=%v", reverse, keysOnly), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					page, err := sp.Writes().List(ListQuery{Prefix: []byte{4}, Limit: 100, Reverse: reverse, KeysOnly: keysOnly})
					if err != nil || len(page.Entries) != 100 {
						b.Fatal(len(page.Entries), err)
					}
				}
			})
		}
	}
}

// times keeps how long operations took.
type times struct{ all []int64 }

func newTimes(n int) *times { return &times{make([]int64, 0, n)} }

func (t *times) add(from time.Time) { t.all = append(t.all, int64(time.Since(from))) }

func (t *times) report(b *testing.B) {
	if len(t.all) == 0 {
		return
	}
	slices.Sort(t.all)
	b.ReportMetric(float64(t.all[len(t.all)/2])/1e3, "p50-µs")
}
