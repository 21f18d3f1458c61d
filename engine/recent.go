package engine

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// recent is what the store has under the keys that a write set read last, so
// that a turn which reads a key and then writes it asks the store once. Its
// claims:
//
//  1. It speaks of the store only, never of slots, hidden ranges or the clock.
//     Until the next commit of the space nothing changes there, so neither a
//     Rollback nor a new turn can make it wrong.
//  2. It has room for recentKeys keys, and a new one takes the place of the
//     oldest. So a turn that reads much pays a copy of each key and no memory.
//  3. It is given back with the commit, and with a Rollback to a set that holds
//     nothing.
type recent struct {
	seed   maphash.Seed
	hashes [recentKeys]uint64 // of keys
	keys   [recentKeys]recentKey
	read   uint // how many keys were remembered since it was taken from the pool
}

// recentKey is a key with its metadata; ok is false if the store has no such key.
type recentKey struct {
	key  []byte
	meta metadata
	ok   bool
}

const (
	recentKeys   = 16
	recentLength = 256            // bytes of a key; longer ones are not remembered
	recentPage   = recentKeys / 2 // entries of a list; those of a longer one are not remembered
)

var recentPool = sync.Pool{New: func() any {
	const usual = 48 // bytes of a key
	r, block := &recent{seed: maphash.MakeSeed()}, make([]byte, recentKeys*usual)
	for i := range r.keys {
		r.keys[i].key = block[i*usual : i*usual : (i+1)*usual]
	}
	return r
}}

// find returns a key that is remembered, or nil.
func (r *recent) find(key []byte) *recentKey {
	if r == nil {
		return nil
	}
	hash := maphash.Bytes(r.seed, key)
	for i := range min(r.read, recentKeys) {
		if r.hashes[i] == hash && bytes.Equal(r.keys[i].key, key) {
			return &r.keys[i]
		}
	}
	return nil
}

// add remembers a key that is not.
func (r *recent) add(key []byte, m *metadata, ok bool) {
	i := r.read % recentKeys
	r.read++
	k := &r.keys[i]
	r.hashes[i] = maphash.Bytes(r.seed, key)
	k.key, k.meta, k.ok = append(k.key[:0], key...), *m, ok
}

// recall returns what the store has under a key, and known if that is
// remembered.
func (sp *Space) recall(key []byte) (m metadata, ok, known bool) {
	if isState(key) {
		return sp.state.meta, sp.state.exists, true
	}
	if k := sp.recent.find(key); k != nil {
		return k.meta, k.ok, true
	}
	return metadata{}, false, false
}

// remember keeps what the store was found to have under a key that recall does
// not know.
func (sp *Space) remember(key []byte, m *metadata, ok bool) {
	if len(key) > recentLength {
		return
	}
	if sp.recent == nil {
		sp.recent = recentPool.Get().(*recent)
	}
	sp.recent.add(key, m, ok)
}

// forgetRecent forgets all keys but that of the state.
func (sp *Space) forgetRecent() {
	if r := sp.recent; r != nil {
		sp.recent, r.read = nil, 0
		recentPool.Put(r)
	}
}
