package store

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
)

// Set stores a value, which stays until it is deleted.
func (s *Store) Set(group, key, value string) error {
	return s.write("Set", kv.Put(keyOf(s.full(group), key), valueOf(value)))
}

// SetWithTTL stores a value for 1 ms to 100 years. After that no method sees it.
func (s *Store) SetWithTTL(group, key, value string, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return s.fault("SetWithTTL",
			host.Errorf(host.InvalidArgument, "the time to live is %s; at least 1 ms is expected",
				ttl).With("field", "ttl"))
	}
	return s.write("SetWithTTL", kv.Put(keyOf(s.full(group), key), valueOf(value)).For(ttl))
}

// Delete removes a key. A missing key is no error.
func (s *Store) Delete(group, key string) error {
	return s.write("Delete", kv.Delete(keyOf(s.full(group), key)))
}

// DeleteGroup removes all keys of a group in one commit.
func (s *Store) DeleteGroup(group string) error {
	return s.remove("DeleteGroup", kv.Selection{Prefix: prefixOf(s.full(group))}, s.group(group))
}

// DeletePrefix removes all keys of the groups whose names begin with prefix, "" for all, in one
// commit. Upper and lower case differ.
func (s *Store) DeletePrefix(prefix string) error {
	if s.closed() {
		return s.fault("DeletePrefix", ErrClosed)
	}
	prefix = s.namespace + prefix
	return s.remove("DeletePrefix", beginning(prefix),
		func(it *item) bool { return len(it.group) >= len(prefix) && it.group[:len(prefix)] == prefix })
}

// remove removes the items of a selection that match. Its commit checks that the listed items are
// unchanged; otherwise it could remove items that were added to a range meanwhile. It does not
// check more entries than one commit can.
func (s *Store) remove(op string, of kv.Selection, match func(*item) bool) error {
	if s.closed() {
		return s.fault(op, ErrClosed)
	}
	if s.tx == nil {
		err := s.Transaction(func(tx *Store) error { return tx.remove(op, of, match) })
		if host.CodeOf(err) != host.TooLarge {
			return err
		}
	}
	all, err := s.deletions(of, match)
	if err != nil {
		return s.fault(op, err)
	}
	return s.write(op, all...)
}

// PurgeExpired removes expired keys, and returns their number. No method sees expired keys. They
// are also removed without a purge, within an hour of their time, or within a second if the store
// has watchers or quotas.
func (s *Store) PurgeExpired() (int64, error) {
	if s.closed() {
		return 0, s.fault("PurgeExpired", ErrClosed)
	}
	n, err := s.kv.Purge(s.ctx)
	if host.CodeOf(err) == host.NotFound { // nothing was written yet
		err = nil
	}
	return n, s.fault("PurgeExpired", err)
}

// write commits mutations, or adds them to the transaction.
func (s *Store) write(op string, mutations ...kv.Mutation) error {
	var err error
	switch {
	case s.closed():
		err = ErrClosed
	case len(mutations) == 0:
	case s.tx != nil:
		err = s.tx.Do(mutations...)
	default:
		err = s.patiently(func() error {
			_, err := s.kv.Commit(s.ctx, kv.Commit{Mutations: mutations})
			return err
		})
	}
	return s.fault(op, err)
}

// A change that fails because too many others are waiting is tried again, after pauses that double.
const (
	patience   = time.Minute
	firstPause = time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// patiently calls f until it returns anything but an Overloaded error, which means that f did
// nothing.
func (s *Store) patiently(f func() error) error {
	for end, pause := time.Now().Add(patience), firstPause; ; pause = min(2*pause, lastPause) {
		err := f()
		if host.CodeOf(err) != host.Overloaded || time.Now().After(end) {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// deletions returns the mutations that remove the matching items of a selection, which are whole
// groups: one mutation for a group that shares its prefix with no other keys, else one for each
// key.
func (s *Store) deletions(of kv.Selection, match func(*item) bool) (all []kv.Mutation, err error) {
	type found struct {
		keys   []kv.Key
		n      int
		shared bool
	}
	groups, order := make(map[string]*found), []string(nil)
	at := func(group string) *found {
		if groups[group] == nil {
			groups[group] = new(found)
			order = append(order, group)
		}
		return groups[group]
	}
	for e, err := range s.list(kv.ListConfig{Selection: of, KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		group, key, own := split(e.Key)
		if own = own && match(&item{group: group, key: key}); own {
			g := at(group)
			if g.n++; g.n <= hostkv.MaxMutations {
				g.keys = append(g.keys, e.Key)
			}
		}
		for n := 1; n <= min(2, len(e.Key)); n++ {
			if around, is := groupOf(e.Key[:n]); is && !(own && around == group) {
				at(around).shared = true
			}
		}
	}
	for _, name := range order {
		g := groups[name]
		switch {
		case g.n == 0:
		case !g.shared:
			all = append(all, kv.DeleteRange(kv.Selection{Prefix: prefixOf(name)}))
		case g.n > hostkv.MaxMutations:
			return nil, host.OverLimit("keys of a group that has the name of a namespace",
				hostkv.MaxMutations, int64(g.n)).With("field", "group")
		default:
			for _, key := range g.keys {
				all = append(all, kv.Delete(key))
			}
		}
	}
	return all, nil
}

// Transaction calls f with a view of the store, and commits the writes of f to the view as one. If
// f returns an error or panics, nothing is done. Reads of the view see its writes. If another
// commit changes an entry that f has read, f is called again, up to 8 times; then the error is a
// [kv.ConflictError]. So f should have no other lasting effects. Writes of f to the store itself
// are not part of the transaction. The view is for one goroutine at a time, until f returns.
func (s *Store) Transaction(f func(tx *Store) error) error {
	switch {
	case s.closed():
		return s.fault("Transaction", ErrClosed)
	case s.tx != nil:
		return s.fault("Transaction", errNested)
	}
	var own error
	err := s.patiently(func() error {
		_, err := s.kv.Update(s.ctx, func(tx *kv.Tx) error {
			own = f(&Store{s.core, s.namespace, tx})
			return own
		})
		if own != nil {
			return nil
		}
		return err
	})
	if own != nil {
		return own
	}
	return s.fault("Transaction", err)
}

var errNested = host.Errorf(host.FailedPrecondition, "a transaction cannot begin another; it has one commit")

// A Tx is a transaction that its caller ends. It is for one goroutine at a time.
type Tx struct{ *Store }

// Begin begins a transaction, which ends with [Tx.Commit] or [Tx.Rollback], or by itself after 30 s
// without use. Reads see its writes. Nothing is written before Commit.
func (s *Store) Begin() (Tx, error) {
	switch {
	case s.closed():
		return Tx{}, s.fault("Begin", ErrClosed)
	case s.tx != nil:
		return Tx{}, s.fault("Begin", errNested)
	}
	return Tx{&Store{s.core, s.namespace, s.kv.Begin()}}, nil
}

// Commit ends the transaction, and returns when its writes are durable. If another commit has
// changed an entry that the transaction read, nothing is done, and the error is a
// [kv.ConflictError].
func (tx Tx) Commit() error {
	switch {
	case tx.closed():
		return tx.fault("Commit", ErrClosed)
	case tx.tx == nil:
		return tx.fault("Commit", kv.ErrEnded)
	}
	_, err := tx.tx.Commit(tx.ctx)
	return tx.fault("Commit", err)
}

// Rollback ends the transaction without doing anything. It may be called after Commit.
func (tx Tx) Rollback() {
	if tx.Store != nil && tx.tx != nil {
		tx.tx.Rollback()
	}
}

// scope returns the policy of a scope; nil if there is none.
func (s *Store) scope(ctx context.Context, prefix kv.Key) (*kv.Policy, error) {
	for sc, err := range s.kv.Scopes(ctx, prefix) {
		if err != nil || len(sc.Prefix) != len(prefix) {
			return nil, err
		}
		return &sc.Policy, nil
	}
	return nil, nil
}
