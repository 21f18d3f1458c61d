package engine

import (
	"bytes"
	"math"
	"slices"

	"github.com/cairn-run/cairn/keyspace"
)

// WriteSet collects the writes of an actor's turns until Commit makes them one batch. Its claims:
//
//  1. Reads see the store as of the last commit, with the set's own changes on top: slots over
//     hidden ranges over the store.
//  2. keys and bytes are exactly what the actor will have after the commit. A Put that returned nil
//     never exceeds the quota, unless it was exempt.
//  3. A call that returns an error changed nothing.
//  4. Rollback restores everything to the savepoint: keys, counts, version, clock, node rows.
//
// Changes are undone with a log. A slot that is new since the savepoint is just cut off, so a first
// turn in a set logs nothing. An older slot is saved once, at its first change after the savepoint
// (its epoch tells).
//
// The ranges that a DeleteRange of many keys hides are replaced and never changed, so a savepoint
// is a copy of the slice.
type WriteSet struct {
	space   *Space
	overlay *overlay // nil while it has nothing to hold
	commits uint16   // how often the set was committed
	// expiring is a lower bound of the index of expiring keys, or "" if none is known.
	expiring string
	outline
}

// outline is the part of a write set that a savepoint copies.
type outline struct {
	version   Version
	at        int64  // time of the turn, Unix ms: the clock, or the time of the turn before if that is later
	late      uint32 // ms that the clock is behind at, since it was set back; up to 49 days
	floor     uint32 // bytes that the set held when the turn began
	turned    bool   // Advance was called since the last commit
	marks     uint16 // how often Mark was called
	epoch     uint32
	keys      int64
	bytes     int64
	ranges    []span // sorted, disjoint, not empty
	created   *Identity
	destroyed *destruction
}

// span is a range of logical keys; a nil end has no bound.
type span struct{ start, end []byte }

// Savepoint is a state of a write set to return to.
type Savepoint struct {
	state outline
	// The sizes of the overlay. held: there was one.
	used, bytes                        int
	blocks, slots, undo, wakes, record int32
	commits                            uint16
	held                               bool
}

// PutOptions are the rare options of a Put.
type PutOptions struct {
	// ExpireAt is when the key begins to read as absent, in Unix ms; 0 is never.
	// It stays in the store, and in the counts, until it is deleted; see Expired.
	ExpireAt int64

	// Encoding is the encoding of the value's bytes, for the layers above: 1 to 255, or 0 for none.
	// See Entry.Encoding. The state of an actor has none.
	Encoding uint8

	// New says that the key is absent, which saves the lookup. If the key exists, the actor's
	// counts are wrong from then on, and chunks of the old value may remain.
	New bool

	// Known says that the key exists, with a value of Old bytes that does not expire; or, if Old is
	// below zero, that it is absent, as New does. It also saves the lookup. Entry.Created of the
	// key becomes this turn, because its old time is not read. If the set itself has written,
	// deleted or hidden the key, it ignores Known and New.
	//
	// If Known is wrong, the counts of the actor are wrong by the difference from then on, and
	// chunks of an old value that is longer than Old may remain.
	Known bool
	Old   int

	// Exempt puts the key even if the actor's quota is used up. It is for small rows that belong to
	// a change of existing keys, so a full actor can become emptier.
	Exempt bool
}

// reset makes the set empty, on top of the space's head.
func (w *WriteSet) reset() {
	head := &w.space.head
	w.overlay = nil
	w.outline = outline{version: head.Version, at: head.Updated, keys: head.Keys, bytes: head.Bytes}
}

// drop empties the set and gives its memory back.
func (w *WriteSet) drop() {
	if w.overlay != nil {
		w.overlay.release()
	}
	w.reset()
}

// committed empties the set after its batch was applied. REQUIRES: the space's
// head is the new one.
func (w *WriteSet) committed() {
	s := &w.space.state
	next := w.nextState()
	s.exists, s.meta, s.value = next.exists, next.meta, append(s.value[:0], next.value...)
	w.drop()
	w.commits++
}

// nextState returns the state as of the commit of the write set. It omits a value that has data
// rows.
func (w *WriteSet) nextState() (s stateCache) {
	i := w.overlay.find(stateKey())
	switch {
	case i >= 0:
		sl := &w.overlay.slots[i]
		if s.exists, s.meta = sl.live, sl.meta; s.exists && s.meta.chunks == 0 {
			s.value = sl.value
		}
	case !w.hidden(stateKey()):
		s = w.space.state
	}
	return s
}

func stateKey() []byte { return []byte{byte(keyspace.Persisted.Kind)} }

// own returns the overlay, and makes it if there is none.
func (w *WriteSet) own() *overlay {
	if w.overlay == nil {
		w.overlay = overlayPool.Get().(*overlay)
	}
	return w.overlay
}

// Advance begins the next turn in this set: the version grows by one, and nowMS (Unix ms) is the
// clock for expiry. It is also the time for created and updated, unless the clock was set back:
// then these keep the time of the last turn. Several turns may share one commit. A write without
// Advance since the last commit begins a turn by itself.
func (w *WriteSet) Advance(nowMS int64) Version {
	w.version++
	w.at = max(w.at, nowMS)
	w.late = uint32(min(w.at-nowMS, math.MaxUint32))
	w.turned = true
	w.floor = uint32(w.Bytes())
	return w.version
}

// now returns the clock of the turn in progress, or of the last one.
func (w *WriteSet) now() int64 { return w.at - int64(w.late) }

// turn begins a turn if none has begun.
func (w *WriteSet) turn() {
	if !w.turned {
		w.Advance(turnClock())
	}
}

// Version returns the version of the turn that is in progress, or of the last
// commit.
func (w *WriteSet) Version() Version { return w.version }

// Now returns the clock of the turn, in Unix ms.
func (w *WriteSet) Now() int64 { return w.clock() }

// Time returns the time of the turn in progress, or of the last commit, in Unix ms. A later version
// never has an earlier time, regardless of the clock.
func (w *WriteSet) Time() int64 { return w.at }

// Mark makes the turn a change even if it writes nothing, so it gets a version of its own.
func (w *WriteSet) Mark() {
	w.turn()
	w.marks++
}

// Changed reports whether anything was written, deleted, armed, recorded or
// marked since the savepoint. Advance alone is no change.
func (w *WriteSet) Changed(since *Savepoint) bool {
	if w.created != since.state.created || w.destroyed != since.state.destroyed ||
		w.marks != since.state.marks || !w.sameRanges(since) {
		return true
	}
	o := w.overlay
	return o != nil && (len(o.slots) > int(since.slots) || len(o.undo) > int(since.undo) ||
		len(o.wakes) > int(since.wakes) || len(o.records) > int(since.record))
}

// sameRanges reports whether no range was hidden since the savepoint: adding one makes a new slice;
// see addSpan.
func (w *WriteSet) sameRanges(since *Savepoint) bool {
	is, was := w.ranges, since.state.ranges
	return len(is) == len(was) && (len(is) == 0 || &is[0] == &was[0])
}

// Bytes returns how many bytes of keys, values, index rows and records the set holds, including
// overwritten values that a Rollback can restore. Limits.MaxWriteSet bounds what one turn adds to
// it.
func (w *WriteSet) Bytes() int {
	if w.overlay == nil {
		return 0
	}
	return w.overlay.arena.held
}

// Keys returns the number of logical keys that the actor will have.
func (w *WriteSet) Keys() int64 { return w.keys }

// Size returns the bytes of keys and values that the actor will have.
func (w *WriteSet) Size() int64 { return w.bytes }

// Savepoint returns the state of the set, for Rollback. It is valid until the
// set is committed or rolled back to an earlier savepoint.
func (w *WriteSet) Savepoint() Savepoint {
	w.epoch++
	s := Savepoint{state: w.outline, commits: w.commits}
	if o := w.overlay; o != nil {
		s.held = true
		s.slots, s.undo = int32(len(o.slots)), int32(len(o.undo))
		s.wakes, s.record = int32(len(o.wakes)), int32(len(o.records))
		m := o.arena.mark()
		s.blocks, s.used, s.bytes = int32(m.blocks), m.used, m.held
	}
	return s
}

// Size returns WriteSet.Size at the savepoint.
func (s *Savepoint) Size() int64 { return s.state.bytes }

// Rollback undoes everything since the savepoint, Advance included. It can be
// done again for the same savepoint.
func (w *WriteSet) Rollback(s Savepoint) {
	w.expiring = ""
	epoch, o := w.epoch+1, w.overlay
	w.outline = s.state
	w.epoch = epoch
	if o == nil {
		return
	}
	if !s.held {
		w.overlay = nil
		o.release()
		return
	}
	o.held = slices.DeleteFunc(o.held, func(h *Savepoint) bool { return h.state.epoch > s.state.epoch })
	for i := len(o.undo) - 1; i >= int(s.undo); i-- {
		if u := &o.undo[i]; u.slot < s.slots {
			o.slots[u.slot] = u.was
		}
	}
	clear(o.undo[s.undo:])
	o.undo = o.undo[:s.undo]
	o.truncate(int(s.slots))
	clear(o.wakes[s.wakes:])
	o.wakes = o.wakes[:s.wakes]
	clear(o.records[s.record:])
	o.records = o.records[:s.record]
	o.arena.rewind(mark{blocks: int(s.blocks), used: s.used, held: s.bytes})
}

// Only reports whether Rollback would undo only changes of keys of the given kinds, with their
// expiry and the wakes for expiry and changes. It is false if the set was committed since the
// savepoint.
func (w *WriteSet) Only(since *Savepoint, kinds ...keyspace.Kind) bool {
	if w.commits != since.commits || w.created != since.state.created || w.destroyed != since.state.destroyed {
		return false
	}
	for _, r := range w.ranges {
		was := slices.ContainsFunc(since.state.ranges,
			func(s span) bool { return bytes.Equal(s.start, r.start) && bytes.Equal(s.end, r.end) })
		kind := keyspace.Kind(r.start[0])
		if !was && (!slices.Contains(kinds, kind) || r.end == nil || bytes.Compare(r.end, []byte{byte(kind) + 1}) > 0) {
			return false
		}
	}
	o := w.overlay
	if o == nil {
		return true
	}
	one := func(key []byte) bool {
		kind := keyspace.Kind(key[0])
		return kind == keyspace.Expiry.Kind || slices.Contains(kinds, kind)
	}
	for i := int(since.slots); i < len(o.slots); i++ {
		if !one(o.slots[i].key) {
			return false
		}
	}
	for _, u := range o.undo[since.undo:] {
		if u.slot < since.slots && !one(u.was.key) {
			return false
		}
	}
	for _, op := range o.wakes[since.wakes:] {
		if op.kind != keyspace.WakeExpiry && op.kind != keyspace.WakeChange {
			return false
		}
	}
	return len(o.records) == int(since.record)
}

// change returns slot i for a change, after saving it if a savepoint needs it.
func (w *WriteSet) change(i int) *slot {
	o := w.overlay
	sl := &o.slots[i]
	if sl.epoch != w.epoch {
		o.undo = append(o.undo, undo{slot: int32(i), was: *sl})
		sl.epoch = w.epoch
	}
	return sl
}

// fits reports whether a value of n bytes fits into the memory of slot i's value, which no
// savepoint needs.
func (w *WriteSet) fits(i, n int) bool {
	sl := &w.overlay.slots[i]
	return sl.epoch == w.epoch && cap(sl.value) >= n
}

// newSlot makes a slot for a key that has none.
func (w *WriteSet) newSlot(key []byte, base metadata, stored bool) int {
	o := w.own()
	sl := o.add(key)
	sl.epoch, sl.base, sl.stored = w.epoch, base, stored
	return len(o.slots) - 1
}

// checkKey returns the error of a key that cannot be written.
func (w *WriteSet) checkKey(key []byte) error {
	limit := MaxKeyCap
	if len(key) > 0 && keyspace.Kind(key[0]) == keyspace.UserKV.Kind {
		limit = w.space.limits.MaxKey
	}
	switch {
	case len(key) == 0 || keyspace.Kind(key[0]) == keyspace.Expiry.Kind || aside(key):
		return ErrReserved
	case len(key)-1 > limit:
		return &LimitError{LimitKey, int64(limit), int64(len(key) - 1)}
	}
	return w.writable(key)
}

// turnBytes returns how many of Bytes belong to the turn in progress.
func (w *WriteSet) turnBytes() int {
	if !w.turned {
		return w.Bytes()
	}
	return w.Bytes() - int(w.floor)
}

// maxTurn returns how many bytes a turn may write. A turn that needs more memory than all sets may
// take is too large, so a retry cannot help.
func (w *WriteSet) maxTurn() int {
	return int(min(int64(w.space.limits.MaxWriteSet), w.space.store.writing.limit/writeStep*writeStep))
}

// checkRoom returns an error if n more bytes cannot be held.
func (w *WriteSet) checkRoom(n int) error {
	if limit := w.maxTurn(); w.turnBytes()+n > limit {
		return &LimitError{LimitWriteSet, int64(limit), int64(w.turnBytes() + n)}
	}
	if need := w.Bytes() + n; need > writeStep {
		return w.own().reserve(&w.space.store.writing, int64(need))
	}
	return nil
}

// Room returns how many bytes of keys and values can be put before Put returns a QuotaError, or a
// LimitError of the set; it is never negative. A value that replaces one of the same length needs
// no quota.
func (w *WriteSet) Room() int64 {
	room := int64(w.maxTurn() - w.turnBytes())
	return max(0, min(room, w.space.limits.Quota-w.bytes))
}

// MaxEntry returns the most bytes that a key under keyspace.UserKV.Kind, without its first byte,
// and its value may have.
func (w *WriteSet) MaxEntry() (key, value int) {
	return w.space.limits.MaxKey, w.space.limits.MaxValue
}

// Refusal returns the error of a Put that adds n bytes of keys and values: a LimitError if the set
// has no room for them, a QuotaError if the actor has none, nil if they fit. If both have none, the
// error is about the closer bound.
func (w *WriteSet) Refusal(n int64) error {
	limits := w.space.limits
	set, quota := int64(w.maxTurn()-w.turnBytes()), limits.Quota-w.bytes
	switch {
	case n <= min(set, quota):
		return nil
	case set < quota:
		return &LimitError{LimitWriteSet, int64(w.maxTurn()), int64(w.turnBytes()) + n}
	}
	return &QuotaError{Limit: limits.Quota, Used: w.bytes, Need: w.bytes + n}
}

// Put sets a key to a value, which may be empty; both are copied. It returns a LimitError if one of
// them or the set gets too large, a QuotaError if the actor gets too large, ErrReserved, or
// ErrDestroyed. The bytes of the replaced value are credited, so a value of up to its length always
// fits.
func (w *WriteSet) Put(key, value []byte, o PutOptions) error {
	if err := w.checkKey(key); err != nil {
		return err
	}
	limits := w.space.limits
	maxValue := MaxValueCap
	if keyspace.Kind(key[0]) == keyspace.UserKV.Kind {
		maxValue = limits.MaxValue
	}
	if len(value) > maxValue {
		return &LimitError{LimitValue, int64(maxValue), int64(len(value))}
	}
	if o.Known && o.Old > MaxValueCap {
		return &LimitError{LimitValue, MaxValueCap, int64(o.Old)}
	}
	i := w.overlay.find(key)
	need := len(value)
	if i < 0 {
		need += len(key)
	} else if w.fits(i, need) {
		need = 0
	}
	if err := w.checkRoom(need); err != nil {
		return err
	}
	var was metadata // the key's current metadata
	var exists, stored bool
	unread := i < 0 && o.Known
	if i >= 0 {
		was, exists = w.overlay.slots[i].meta, w.overlay.slots[i].live
	} else {
		var err error
		if was, exists, err = w.before(key, &o); err != nil {
			return err
		}
		stored = exists
	}
	keys, bytes := w.keys, w.bytes+int64(len(value))
	if exists {
		bytes -= int64(was.size)
	} else {
		keys++
		bytes += int64(len(key))
	}
	if !o.Exempt && bytes > limits.Quota && bytes > w.bytes {
		return &QuotaError{Limit: limits.Quota, Used: w.bytes, Need: bytes}
	}

	w.turn()
	w.keys, w.bytes = keys, bytes
	if i < 0 {
		i = w.newSlot(key, was, stored)
		w.overlay.slots[i].sought = stored && !o.Known
	}
	inPlace := w.fits(i, len(value))
	sl := w.change(i)
	if inPlace {
		sl.value = sl.value[:len(value)]
		copy(sl.value, value)
	} else {
		sl.value = w.overlay.arena.copy(value)
	}
	sl.live = true
	sl.meta = metadata{
		version: w.version,
		created: w.at,
		updated: w.at,
		expire:  o.ExpireAt,
		size:    uint32(len(value)),
		chunks:  uint32(dataRows(key, len(value))),

		encoding: o.Encoding,
	}
	if exists && !unread && !was.expired(w.now()) {
		sl.meta.created = was.created
	}
	w.reindex(key, was.expire, o.ExpireAt)
	return nil
}

// before returns the metadata in the store of a key without a slot, from lookup or from the options
// of a Put. Hidden ranges override the options.
func (w *WriteSet) before(key []byte, o *PutOptions) (metadata, bool, error) {
	switch {
	case o.New || o.Known && (o.Old < 0 || w.space.head.Keys == 0 || w.hidden(key)):
		return metadata{}, false, nil
	case o.Known:
		m := metadata{size: uint32(o.Old), chunks: uint32(dataRows(key, o.Old))}
		if w.space.store.chunked {
			m.chunks = uint32(chunksOf(o.Old)) // perhaps; deleting a row that does not exist is harmless
		}
		return m, true, nil
	}
	return w.lookup(key)
}

// Delete removes a key and reports whether it was there. A key that has expired
// is removed too, but was not there.
func (w *WriteSet) Delete(key []byte) (bool, error) { return w.delete(key, &PutOptions{}) }

// DeleteKnown is Delete of a key that exists with a value of old bytes that does
// not expire, which saves the lookup; see [PutOptions].Known.
func (w *WriteSet) DeleteKnown(key []byte, old int) (bool, error) {
	return w.delete(key, &PutOptions{Known: true, Old: old})
}

// DeleteFound is Delete of a key that Expired, Stat or List returned and that has not changed
// since, which saves the lookup.
func (w *WriteSet) DeleteFound(e *Entry) (bool, error) {
	return w.delete(e.Key, &PutOptions{Known: true, Old: e.Size, ExpireAt: e.Expire})
}

// delete removes a key; if o says that it is known, it expires at o.ExpireAt.
func (w *WriteSet) delete(key []byte, o *PutOptions) (bool, error) {
	if err := w.checkKey(key); err != nil {
		return false, err
	}
	i := w.overlay.find(key)
	var was metadata
	if i >= 0 {
		if !w.overlay.slots[i].live {
			return false, nil
		}
		was = w.overlay.slots[i].meta
	} else {
		exists := false
		var err error
		if was, exists, err = w.before(key, o); err != nil || !exists {
			return false, err
		}
		if o.Known {
			was.expire = o.ExpireAt
		}
		if err := w.checkRoom(len(key)); err != nil {
			return false, err
		}
	}
	w.turn()
	visible := !was.expired(w.now())
	if i < 0 {
		i = w.newSlot(key, was, true)
	}
	w.kill(i, was)
	return visible, nil
}

// kill deletes the key of a slot, whose counted metadata is was.
func (w *WriteSet) kill(i int, was metadata) {
	sl := w.change(i)
	key := sl.key
	sl.live, sl.value, sl.meta = false, nil, metadata{}
	w.keys--
	w.bytes -= int64(len(key)) + int64(was.size)
	w.reindex(key, was.expire, 0)
}

// Stat returns the entry of a key, without the value. A key that has expired counts until it is
// deleted, and is found.
func (w *WriteSet) Stat(key []byte) (e Entry, ok bool, err error) {
	var m metadata
	if i := w.overlay.find(key); i >= 0 {
		m, ok = w.overlay.slots[i].meta, w.overlay.slots[i].live
	} else if m, ok, err = w.lookup(key); err != nil {
		return Entry{}, false, err
	}
	if ok {
		e.Key = key
		e.describe(&m)
	}
	return e, ok, nil
}

// lookup returns the metadata in the store of a key without a slot, unless the set's ranges hide
// it.
func (w *WriteSet) lookup(key []byte) (metadata, bool, error) {
	sp := w.space
	if sp.head.Keys == 0 || w.hidden(key) {
		return metadata{}, false, nil
	}
	if isState(key) {
		return sp.state.meta, sp.state.exists, nil
	}
	if m, found := sp.written.find(key); found {
		return m, true, nil
	}
	if err := sp.store.enter(); err != nil {
		return metadata{}, false, err
	}
	defer sp.store.leave()
	m, found, err := w.read(key)
	if found {
		sp.written.missed++
	}
	return m, found, err
}

// read is lookup for a caller that has entered the store. REQUIRES: store.life.
func (w *WriteSet) read(key []byte) (metadata, bool, error) {
	sp := w.space
	if w.hidden(key) {
		return metadata{}, false, nil
	}
	return readMetadata(databaseOf(sp.store).DB, sp.id, key)
}

func isState(key []byte) bool {
	return len(key) == 1 && keyspace.Kind(key[0]) == keyspace.Persisted.Kind
}

// Outbox appends a record to the outbox of the node, to be published when the
// commit is durable. The record is copied. If seq is not nil, Commit stores the
// row's sequence number there, before onDurable can be called.
func (w *WriteSet) Outbox(record []byte, seq *uint64) error {
	if err := w.checkRoom(len(record)); err != nil {
		return err
	}
	w.turn()
	o := w.own()
	o.records = append(o.records, outboxRecord{data: o.arena.copy(record), seq: seq})
	return nil
}

// records returns how many records of the outbox, or of the audit log, the set has.
func (w *WriteSet) records(audit bool) (n int) {
	if w.overlay == nil {
		return 0
	}
	for i := range w.overlay.records {
		if w.overlay.records[i].audit == audit {
			n++
		}
	}
	return n
}
