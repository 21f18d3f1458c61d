// Package directory finds the values in memory by key. Lookups of different keys seldom wait for
// each other.
package directory

import (
	"hash/maphash"
	"maps"
	"sync"
)

// A Directory is a map from keys to values. Safe for concurrent use.
type Directory[V comparable] struct {
	seed   maphash.Seed
	shards [64]shard[V]
}

type shard[V comparable] struct {
	mu     sync.RWMutex
	values map[string]V
	most   int  // values since the map was made
	closed bool // no value is added
}

// shrunk is how many values a map must have had to be made anew when few are left: a map does not
// shrink.
const shrunk = 32

// New returns an empty directory.
func New[V comparable]() *Directory[V] {
	d := &Directory[V]{seed: maphash.MakeSeed()}
	for i := range d.shards {
		d.shards[i].values = make(map[string]V)
	}
	return d
}

func (d *Directory[V]) shard(key []byte) *shard[V] {
	return &d.shards[maphash.Bytes(d.seed, key)%uint64(len(d.shards))]
}

// Find returns the value of a key, or the zero value if there is none.
func (d *Directory[V]) Find(key []byte) V {
	sh := d.shard(key)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.values[string(key)]
}

// FindOrMake returns the value of a key. If there is none, it adds the result of make. It returns
// the zero value if there is none and the directory has closed. make is called with a lock of the
// directory held.
func (d *Directory[V]) FindOrMake(key []byte, make func(key string) V) V {
	sh := d.shard(key)
	sh.mu.RLock()
	v, ok := sh.values[string(key)]
	sh.mu.RUnlock()
	if ok {
		return v
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if v, ok = sh.values[string(key)]; !ok && !sh.closed {
		k := string(key)
		v = make(k)
		sh.values[k] = v
		sh.most = max(sh.most, len(sh.values))
	}
	return v
}

// Remove removes a value, unless another one has taken its place.
func (d *Directory[V]) Remove(key []byte, v V) {
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.values[string(key)] == v {
		delete(sh.values, string(key))
		if sh.most > shrunk && len(sh.values) < sh.most/8 {
			sh.values = maps.Collect(maps.All(sh.values))
			sh.most = len(sh.values)
		}
	}
}

// Each calls f for each value, with no lock held. It may miss values that are added meanwhile, and
// visit removed ones.
func (d *Directory[V]) Each(f func(V)) {
	var all []V
	for i := range d.shards {
		sh := &d.shards[i]
		all = all[:0]
		sh.mu.RLock()
		for _, v := range sh.values {
			all = append(all, v)
		}
		sh.mu.RUnlock()
		for _, v := range all {
			f(v)
		}
	}
}

// Len returns the number of values.
func (d *Directory[V]) Len() (n int) {
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.RLock()
		n += len(sh.values)
		sh.mu.RUnlock()
	}
	return n
}

// Close refuses new values. An Each that begins after it visits every value that is not removed.
func (d *Directory[V]) Close() {
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		sh.closed = true
		sh.mu.Unlock()
	}
}
