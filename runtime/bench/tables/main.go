// Command tables measures what the options of Pebble's tables do to a store of realistic rows:
// states of actors, JSON of 200 B to 4 KiB, pages of SQLite databases, and values that do not
// compress.
//
// Each variant builds a store of the same rows, compacts it, and reads it with a cache that holds a
// part of it. The variants take turns, and what is printed is the median of the rounds. The base is
// what a store has: see engine/pebble.go.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/cairn-run/cairn/keyspace"
)

// A variant is a way to write tables.
type variant struct {
	name string
	set  func(o *pebble.Options)
}

var variants = []variant{
	{"blocks of 32 KiB", blocks(32 << 10)},
	{"blocks of 16 KiB", blocks(16 << 10)},
	{"blocks of 8 KiB", blocks(8 << 10)},
	{"blocks of 4 KiB", blocks(4 << 10)},
	{"8 KiB, no value blocks", with(blocks(8<<10), func(o *pebble.Options) {
		o.Experimental.SpanPolicyFunc = func([]byte) (pebble.SpanPolicy, []byte, error) {
			return pebble.SpanPolicy{DisableValueSeparationBySuffix: true}, nil, nil
		}
	})},
	{"8 KiB, blocks of rows", with(blocks(8<<10), func(o *pebble.Options) {
		o.Experimental.EnableColumnarBlocks = func() bool { return false }
	})},
	{"8 KiB, no compression", with(blocks(8<<10), compression(sstable.NoCompression))},
	{"8 KiB, MinLZ", with(blocks(8<<10), compression(sstable.FastestCompression), newest)},
	{"8 KiB, Zstd in the last level", with(blocks(8<<10), func(o *pebble.Options) {
		o.Levels[len(o.Levels)-1].Compression = func() *sstable.CompressionProfile { return sstable.ZstdCompression }
	})},
	{"8 KiB, no filters", with(blocks(8<<10), filter(pebble.NoFilterPolicy))},
	{"8 KiB, filters of 14 bits", with(blocks(8<<10), filter(bloom.FilterPolicy(14)))},
}

func with(all ...func(*pebble.Options)) func(*pebble.Options) {
	return func(o *pebble.Options) {
		for _, set := range all {
			set(o)
		}
	}
}

func blocks(size int) func(*pebble.Options) {
	return func(o *pebble.Options) {
		for i := 1; i < len(o.Levels); i++ {
			o.Levels[i].BlockSize = size
		}
	}
}

func compression(p *sstable.CompressionProfile) func(*pebble.Options) {
	return func(o *pebble.Options) {
		for i := range o.Levels {
			o.Levels[i].Compression = func() *sstable.CompressionProfile { return p }
		}
	}
}

func filter(p pebble.FilterPolicy) func(*pebble.Options) {
	return func(o *pebble.Options) {
		for i := range o.Levels {
			o.Levels[i].FilterPolicy = p
		}
	}
}

func newest(o *pebble.Options) { o.FormatMajorVersion = pebble.FormatTableFormatV6 }

// options are those of a store, with a cache of so many bytes.
func options(cache int64) *pebble.Options {
	comparer := *pebble.DefaultComparer
	comparer.Name = "cairn.v1"
	comparer.Split, comparer.ImmediateSuccessor = keyspace.SplitRow, keyspace.AppendSplitSuccessor
	o := &pebble.Options{
		Comparer: &comparer, FormatMajorVersion: pebble.FormatWALSyncChunks, CacheSize: cache + 4*memTable, MemTableSize: memTable,
		MemTableStopWritesThreshold: 4, BytesPerSync: 1 << 20, LBaseMaxBytes: 64 << 20, L0CompactionThreshold: 4, Logger: quiet{},
	}
	with(filter(bloom.FilterPolicy(10)), compression(sstable.SnappyCompression))(o)
	return o
}

const memTable = 64 << 20

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	check(fmt.Errorf(format, args...))
}

func main() {
	actors := flag.Int("actors", 100_000, "actors in the store, each with 16 KiB on average")
	rounds := flag.Int("rounds", 3, "rounds")
	span := flag.Duration("time", 2*time.Second, "duration of each measurement")
	cache := flag.Int64("cache", 256, "MiB of the block cache")
	dir := flag.String("dir", "", "directory for the stores; default a temporary one")
	only := flag.String("run", "", "only variants whose name has this text")
	flag.Parse()
	if *dir == "" {
		d, err := os.MkdirTemp("", "cairn-tables-")
		check(err)
		defer os.RemoveAll(d)
		*dir = d
	}
	rows := newRows(*actors, 100_000, *dir)
	results := make(map[string][]result)
	for range *rounds {
		for _, v := range variants {
			if strings.Contains(v.name, *only) {
				r := rows.measure(filepath.Join(*dir, "store"), v, *cache<<20, *span)
				results[v.name] = append(results[v.name], r)
				fmt.Fprintln(os.Stderr, "measured:", v.name)
			}
		}
	}
	fmt.Printf("%d actors, %d MiB of rows, cache %d MiB; processor time of an operation\n\n",
		*actors, rows.bytes>>20, *cache)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "tables\tbytes, part of the rows'\tbuild, a row\t"+strings.Join(kinds, "\t"))
	for _, v := range variants {
		all := results[v.name]
		if all == nil {
			continue
		}
		fmt.Fprintf(w, "%s\t%.3f\t%v", v.name,
			median(all, func(r result) float64 { return r.size }), spanOf(median(all,
				func(r result) float64 { return r.build })))
		for _, kind := range kinds {
			fmt.Fprintf(w, "\t%v", spanOf(median(all, func(r result) float64 { return r.spent[kind] })))
		}
		fmt.Fprintln(w)
	}
}

// spanOf rounds seconds to three digits.
func spanOf(seconds float64) time.Duration {
	d := time.Duration(seconds * 1e9)
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

func median(all []result, of func(result) float64) float64 {
	var v []float64
	for _, r := range all {
		v = append(v, of(r))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}
