package kvrows

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A Store is the key-value store of an actor in a turn. All changes of user keys go through it: it keeps what scopes count, and
// refuses what they do not let happen. What it refuses changes nothing.
//
// Keys are logical keys of kind keyspace.UserKV.
type Store struct {
	*engine.WriteSet
	scopes *Scopes
	purged [][]byte
}

// Of returns the store over a write set. The scopes are what is remembered of the actor's, between turns.
func Of(rows *engine.WriteSet, scopes *Scopes) *Store { return &Store{WriteSet: rows, scopes: scopes} }

// A QuotaError refuses a change that a scope has no room for.
type QuotaError struct {
	Scope *Scope
	What  string // keys, bytes or groups
	Limit int64
	Need  int64
}

// Error names the scope and its bound.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("the scope %s has room for %d %s; %d are needed", e.Scope.Name(), e.Limit, e.What, e.Need)
}

// scope returns the innermost scope of a key; nil if there is none.
func (s *Store) scope(key []byte) (*Scope, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	return s.scopes.of(key[1:]), nil
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

// DefaultExpiry returns when an entry expires that is put now without a time to live, in Unix milliseconds; 0 is never.
func (s *Store) DefaultExpiry(key []byte) (int64, error) {
	sc, err := s.scope(key)
	for ; sc != nil; sc = sc.outer {
		if sc.DefaultTTL != 0 {
			return s.Now() + sc.DefaultTTL, err
		}
	}
	return 0, err
}

// Scoped reports whether a key is in a scope.
func (s *Store) Scoped(key []byte) (bool, error) {
	sc, err := s.scope(key)
	return sc != nil, err
}

// Put is WriteSet.Put.
func (s *Store) Put(key, value []byte, o engine.PutOptions) error {
	sc, err := s.scope(key)
	if err != nil {
		return err
	}
	if sc == nil {
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
		keys, size := int64(1), int64(len(key)-1)+int64(len(value))
		if there {
			keys, size = 0, int64(len(value)-before.Size)
		}
		return s.charged(sc, key, keys, size, func() error { return s.WriteSet.Put(key, value, o) })
	})
}

// Delete is WriteSet.Delete.
func (s *Store) Delete(key []byte) (bool, error) {
	sc, err := s.scope(key)
	if err != nil {
		return false, err
	}
	if sc == nil {
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
		return s.remove(sc, key, &e)
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
	if !s.scopes.meet(start[1:], last) {
		return s.WriteSet.DeleteRange(start, end)
	}
	l := ledger{rows: s.WriteSet}
	q := engine.ListQuery{Start: start, End: end, KeysOnly: true, Expired: true}
	for {
		page, err := s.WriteSet.List(q)
		if err != nil {
			return 0, err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			sc := s.scopes.of(e.Key[1:])
			if e.Expire == 0 || e.Expire > s.Now() {
				if err := sc.writable(); err != nil {
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
	err = s.atomically(func() error {
		if n, err = s.WriteSet.DeleteRange(start, end); err != nil {
			return err
		}
		return l.write(s.WriteSet)
	})
	return n, err
}

// remove removes an entry that counts.
func (s *Store) remove(sc *Scope, key []byte, e *engine.Entry) error {
	return s.charged(sc, key, -1, -sizeOf(e), func() error {
		_, err := s.WriteSet.Delete(key)
		return err
	})
}

// settle returns what an entry is before it changes. One that has expired is removed first.
func (s *Store) settle(sc *Scope, key []byte) (engine.Entry, bool, error) {
	e, there, err := s.Stat(key)
	if err != nil || !there || e.Expire == 0 || e.Expire > s.Now() {
		return e, there, err
	}
	if err := s.remove(sc, key, &e); err != nil {
		return engine.Entry{}, false, err
	}
	s.purged = append(s.purged, key)
	return engine.Entry{}, false, nil
}

// charged makes a change of one key with what the scopes count. If they have no room, entries that have expired make some.
func (s *Store) charged(sc *Scope, key []byte, keys, size int64, change func() error) error {
	for {
		l := ledger{rows: s.WriteSet}
		err := l.add(sc, key[1:], keys, size)
		if _, full := errors.AsType[*QuotaError](err); full {
			n, perr := s.Purge(purgeSlice)
			if perr != nil {
				return perr
			}
			if n > 0 {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := change(); err != nil {
			return err
		}
		return l.write(s.WriteSet)
	}
}

const purgeSlice = 1000

// TakePurged returns the keys of entries that were removed because they had expired, in the operations since it was last called.
func (s *Store) TakePurged() [][]byte {
	keys := s.purged
	s.purged = nil
	return keys
}

// Purge removes up to a number of keys that have expired, of all kinds, and returns how many.
func (s *Store) Purge(most int) (n int, err error) {
	err = s.atomically(func() error {
		n, err = s.purge(most)
		return err
	})
	return n, err
}

func (s *Store) purge(most int) (int, error) {
	if err := s.load(); err != nil {
		return 0, err
	}
	due, err := s.Expired(s.Now(), most)
	if err != nil {
		return 0, err
	}
	l := ledger{rows: s.WriteSet}
	for _, key := range due {
		if keyspace.Kind(key[0]) == keyspace.UserKV.Kind {
			if err := s.discount(&l, key); err != nil {
				return 0, err
			}
			s.purged = append(s.purged, key)
		}
		if _, err := s.WriteSet.Delete(key); err != nil {
			return 0, err
		}
	}
	return len(due), l.write(s.WriteSet)
}

// discount takes an entry that expires out of the counts.
func (s *Store) discount(l *ledger, key []byte) error {
	sc := s.scopes.of(key[1:])
	if sc == nil {
		return nil
	}
	e, there, err := s.Stat(key)
	if err != nil || !there {
		return err
	}
	return l.add(sc, key[1:], -1, -sizeOf(&e))
}

// atomically undoes what an operation did that fails.
func (s *Store) atomically(operation func() error) error {
	before, purged := s.Savepoint(), len(s.purged)
	err := operation()
	if err != nil {
		s.Rollback(before)
		s.purged = s.purged[:purged]
	}
	return err
}
