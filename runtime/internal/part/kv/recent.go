package kv

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
)

// A recent caches small entries that queries of an actor have read lately, while the actor is
// awake.
//
// A turn marks its changes with its version, before its commit is applied. An entry that was read
// as of a version is valid for any version from the entry's own on, up to the first mark after it.
// So a query needs no lock: a mark of a commit that its view has is before the view.
//
// Turns and queries both make it, so a turn that has marked nothing began after all cached entries
// were read. The marks of a turn no longer count when the turn is undone.
type recent struct {
	held  *atomic.Int64 // bytes of all recents of the node
	table atomic.Pointer[[]slot]
	all   atomic.Uint64 // the last version that may have changed anything

	mu      sync.Mutex
	last    uint64 // the last version that has changed a key
	bytes   int64
	crowded atomic.Int32 // how often keys have missed a slot that has another one
	closed  bool
}

// A slot has some of the entries whose keys have its hash. It has two, so that a frequently read
// key hardly ever displaces another one.
type slot struct {
	changed atomic.Uint64 // the last version that changed such an entry
	// the hash of the key that was missed last: a key displaces another one when it is missed twice
	asked   atomic.Uint64
	entries [2]atomic.Pointer[remembered]
}

type remembered struct {
	engine.Entry
	asOf uint64
}

const (
	recentBytes = 8 << 20 // of a node
	recentValue = 4 << 10 // an entry with more bytes is not cached
	fewSlots    = 32
	manySlots   = 2048
)

var (
	_ kernel.Facet    = (*recent)(nil)
	_ kernel.Finisher = (*recent)(nil)
)

func recentOf(k *kernel.Kernel, of *attach.List) *recent {
	if r := attach.Get[*recent](of); r != nil {
		return r
	}
	r := attach.Make(of, func() *recent { return &recent{held: &kernel.PartOf[*Part](k).Remembered} })
	if of.Ended.Load() { // nothing would close it
		r.clear()
	}
	return r
}

var seed = maphash.MakeSeed()

// slotOf returns the slot of a packed key, and its hash.
func slotOf(table []slot, key []byte) (*slot, uint64) {
	hash := maphash.Bytes(seed, key)
	return &table[hash%uint64(len(table))], hash
}

// get returns an entry as of a version, if it is cached; its Value is shared. If it is not, keep
// says whether it should be.
func (r *recent) get(key []byte, version engine.Version) (out engine.Entry, there, keep bool) {
	table := r.table.Load()
	if table == nil {
		return out, false, true
	}
	s, hash := slotOf(*table, key[1:])
	room := false
	for i := range s.entries {
		switch e := s.entries[i].Load(); {
		case !r.valid(s, e):
			room = room || e != nil || r.held.Load() < recentBytes
		case string(e.Key) != string(key) || e.Version > version:
		default:
			out = e.Entry
			out.Key = key
			return out, true, false
		}
	}
	if room || s.asked.Load() == hash {
		return out, false, true
	}
	s.asked.Store(hash)
	return out, false, len(*table) < manySlots && int(r.crowded.Add(1)) > 2*len(*table)
}

// keep caches an entry as of a version.
func (r *recent) keep(e *engine.Entry, version engine.Version) {
	if len(e.Value) > recentValue {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	table := r.table.Load()
	if r.closed {
		return
	}
	if n := fewSlots; table == nil || int(r.crowded.Load()) > 2*len(*table) && len(*table) < manySlots {
		if table != nil {
			n = 4 * len(*table)
		}
		if r.held.Load()-r.bytes > recentBytes {
			return
		}
		made := make([]slot, n)
		r.spend(int64(n)*int64(unsafe.Sizeof(slot{})) - r.bytes)
		r.all.Store(max(r.all.Load(), r.last)) // the marks of the slots
		table = &made
		r.crowded.Store(0)
		r.table.Store(table)
	}
	s, _ := slotOf(*table, e.Key[1:])
	if uint64(version) < max(s.changed.Load(), r.all.Load()) {
		return // no query can get it
	}
	at := r.place(s, e.Key)
	r.drop(at)
	size := sizeOf(e)
	for i := range s.entries {
		if r.held.Load()+size > recentBytes {
			r.drop(&s.entries[i])
		}
	}
	if r.held.Load()+size > recentBytes {
		return
	}
	r.spend(size)
	own := *e
	own.Key, own.Value = append([]byte{}, e.Key...), append([]byte{}, e.Value...)
	at.Store(&remembered{own, uint64(version)})
}

// valid reports whether a query can get the entry at a place of a slot. The slot is read after the
// place.
func (r *recent) valid(s *slot, e *remembered) bool {
	return e != nil && e.asOf >= s.changed.Load() && e.asOf >= r.all.Load() &&
		(e.Expire == 0 || e.Expire > time.Now().UnixMilli())
}

// place returns where to put a key in its slot: where the key is, else a place without a valid
// entry, else the place of the older entry. REQUIRES: r.mu
func (r *recent) place(s *slot, key []byte) *atomic.Pointer[remembered] {
	for i := range s.entries {
		if e := s.entries[i].Load(); e != nil && string(e.Key) == string(key) {
			return &s.entries[i]
		}
	}
	for i := range s.entries {
		if !r.valid(s, s.entries[i].Load()) {
			return &s.entries[i]
		}
	}
	older := s.entries[0].Load()
	s.entries[0].Store(s.entries[1].Load())
	s.entries[1].Store(older)
	return &s.entries[1]
}

// drop forgets the entry at a place of a slot. REQUIRES: r.mu
func (r *recent) drop(at *atomic.Pointer[remembered]) {
	if before := at.Swap(nil); before != nil {
		r.spend(-sizeOf(&before.Entry))
	}
}

func sizeOf(e *engine.Entry) int64 {
	return int64(len(e.Key)+len(e.Value)) + int64(unsafe.Sizeof(remembered{}))
}

// REQUIRES: r.mu
func (r *recent) spend(bytes int64) {
	r.bytes += bytes
	r.held.Add(bytes)
}

// mark records that a version changes the entry of a packed key; nil is any key.
func (r *recent) mark(key []byte, version engine.Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = uint64(version)
	if table := r.table.Load(); table == nil || key == nil {
		r.all.Store(r.last)
	} else {
		s, _ := slotOf(*table, key)
		s.changed.Store(r.last)
		for i := range s.entries {
			r.drop(&s.entries[i])
		}
	}
}

// Forget implements kernel.Facet.
func (r *recent) Forget(_ *kernel.Core, version engine.Version) { r.unmark(version) }

// Seal implements kernel.Participant.
func (*recent) Seal(*kernel.Turn) error { return nil }

// Succeeded implements kernel.Finisher: a turn that undid its changes may leave the version as it
// was.
func (r *recent) Succeeded(t *kernel.Turn) { r.unmark(t.Core.Rows.Version()) }

// unmark takes back the marks of versions after one, to which the write set was rolled back. If
// there were any, the last change counts as one of that version.
func (r *recent) unmark(version engine.Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := uint64(version)
	if r.last <= v {
		return
	}
	r.last = v
	lower := func(mark *atomic.Uint64) {
		if mark.Load() > v {
			mark.Store(v)
		}
	}
	lower(&r.all)
	if table := r.table.Load(); table != nil {
		for i := range *table {
			lower(&(*table)[i].changed)
		}
	}
}

// Close implements kernel.Facet.
func (r *recent) Close(*kernel.Core) { r.clear() }

// Abandon implements kernel.Facet.
func (r *recent) Abandon(*kernel.Core) { r.clear() }

func (r *recent) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spend(-r.bytes)
	r.table.Store(nil)
	r.closed = true
}

// A remembering reads user keys for a query of an awake actor, from memory if they were read
// lately.
type remembering struct {
	engine.Reader
	recent  *recent
	version engine.Version
}

// remember wraps the reader of a query in a remembering.
func remember(q *call.Query, rows engine.Reader) remembering {
	r := remembering{Reader: rows, version: q.View.Version}
	if q.View.Of != nil {
		r.recent = recentOf(q.Actor.Kernel, q.View.Of)
	}
	return r
}

// Get implements engine.Reader. The Value is shared.
func (r remembering) Get(key []byte) (engine.Entry, bool, error) {
	if r.recent == nil || keyspace.Kind(key[0]) != keyspace.UserKV.Kind {
		return r.Reader.Get(key)
	}
	e, there, keep := r.recent.get(key, r.version)
	if there {
		return e, true, nil
	}
	return r.read(key, keep)
}

// own is Get with a Value of its own.
func (r remembering) own(key []byte) (engine.Entry, bool, error) {
	if r.recent == nil {
		return r.Reader.Get(key)
	}
	e, there, keep := r.recent.get(key, r.version)
	if there {
		e.Value = slices.Clone(e.Value)
		return e, true, nil
	}
	return r.read(key, keep)
}

// read reads an entry that is not cached.
func (r remembering) read(key []byte, keep bool) (engine.Entry, bool, error) {
	e, there, err := r.Reader.Get(key)
	if there && keep && err == nil {
		r.recent.keep(&e, r.version)
	}
	return e, there, err
}
