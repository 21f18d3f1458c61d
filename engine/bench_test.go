package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairn-run/cairn/keyspace"
)

// The benchmark of commits has a twin that writes the same rows with bare
// Pebble: the row of the head with the state, from buffers,
// with the same options but on Pebble's own filesystem: its logs are as Pebble
// makes them, not the spares of warm.go. Run both in one run; figures of
// different runs do not compare.

const benchState = 256 // bytes of the state

func benchOptions(b *testing.B) Options {
	return Options{Dir: b.TempDir(), CacheBytes: 64 << 20}
}

func benchStore(b *testing.B, o Options) *Store {
	s, err := Open(b.Context(), o)
	must(b, err)
	b.Cleanup(func() { s.Close() })
	return s
}

func rawPebble(b *testing.B) *pebble.DB {
	o := benchOptions(b)
	o.EnsureDefaults()
	p := pebbleOptions(o, nil, &Store{opts: o})
	p.FS = vfs.Default
	db, err := pebble.Open(o.Dir, p)
	must(b, err)
	b.Cleanup(func() { db.Close() })
	return db
}

// A starter begins a commit of the state of one actor, and calls told when it is durable.
type starter func(told func(error))

// cairnStarters commits every so many turns.
func cairnStarters(b *testing.B, o Options, turns int) func(actor int) starter {
	o.Dir, o.CacheBytes = b.TempDir(), 64<<20
	s, value := benchStore(b, o), make([]byte, benchState)
	return func(actor int) starter {
		sp, i := openSpace(b, s, actor), 0
		return func(told func(error)) {
			w := sp.Writes()
			if turns > 1 {
				w.Savepoint()
			}
			w.Advance(int64(i))
			must(b, w.Put([]byte{1}, value, PutOptions{}))
			if i++; i%turns > 0 {
				told(nil)
				return
			}
			must(b, errOf(sp.Commit(told)))
		}
	}
}

func rawStarters(b *testing.B, depth int) func(actor int) starter {
	db := rawPebble(b)
	return func(actor int) starter {
		m := metadata{version: 1000, created: 1_700_000_000_000, updated: 1_700_000_000_100, size: benchState}
		h := head{Head: Head{Generation: 1, Version: 1000, Keys: 1, Bytes: benchState + 1, Created: m.created, Updated: m.updated}}
		root := keyspace.AppendMetadataRow(nil, testID(actor), stateKey())
		value := h.appendRoot(nil, &stateCache{exists: true, meta: m, value: make([]byte, benchState)})
		queue := make(chan func(), depth)
		b.Cleanup(func() { close(queue) })
		if depth > 1 {
			go func() {
				for wait := range queue {
					wait()
				}
			}()
		}
		return func(told func(error)) {
			batch := db.NewBatch()
			batch.Set(root, value, nil)
			if depth == 1 {
				must(b, db.Apply(batch, pebble.Sync))
				batch.Close()
				told(nil)
				return
			}
			must(b, db.ApplyNoSyncWait(batch, pebble.Sync))
			queue <- func() {
				batch.SyncWait()
				batch.Close()
				told(nil)
			}
		}
	}
}

// BenchmarkCommit runs callers, each with actors of its own and with up to depth commits that are
// not durable yet. With turns=16, as many turns share a commit; its figure is per turn.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct {
		name                   string
		callers, actors, depth int
	}{{"one caller", 1, 1, 1}, {"depth 64", 1, 1, 64}, {"64 callers of 1024 actors", 64, 16, 1}} {
		for name, starters := range map[string]func(*testing.B) func(int) starter{
			"pipelined": func(b *testing.B) func(int) starter { return cairnStarters(b, Options{}, 1) },
			"turns=16":  func(b *testing.B) func(int) starter { return cairnStarters(b, Options{}, 16) },
			"plain":     func(b *testing.B) func(int) starter { return cairnStarters(b, Options{PlainCommit: true}, 1) },
			"raw":       func(b *testing.B) func(int) starter { return rawStarters(b, c.depth) },
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				of := starters(b)
				var left atomic.Int64
				left.Store(int64(b.N))
				took := newTimes(b.N)
				var wg sync.WaitGroup
				b.ResetTimer()
				for caller := range c.callers {
					commits, slots := make([]starter, c.actors), make(chan struct{}, c.depth)
					for i := range commits {
						commits[i] = of(caller*c.actors + i)
					}
					wg.Go(func() {
						for i := 0; left.Add(-1) >= 0; i++ {
							slots <- struct{}{}
							from := time.Now()
							commits[i%c.actors](func(error) {
								if c.callers*c.depth == 1 {
									took.add(from)
								}
								<-slots
							})
						}
						for range c.depth {
							slots <- struct{}{}
						}
					})
				}
				wg.Wait()
				b.ReportAllocs()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
				took.report(b)
			})
		}
	}
}

// undone makes turns that are undone.
func undone(b *testing.B, w *WriteSet, turn func(i int)) {
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		at := w.Savepoint()
		w.Advance(int64(i))
		turn(i)
		w.Rollback(at)
	}
}

// fillActors writes actors with a state, and flushes them.
func fillActors(b *testing.B, s *Store, n int) {
	value := make([]byte, benchState)
	for i := range n {
		sp := openSpace(b, s, i)
		sp.Writes().Put([]byte{1}, value, PutOptions{})
		must(b, errOf(sp.Commit(nil)))
		sp.Close()
	}
	must(b, databaseOf(s).Flush())
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
		must(b, err)
		_, ok, err := sp.Writes().Get([]byte{1})
		fatalIf(b, !ok || err != nil, "%v %v", ok, err)
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
	must(b, databaseOf(s).Flush())
	return sp
}

func BenchmarkGet(b *testing.B) {
	sp := benchKeys(b, 10000)
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = fmt.Appendf([]byte{4}, "key %06d", i*9)
	}
	for name, get := range map[string]func(key []byte) (Entry, bool, error){
		"write set": sp.Writes().Get,
		"snapshot": func(key []byte) (Entry, bool, error) {
			sn := sp.Snapshot()
			defer sn.Close()
			return sn.Get(key)
		},
		"absent": func(key []byte) (Entry, bool, error) { return sp.Writes().Get(append(key, 0)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				_, ok, err := get(keys[i%len(keys)])
				fatalIf(b, ok != (name != "absent") || err != nil, "%v %v", ok, err)
			}
		})
	}
}

// BenchmarkGetThenPut reads a row and writes it, in turns that are undone.
func BenchmarkGetThenPut(b *testing.B) {
	sp := benchKeys(b, 10000)
	w, value := sp.Writes(), make([]byte, 100)
	for name, format := range map[string]string{"present": "key %06d", "absent": "nothing %06d"} {
		b.Run(name, func(b *testing.B) {
			keys := make([][]byte, 1000)
			for i := range keys {
				keys[i] = fmt.Appendf([]byte{4}, format, i*9)
			}
			undone(b, w, func(i int) {
				key := keys[i%len(keys)]
				_, ok, err := w.Get(key)
				fatalIf(b, err != nil || ok != (name == "present"), "%v %v", ok, err)
				must(b, w.Put(key, value, PutOptions{}))
			})
		})
	}
}

// BenchmarkPutAgain commits one of so many keys, one after the other, without sync.
func BenchmarkPutAgain(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n, " keys"), func(b *testing.B) {
			sp := benchKeys(b, n)
			key, value := []byte(nil), make([]byte, 100)
			b.ReportAllocs()
			for i := range b.N {
				key = fmt.Appendf(key[:0], "\x04key %06d", i%n)
				must(b, sp.Writes().Put(key, value, PutOptions{}))
				must(b, errOf(sp.Commit(nil)))
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
					fatalIf(b, err != nil || len(page.Entries) != 100, "%v %v", len(page.Entries), err)
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

// The benchmarks of this file are about the pages of a database: values of 4 KiB
// under consecutive keys, 3,000 of them, which are 12 MB.

const (
	pages    = 3000
	pageSize = 4096
)

func pageKey(n int) []byte { return keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, uint32(n)) }

// pageOf returns a page of rows, which takes about half of its size when it is
// compressed.
func pageOf(n int) []byte {
	page, rnd := make([]byte, 0, 2*pageSize), rand.New(rand.NewPCG(uint64(n), 1))
	for len(page) < pageSize {
		page = fmt.Appendf(page, "customer %016x of %d since 2024-%02d|", rnd.Uint64(), rnd.IntN(1e6), rnd.IntN(12))
	}
	return page[:pageSize]
}

// benchPages returns an actor with pages: where is "memtable", or "tables", where
// a block cache holds them.
func benchPages(b *testing.B, where string) *Space {
	s := benchStore(b, benchOptions(b))
	sp := openSpace(b, s, 1)
	for n := range pages {
		must(b, sp.Writes().Put(pageKey(n), pageOf(n), PutOptions{New: true}))
	}
	commit(b, sp)
	if where == "tables" {
		must(b, databaseOf(s).Flush())
		start, end := rowRange(sp.id, nil, nil)
		must(b, databaseOf(s).Compact(b.Context(), start, end, false))
	}
	return sp
}

// eachPlace runs a benchmark with pages in a memtable, and in tables.
func eachPlace(b *testing.B, bench func(where string, sp *Space)) {
	for _, where := range []string{"memtable", "tables"} {
		bench(where, benchPages(b, where))
	}
}

func BenchmarkPageRead(b *testing.B) {
	eachPlace(b, func(where string, sp *Space) {
		var keys, rows [][]byte
		for _, n := range rand.New(rand.NewPCG(1, 1)).Perm(pages) {
			keys = append(keys, pageKey(n))
			rows = append(rows, keyspace.AppendMetadataRow(nil, sp.id, pageKey(n)))
		}
		w, sn := sp.Writes(), sp.Snapshot()
		defer sn.Close()
		var page []byte
		for name, read := range map[string]func(i int) (int, error){
			"get": func(i int) (int, error) {
				e, _, err := w.Get(keys[i])
				return len(e.Value), err
			},
			"append": func(i int) (n int, err error) {
				page, _, err = w.AppendValue(page[:0], keys[i])
				return len(page), err
			},
			"append snapshot": func(i int) (n int, err error) {
				page, _, err = sn.AppendValue(page[:0], keys[i])
				return len(page), err
			},
			"raw": func(i int) (int, error) {
				v, closer, err := databaseOf(sp.store).Get(rows[i])
				must(b, err)
				page = append(page[:0], v[max(0, len(v)-pageSize):]...) // behind the metadata
				return len(page), closer.Close()
			},
		} {
			b.Run(where+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					n, err := read(i % pages)
					must(b, err)
					same(b, n, pageSize)
				}
			})
		}
	})
}

// BenchmarkPageScan reads all pages in order; its figure is per page.
func BenchmarkPageScan(b *testing.B) {
	eachPlace(b, func(where string, sp *Space) {
		start, end := pageKey(0), pageKey(pages)
		lower, upper := rowRange(sp.id, start, end)
		for name, scan := range map[string]func(each func(key, value []byte) bool) error{
			"write set": func(each func(key, value []byte) bool) error { return sp.Writes().Scan(start, end, each) },
			"snapshot": func(each func(key, value []byte) bool) error {
				sn := sp.Snapshot()
				defer sn.Close()
				return sn.Scan(start, end, each)
			},
			"raw": func(each func(key, value []byte) bool) error {
				it, err := databaseOf(sp.store).NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
				must(b, err)
				for ok := it.First(); ok; ok = it.Next() {
					if v := it.Value(); len(v) >= pageSize { // behind the metadata
						each(nil, v[len(v)-pageSize:])
					}
				}
				return it.Close()
			},
		} {
			b.Run(where+"/"+name, func(b *testing.B) {
				image := make([]byte, 0, pages*pageSize)
				b.ReportAllocs()
				for range b.N {
					image = image[:0]
					must(b, scan(func(_, value []byte) bool { image = append(image, value...); return true }))
					same(b, len(image), pages*pageSize)
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N)/pages, "ns/page")
			})
		}
	})
}

// BenchmarkPagePut writes two pages that are there, in turns that are undone.
func BenchmarkPagePut(b *testing.B) {
	eachPlace(b, func(where string, sp *Space) {
		w, page := sp.Writes(), pageOf(0)
		for name, o := range map[string]PutOptions{"known": {Known: true, Old: pageSize}, "unknown": {}} {
			b.Run(where+"/"+name, func(b *testing.B) {
				undone(b, w, func(i int) {
					for k := range 2 {
						must(b, w.Put(pageKey(i*2*7%pages+k), page, o))
					}
				})
			})
		}
	})
}

// BenchmarkPageEncode makes the batch of a write set with pages.
func BenchmarkPageEncode(b *testing.B) {
	for _, n := range []int{2, pages} {
		b.Run(fmt.Sprintf("%d pages", n), func(b *testing.B) {
			sp := openSpace(b, benchStore(b, benchOptions(b)), 1)
			w, page := sp.Writes(), pageOf(0)
			for k := range n {
				must(b, w.Put(pageKey(k), page, PutOptions{New: true}))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				next, batch := w.nextHead(), newBatch(sp.store, w)
				must(b, errOf(encode(w, batch, &next, numbers{}, numbers{}, nil)))
				batch.Close()
			}
		})
	}
}

// BenchmarkPageTruncate deletes the last pages, in turns that are undone.
func BenchmarkPageTruncate(b *testing.B) {
	eachPlace(b, func(where string, sp *Space) {
		for _, n := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d pages", where, n), func(b *testing.B) {
				undone(b, sp.Writes(), func(int) {
					got, err := sp.Writes().DeleteRange(pageKey(pages-n), pageKey(pages))
					must(b, err)
					same(b, got, int64(n))
				})
			})
		}
	})
}

// BenchmarkPageCommit commits turns that write pages which are there. Its
// figures are per turn: put, and commit until it is visible.
func BenchmarkPageCommit(b *testing.B) {
	for _, n := range []int{2, pages} {
		for name, o := range map[string]PutOptions{"known": {Known: true, Old: pageSize}, "unknown": {}} {
			b.Run(fmt.Sprintf("%d pages/%s", n, name), func(b *testing.B) {
				sp := benchPages(b, "memtable")
				page, slots := pageOf(0), make(chan struct{}, 8)
				told := func(error) { <-slots }
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					w := sp.Writes()
					w.Advance(int64(i))
					for k := range n {
						must(b, w.Put(pageKey((i+k)%pages), page, o))
					}
					slots <- struct{}{}
					must(b, errOf(sp.Commit(told)))
				}
				for range cap(slots) {
					slots <- struct{}{}
				}
			})
		}
	}
}
