// Package rawpebble opens the database that Cairn is measured beside: Pebble with its own defaults,
// and what anyone would add to them.
package rawpebble

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// CacheBytes is the size of the block cache, which is that of a store of Cairn.
const CacheBytes = 256 << 20

// Open opens a database with a block cache of its own, memtables as large as those of a store, and
// a filter on every level.
func Open(dir string) (*pebble.DB, error) {
	cache := pebble.NewCache(CacheBytes)
	defer cache.Unref()
	o := &pebble.Options{Cache: cache, MemTableSize: 64 << 20, Logger: quiet{}, FormatMajorVersion: pebble.FormatNewest}
	o.EnsureDefaults()
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return pebble.Open(dir, o)
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}
