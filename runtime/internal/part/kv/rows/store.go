package kvrows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// Kinds are the kinds of keys that changes of the store write, besides the index of expiry.
var Kinds = []keyspace.Kind{
	keyspace.UserKV.Kind, keyspace.KVScope.Kind, keyspace.KVCount.Kind, keyspace.KVGroup.Kind, keyspace.KVVersion.Kind, keyspace.KVPin.Kind, keyspace.UUID.Kind,
	keyspace.KVPurge.Kind, keyspace.Stream.Kind, keyspace.StreamItem.Kind, keyspace.KVHandled.Kind, keyspace.KVBranch.Kind, keyspace.KVBranchEntry.Kind,
}

// A Store is the key-value store of an actor in a turn. All changes of user keys go through it: it
// updates the counts of scopes, and refuses changes that they do not allow. A refused change has no
// effect.
//
// Keys are logical keys of kind keyspace.UserKV.
type Store struct {
	*engine.WriteSet
	scopes *Scopes
	purged [][]byte
	logged bool // the log was written
}

// Of returns the store over a write set. scopes is the cache of the actor's scopes, between turns.
func Of(rows *engine.WriteSet, scopes *Scopes) *Store { return &Store{WriteSet: rows, scopes: scopes} }

// A QuotaError refuses a change for which a scope has no room.
type QuotaError struct {
	Scope *Scope
	What  string // keys, bytes or groups
	Limit int64
	Need  int64
	// Hidden leaves the scope and the numbers out of the text.
	Hidden bool
}

// Error names the scope and its bound.
func (e *QuotaError) Error() string {
	if e.Hidden {
		return fmt.Sprintf("a scope of the key has no room for the %s", e.What)
	}
	return fmt.Sprintf("the scope %s has room for %d %s; %d are needed", e.Scope.Name(), e.Limit, e.What, e.Need)
}

// scope returns the innermost scope of a key; nil if there is none. plain: a change of the key
// concerns nothing else.
func (s *Store) scope(key []byte) (sc *Scope, plain bool, err error) {
	if err := s.load(); err != nil {
		return nil, false, err
	}
	sc = s.scopes.of(key[1:])
	return sc, sc == nil && !s.scopes.pinned(mainBranch), nil
}

// The spans of time whose expired keys share a purge.
const (
	hourly   = time.Hour
	promptly = time.Second
)

// arm schedules the purge of keys that expire at a time, in Unix milliseconds, at the end of the
// span that the time is in. 0 is never. A store has one time of its purge, the earliest; each purge
// arms the next.
func (s *Store) arm(ms int64, span time.Duration) error {
	if ms <= 0 {
		return nil
	}
	if err := s.loadPurge(); err != nil {
		return err
	}
	n := span.Milliseconds()
	if at := (ms/n + 1) * n; s.scopes.purge == 0 || s.scopes.purge > at {
		return s.rearm(at)
	}
	return nil
}

// loadPurge reads when the store is purged, unless it is known.
func (s *Store) loadPurge() error {
	known := s.scopes
	if known.armed {
		return nil
	}
	e, there, err := s.Get(purgeRow)
	if err != nil {
		return err
	}
	if known.purge = 0; there {
		if known.purge, err = parseTime(&e); err != nil {
			return err
		}
	}
	known.armed, known.changed = true, max(known.changed, s.Version())
	return nil
}

var purgeRow = keyspace.KVPurge.Append(nil)

// rearm moves the purge to a time; 0 is none.
func (s *Store) rearm(at int64) (err error) {
	known := s.scopes
	if known.purge != 0 {
		s.ClearWake(known.purge, keyspace.WakeExpiry, "", "")
	}
	known.purge, known.armed, known.changed = at, true, max(known.changed, s.Version())
	if at == 0 {
		_, err = s.WriteSet.Delete(purgeRow)
		return err
	}
	s.SetWake(at, keyspace.WakeExpiry, "", "")
	return s.WriteSet.Put(purgeRow, binary.AppendVarint(nil, at), engine.PutOptions{Exempt: true})
}

func parseTime(e *engine.Entry) (int64, error) {
	at, n := binary.Varint(e.Value)
	if n != len(e.Value) || at <= 0 {
		return 0, &engine.CorruptError{Row: e.Key, Reason: "no time of a purge"}
	}
	return at, nil
}

// writable returns why entries of a scope must not change.
func (sc *Scope) writable() error {
	for ; sc != nil; sc = sc.outer {
		if sc.ReadOnly {
			return sc.refuse(host.FailedPrecondition, "read_only_scope", "is read-only")
		}
	}
	return nil
}

// DefaultExpiry returns when an entry that is put now without a time to live expires, in Unix
// milliseconds; 0 is never.
func (s *Store) DefaultExpiry(key []byte) (int64, error) {
	sc, _, err := s.scope(key)
	for ; sc != nil; sc = sc.outer {
		if sc.DefaultTTL != 0 {
			return s.Now() + sc.DefaultTTL, err
		}
	}
	return 0, err
}

// Put is WriteSet.Put, and arms the purge of the entry.
func (s *Store) Put(key, value []byte, o engine.PutOptions) error {
	sc, plain, err := s.scope(key)
	if err != nil {
		return err
	}
	if plain {
		if err := s.arm(o.ExpireAt, hourly); err != nil {
			return err
		}
		return s.WriteSet.Put(key, value, o)
	}
	if err := sc.writable(); err != nil {
		return err
	}
	return s.atomically(func() error {
		before, there, err := s.settle(sc, key)
		if err != nil {
			return err
		}
		if err := s.keep(sc, key, there, false); err != nil {
			return err
		}
		keys, size := int64(1), int64(len(key)-1)+int64(len(value))
		if there {
			keys, size = 0, int64(len(value)-before.Size)
		}
		if err := s.arm(o.ExpireAt, promptly); err != nil {
			return err
		}
		if err := s.charged(sc, key, keys, size, o.ExpireAt,
			func() error { return s.WriteSet.Put(key, value, o) }); err != nil || !sc.logs() {
			return err
		}
		return s.log(sc,
			Event{Cause: CauseSet, Key: key, Value: value, Encoding: host.Encoding(o.Encoding), Expire: o.ExpireAt})
	})
}

// Delete is WriteSet.Delete.
func (s *Store) Delete(key []byte) (bool, error) {
	sc, plain, err := s.scope(key)
	if err != nil {
		return false, err
	}
	if plain {
		return s.WriteSet.Delete(key)
	}
	there := false
	err = s.atomically(func() error {
		var e engine.Entry
		if e, there, err = s.settle(sc, key); err != nil || !there {
			return err
		}
		if err := sc.writable(); err != nil {
			return err
		}
		return s.remove(sc, key, &e, Deleted)
	})
	return there && err == nil, err
}

// DeleteRange is WriteSet.DeleteRange within kind UserKV.
func (s *Store) DeleteRange(start, end []byte) (n int64, err error) {
	if err := s.load(); err != nil {
		return 0, err
	}
	last := end[1:]
	if first := keyspace.Kind(end[0]); first != keyspace.UserKV.Kind {
		last = nil // the end of the store
	}
	if !s.scopes.meet(start[1:], last) && !s.scopes.pinned(mainBranch) {
		return s.WriteSet.DeleteRange(start, end)
	}
	undo := s.Savepoint()
	defer func() {
		if err != nil {
			s.Rollback(undo)
			s.scopes.rung, s.scopes.armed = nil, false
		}
	}()
	// In a scope that the range covers as a whole, nothing need be counted.
	l := ledger{rows: s.WriteSet, within: func(sc *Scope) bool {
		from := keyspace.UserKV.Append(nil, sc.Prefix)
		return bytes.Compare(start, from) <= 0 && bytes.Compare(keyspace.TupleEnd(from), end) <= 0
	}}
	q, log := engine.ListQuery{Start: start, End: end, KeysOnly: true, Expired: true}, s.logRange(start, end)
	kept := int64(0)
	for {
		page, err := s.WriteSet.List(q)
		if err != nil {
			return 0, err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			sc := s.scopes.of(e.Key[1:])
			if s.keptUntil(sc.history(), e.Key, e.Version) >= 0 {
				if kept++; kept > hostkv.MaxKept {
					return 0,
						host.OverLimit("entries that one mutation removes while versions of them are kept", hostkv.MaxKept, kept)
				}
			}
			kind := Expired
			if e.Expire == 0 || e.Expire > s.Now() {
				if err := sc.writable(); err != nil {
					return 0, err
				}
				kind = Deleted
			}
			if err := s.end(sc, e.Key, e, kind); err != nil {
				return 0, err
			}
			if sc.logs() {
				if err := log.add(sc, e.Key, kind); err != nil {
					return 0, err
				}
			}
			if err := l.add(sc, e.Key[1:], -1, -sizeOf(e)); err != nil {
				return 0, err
			}
		}
		if page.Next == nil {
			break
		}
		q.After = page.Next
	}
	deleted, err := s.WriteSet.DeleteRange(start, end)
	if err == nil {
		err = log.write()
	}
	if err != nil {
		return 0, err
	}
	for _, sc := range s.scopes.list {
		if l.within(sc) {
			if err := s.empty(sc); err != nil {
				return 0, err
			}
		}
	}
	return deleted, l.write(s.WriteSet)
}

// remove removes an entry that scopes count.
func (s *Store) remove(sc *Scope, key []byte, e *engine.Entry, kind Kind) error {
	if err := s.end(sc, key, e, kind); err != nil {
		return err
	}
	if err := s.charged(sc, key, -1, -sizeOf(e), 0, func() error {
		_, err := s.WriteSet.Delete(key)
		return err
	}); err != nil || !sc.logs() {
		return err
	}
	return s.log(sc, Event{Cause: removals[kind], Key: key})
}

// removals are the causes of removals of single entries.
var removals = map[Kind]Cause{Deleted: CauseDelete, Expired: CauseExpired}

// settle returns an entry before it changes. An expired entry is removed first.
func (s *Store) settle(sc *Scope, key []byte) (engine.Entry, bool, error) {
	e, there, err := s.Stat(key)
	if err != nil || !there || e.Expire == 0 || e.Expire > s.Now() {
		return e, there, err
	}
	if err := s.remove(sc, key, &e, Expired); err != nil {
		return engine.Entry{}, false, err
	}
	s.purged = append(s.purged, key)
	return engine.Entry{}, false, nil
}

// charged makes a change of one key, which expires at a time or never, and updates the counts of
// the scopes. If a scope has no room, it removes its expired entries, up to a number.
func (s *Store) charged(sc *Scope, key []byte, keys, size, expire int64, change func() error) error {
	for cleared := 0; ; {
		l := ledger{rows: s.WriteSet}
		err := l.add(sc, key[1:], keys, size)
		if full, is := errors.AsType[*QuotaError](err); is && cleared < 10*mostCleared {
			n, perr := s.clear(full.Scope)
			if perr != nil {
				return perr
			}
			if cleared += n; n > 0 {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := errors.Join(l.expires(sc, expire), change()); err != nil {
			return err
		}
		return l.write(s.WriteSet)
	}
}

// TakePurged returns the keys of entries that were removed because they had expired, in operations
// since the last call.
func (s *Store) TakePurged() [][]byte {
	keys := s.purged
	s.purged = nil
	return keys
}

// mostCleared is how many entries clear removes.
const mostCleared = 1000

// clear removes expired entries of a scope, up to mostCleared.
func (s *Store) clear(sc *Scope) (n int, err error) {
	l := ledger{rows: s.WriteSet}
	var due []engine.Entry
	if err := overdue(s.WriteSet, s.Now(), func(e *engine.Entry) {
		if len(due) < mostCleared && sc.has(e.Key[1:]) {
			due = append(due, *e)
		}
	}); err != nil {
		return 0, err
	}
	for i := range due {
		if err := s.expire(&l, &due[i]); err != nil {
			return 0, err
		}
	}
	return len(due), l.write(s.WriteSet)
}

// purgeBytes bounds the bytes that a purge keeps as versions of entries that it removes.
const purgeBytes = 8 << 20

// purgePause is how long a purge leaves the actor to others, in milliseconds, before it goes on.
const purgePause = 4

// Purge removes up to a number of expired keys, of all kinds, and rows that nothing needs any
// longer. It arms the next purge, and returns whether there may be more of them.
func (s *Store) Purge(most int) (more bool, err error) {
	if err := s.load(); err != nil {
		return false, err
	}
	due, more, err := s.Expired(s.Now(), most)
	if err != nil {
		return false, err
	}
	l, began := ledger{rows: s.WriteSet}, s.Bytes()
	for i := range due {
		e := &due[i]
		switch key := e.Key; keyspace.Kind(key[0]) {
		case keyspace.UserKV.Kind:
			err = s.expire(&l, e)
		case keyspace.KVVersion.Kind:
			err = s.forget(&l, key)
		case keyspace.KVBranchEntry.Kind:
			err = s.expireIn(key)
		default:
			_, err = s.WriteSet.Delete(key)
		}
		if err != nil {
			return false, err
		}
		if more = more || s.Bytes()-began > purgeBytes; s.Bytes()-began > purgeBytes {
			break
		}
	}
	if !more && len(l.tallies) > 0 {
		next, err := s.NextExpiry()
		if err != nil {
			return false, err
		}
		l.purged(s.Now(), next)
	}
	if err := l.write(s.WriteSet); err != nil {
		return false, err
	}
	if !more {
		if more, err = s.sweep(most); err != nil {
			return false, err
		}
	}
	pinned, scoped := len(s.scopes.pins) > 0, len(s.scopes.list) > 0
	if pinned {
		s.scopes.forget(s.Version()) // one of them may be gone
	}
	return more, s.armNext(more, scoped)
}

// armNext arms the next purge: of the rest, if there is more, or else of the next keys that expire.
// scoped: there are scopes, which count until then.
func (s *Store) armNext(more, scoped bool) error {
	if more {
		if err := s.loadPurge(); err != nil {
			return err
		}
		return s.rearm(s.Now() + purgePause)
	}
	at, err := s.NextExpiry()
	if err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	for _, b := range s.scopes.branches {
		if b.Sweeping && (at == 0 || b.SweepAt < at) {
			at = b.SweepAt
		}
	}
	if err := s.loadPurge(); err != nil {
		return err
	}
	if at == 0 {
		return s.rearm(0)
	}
	span := hourly
	if scoped {
		span = promptly
	}
	n := span.Milliseconds()
	return s.rearm((max(at, s.Now())/n + 1) * n)
}

// expire removes an expired entry that has not changed since it was read.
func (s *Store) expire(l *ledger, e *engine.Entry) error {
	key := e.Key
	s.purged = append(s.purged, key)
	sc, plain, err := s.scope(key)
	if err != nil {
		return err
	}
	if !plain {
		if err := s.end(sc, key, e, Expired); err != nil {
			return err
		}
		if err := l.add(sc, key[1:], -1, -sizeOf(e)); err != nil {
			return err
		}
	}
	if _, err = s.WriteSet.DeleteFound(e); err != nil || !sc.logs() {
		return err
	}
	return s.log(sc, Event{Cause: CauseExpired, Key: key})
}

// atomically undoes an operation that fails.
func (s *Store) atomically(operation func() error) error {
	before, purged := s.Savepoint(), len(s.purged)
	err := operation()
	if err != nil {
		s.Rollback(before)
		s.purged, s.scopes.rung, s.scopes.armed = s.purged[:purged], nil, false
	}
	return err
}
