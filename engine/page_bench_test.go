package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

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
		if err := sp.Writes().Put(pageKey(n), pageOf(n), PutOptions{New: true}); err != nil {
			b.Fatal(err)
		}
	}
	commit(b, sp)
	if where == "tables" {
		if err := s.db.Flush(); err != nil {
			b.Fatal(err)
		}
		start, end := rowRange(sp.id, nil, nil)
		if err := s.db.Compact(b.Context(), start, end, false); err != nil {
			b.Fatal(err)
		}
	}
	return sp
}

func BenchmarkPageRead(b *testing.B) {
	for _, where := range []string{"memtable", "tables"} {
		sp := benchPages(b, where)
		order, keys := rand.New(rand.NewPCG(1, 1)).Perm(pages), make([][]byte, pages)
		for i := range keys {
			keys[i] = pageKey(order[i])
		}
		w, sn := sp.Writes(), sp.Snapshot()
		defer sn.Close()
		var page []byte
		var rows [][]byte
		for _, key := range keys {
			rows = append(rows, keyspace.AppendMetadataRow(nil, sp.id, key))
		}
		for _, way := range []struct {
			name string
			read func(i int) bool
		}{
			{"get", func(i int) bool {
				e, ok, err := w.Get(keys[i])
				return err == nil && ok && len(e.Value) == pageSize
			}},
			{"append", func(i int) (ok bool) {
				var err error
				page, ok, err = w.AppendValue(page[:0], keys[i])
				return err == nil && ok && len(page) == pageSize
			}},
			{"append snapshot", func(i int) (ok bool) {
				var err error
				page, ok, err = sn.AppendValue(page[:0], keys[i])
				return err == nil && ok && len(page) == pageSize
			}},
			{"raw", func(i int) bool {
				v, closer, err := sp.store.db.Get(rows[i])
				if err == nil {
					page = append(page[:0], v...)
					closer.Close()
				}
				return err == nil && len(page) == pageSize
			}},
		} {
			b.Run(where+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					if !way.read(i % pages) {
						b.Fatal("no page")
					}
				}
			})
		}
	}
}

// BenchmarkPageScan reads all pages in order; its figure is per page.
func BenchmarkPageScan(b *testing.B) {
	for _, where := range []string{"memtable", "tables"} {
		sp := benchPages(b, where)
		start, end := pageKey(0), pageKey(pages)
		var image []byte
		all := func(b *testing.B, scan func() int) {
			b.ReportAllocs()
			for range b.N {
				image = image[:0]
				if n := scan(); n != pages || len(image) != pages*pageSize {
					b.Fatal(n, len(image))
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/pages, "ns/page")
		}
		collect := func(n *int) func(key, value []byte) bool {
			return func(_, value []byte) bool {
				*n++
				image = append(image, value...)
				return true
			}
		}
		b.Run(where+"/snapshot", func(b *testing.B) {
			all(b, func() (n int) {
				sn := sp.Snapshot()
				defer sn.Close()
				if err := sn.Scan(start, end, collect(&n)); err != nil {
					b.Fatal(err)
				}
				return n
			})
		})
		b.Run(where+"/write set", func(b *testing.B) {
			all(b, func() (n int) {
				if err := sp.Writes().Scan(start, end, collect(&n)); err != nil {
					b.Fatal(err)
				}
				return n
			})
		})
		b.Run(where+"/raw", func(b *testing.B) {
			lower, upper := rowRange(sp.id, start, end)
			all(b, func() (n int) {
				it, err := sp.store.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
				if err != nil {
					b.Fatal(err)
				}
				for ok := it.First(); ok; ok = it.Next() {
					if v := it.Value(); len(v) == pageSize {
						n++
						image = append(image, v...)
					}
				}
				it.Close()
				return n
			})
		})
	}
}

// BenchmarkPagePut writes two pages that are there, in turns that are undone.
func BenchmarkPagePut(b *testing.B) {
	for _, where := range []string{"memtable", "tables"} {
		sp := benchPages(b, where)
		w, page := sp.Writes(), pageOf(0)
		for name, o := range map[string]PutOptions{"known": {Known: true, Old: pageSize}, "unknown": {}} {
			b.Run(where+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					at := w.Savepoint()
					w.Advance(int64(i))
					for k := range 2 {
						if err := w.Put(pageKey(i*2*7%pages+k), page, o); err != nil {
							b.Fatal(err)
						}
					}
					w.Rollback(at)
				}
			})
		}
	}
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
						if err := w.Put(pageKey((i+k)%pages), page, o); err != nil {
							b.Fatal(err)
						}
					}
					slots <- struct{}{}
					if _, err := sp.Commit(told); err != nil {
						b.Fatal(err)
					}
				}
				for range cap(slots) {
					slots <- struct{}{}
				}
			})
		}
	}
}

// BenchmarkPageEncode makes the batch of a turn that wrote many pages, without
// applying it.
func BenchmarkPageEncode(b *testing.B) {
	for _, n := range []int{2, pages, 5 * pages} {
		b.Run(fmt.Sprintf("%d pages", n), func(b *testing.B) {
			sp := openSpace(b, benchStore(b, benchOptions(b)), 1)
			w, page := sp.Writes(), pageOf(0)
			b.Run("put", func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					w.drop()
					for k := range n {
						if err := w.Put(pageKey(k), page, PutOptions{New: true}); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
			b.Run("encode", func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					next := w.nextHead()
					batch := sp.store.newBatch(w)
					if _, err := w.encode(batch, &next, outboxSpan{}); err != nil {
						b.Fatal(err)
					}
					batch.Close()
				}
			})
		})
	}
}

// BenchmarkPageTruncate deletes the last pages of many, in turns that are undone.
func BenchmarkPageTruncate(b *testing.B) {
	for _, where := range []string{"memtable", "tables"} {
		sp := benchPages(b, where)
		w := sp.Writes()
		for _, n := range []int{1, 8, 1000} {
			b.Run(fmt.Sprintf("%s/%d pages", where, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					at := w.Savepoint()
					w.Advance(int64(i))
					if got, err := w.DeleteRange(pageKey(pages-n), pageKey(pages)); err != nil || got != int64(n) {
						b.Fatal(got, err)
					}
					w.Rollback(at)
				}
			})
		}
	}
}
