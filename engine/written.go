package engine

import (
	"hash/maphash"
	"sync/atomic"
	"unsafe"
)

// written caches the metadata in the store of keys that the space recently wrote more than once, so
// writing one again reads nothing. Nothing else changes the rows of the actor, so the cache is
// right until the space is fenced. Its claims:
//
//  1. It has only keys that were in the store when they were written, and no table before fewMisses
//     lookups of such keys.
//  2. It grows while more lookups of stored keys miss than hit. All spaces of a store share
//     writtenBytes, first come, first served; concurrent commits may exceed that a little.
type written struct {
	table  []writtenKey
	missed int // lookups of stored keys that missed, since the table grew; each hit takes one off
	bytes  int64
}

// writtenKey is a key in one of the places of its hash. meta is its metadata in the store, if the
// key is not empty.
type writtenKey struct {
	key  []byte
	meta metadata
}

const (
	writtenBytes = 8 << 20
	writtenKeyIn = int64(unsafe.Sizeof(writtenKey{})) // bytes
	longestKey   = 128
	fewMisses    = 64
	fewestKeys   = 64
	mostKeys     = 4096
	keyPlaces    = 4 // of a hash
)

var writtenSeed = maphash.MakeSeed()

// at returns the place of a key. If the key has none, the place is empty or another key's.
// REQUIRES: a table.
func (k *written) at(key []byte) (at *writtenKey, same bool) {
	hash := maphash.Bytes(writtenSeed, key)
	places := k.table[hash%uint64(len(k.table)/keyPlaces)*keyPlaces:][:keyPlaces]
	at = &places[hash>>32%keyPlaces]
	for i := range places {
		switch p := &places[i]; {
		case len(p.key) == 0:
			at = p
		case string(p.key) == string(key):
			return p, true
		}
	}
	return at, false
}

// find returns the metadata in the store of a key that was recently written.
func (k *written) find(key []byte) (metadata, bool) {
	if len(k.table) > 0 && len(key) <= longestKey {
		if at, same := k.at(key); same {
			k.missed = max(0, k.missed-1)
			return at.meta, true
		}
	}
	return metadata{}, false
}

// commit adds the keys that a commit wrote. REQUIRES: the batch was applied, and Space.mu.
func (k *written) commit(w *WriteSet, all *atomic.Int64) {
	if w.destroyed != nil {
		k.drop(all)
		return
	}
	for i := range k.table {
		if len(w.ranges) == 0 {
			break
		}
		if at := &k.table[i]; w.hidden(at.key) {
			at.key = at.key[:0]
		}
	}
	if w.overlay == nil || !k.grow(all) {
		return
	}
	room := writtenBytes - all.Load()
	took := int64(0)
	for i := range w.overlay.slots {
		sl := &w.overlay.slots[i]
		if len(sl.key) > longestKey || isState(sl.key) {
			continue
		}
		at, same := k.at(sl.key)
		switch more := int64(len(sl.key) - cap(at.key)); {
		case sl.live && same:
			at.meta = sl.meta
		case same:
			at.key = at.key[:0]
		case sl.live && sl.sought && more <= room-took:
			if more > 0 {
				at.key = make([]byte, 0, len(sl.key))
				took += more
			}
			at.key, at.meta = append(at.key[:0], sl.key...), sl.meta
		}
	}
	k.spend(all, took)
}

// grow makes a table or a larger one, if it is time and the store has room. It reports whether
// there is a table.
func (k *written) grow(all *atomic.Int64) bool {
	had := len(k.table)
	if k.missed < max(fewMisses, 2*had) || had >= mostKeys {
		return had > 0
	}
	k.missed = 0
	size := max(fewestKeys, 4*had)
	if all.Load()+int64(size-had)*writtenKeyIn > writtenBytes {
		return had > 0
	}
	before, bytes := k.table, int64(size)*writtenKeyIn
	k.table = make([]writtenKey, size)
	for i := range before {
		if e := &before[i]; len(e.key) > 0 {
			at, _ := k.at(e.key)
			*at = *e
			bytes += int64(cap(e.key))
		}
	}
	k.spend(all, bytes-k.bytes)
	return true
}

func (k *written) spend(all *atomic.Int64, bytes int64) {
	if bytes != 0 {
		k.bytes += bytes
		all.Add(bytes)
	}
}

// drop empties the cache.
func (k *written) drop(all *atomic.Int64) {
	k.spend(all, -k.bytes)
	*k = written{}
}
