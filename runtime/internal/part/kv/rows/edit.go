package kvrows

import (
	"cmp"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// Writer reads and changes the entries of a branch in a turn, under the keys of the store itself.
// The store's own name is empty. The error may be a *BranchError.
func (s *Store) Writer(branch string) (engine.Writer, error) {
	if branch == "" {
		return s, nil
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	b, err := s.scopes.named(branch)
	if err != nil {
		return nil, err
	}
	if b.ReadOnly {
		return nil, host.Errorf(host.FailedPrecondition, "the branch %.80q is read-only", b.Name).
			With("reason", "read_only_branch").With("field", "branch")
	}
	return &editor{Store: s, branch: b, view: look(s.WriteSet, s.scopes, b, s.Version(), s.Version(), s.Now())}, nil
}

// An editor is a Writer of a branch other than the store itself. Scopes apply to its entries, but
// do not count them.
type editor struct {
	*Store
	branch *Branch
	view   *View
}

// Get implements engine.Reader.
func (e *editor) Get(key []byte) (engine.Entry, bool, error) { return e.view.Entry(key) }

// List implements engine.Reader.
func (e *editor) List(q engine.ListQuery) (engine.Page, error) { return e.view.List(q) }

// Each implements engine.Reader.
func (e *editor) Each(q engine.ListQuery, visit func(*engine.Entry) bool) error {
	return e.view.Each(q, visit)
}

// writable returns the scope of a user key and its row in the branch, unless it must not change.
func (e *editor) writable(key []byte) (*Scope, []byte, error) {
	if err := e.load(); err != nil {
		return nil, nil, err
	}
	sc := e.scopes.of(key[1:])
	return sc, rowOf(e.branch.ID, key[1:]), sc.writable()
}

// Put implements engine.Writer.
func (e *editor) Put(key, value []byte, o engine.PutOptions) error {
	maxKey, maxValue := e.MaxEntry()
	switch {
	case len(key)-1 > maxKey:
		return &engine.LimitError{What: engine.LimitKey, Limit: int64(maxKey), Actual: int64(len(key) - 1)}
	case len(value) > maxValue:
		return &engine.LimitError{What: engine.LimitValue, Limit: int64(maxValue), Actual: int64(len(value))}
	case o.Encoding == noEntry:
		return host.Errorf(host.InvalidArgument, "the value has an encoding that branches do not take")
	}
	sc, row, err := e.writable(key)
	if err != nil {
		return err
	}
	return e.atomically(func() error { return e.put(sc, row, value, o) })
}

// put stores a row of a branch.
func (s *Store) put(sc *Scope, row, value []byte, o engine.PutOptions) error {
	was, err := raw(s.WriteSet, row)
	if err != nil {
		return err
	}
	if err := s.keep(sc, row, was != nil, o.Exempt); err != nil {
		return err
	}
	if err := s.arm(o.ExpireAt, hourly); err != nil {
		return err
	}
	return s.WriteSet.Put(row, value, o)
}

// bury removes an entry of a branch. If the branch was forked from one that has the key, a row says
// that there is no entry.
func (s *Store) bury(sc *Scope, b *Branch, key []byte, why Kind) error {
	row := rowOf(b.ID, key[1:])
	from := look(s.WriteSet, s.scopes, s.scopes.branch(b.From), b.first(), s.Version(), s.Now())
	_, there, err := from.Without(s.Now()).Get(key)
	if err != nil {
		return err
	}
	was, err := raw(s.WriteSet, row)
	if err != nil {
		return err
	}
	if there { // the row takes room of the quota, unless it is there already
		return s.put(sc, row, []byte{byte(why)}, engine.PutOptions{Encoding: noEntry, Exempt: was != nil})
	}
	if was == nil {
		return nil
	}
	if err := s.end(sc, row, was, why); err != nil {
		return err
	}
	_, err = s.WriteSet.Delete(row)
	return err
}

// Delete implements engine.Writer.
func (e *editor) Delete(key []byte) (bool, error) {
	_, there, err := e.view.Get(key)
	if err != nil || !there {
		return false, err
	}
	sc, _, err := e.writable(key)
	if err != nil {
		return false, err
	}
	return true, e.atomically(func() error { return e.bury(sc, e.branch, key, Deleted) })
}

// DeleteRange implements engine.Writer. Each entry leaves a row.
func (e *editor) DeleteRange(start, end []byte) (n int64, err error) {
	var keys [][]byte
	for f, err := range e.view.All(start, end, false) {
		if err != nil {
			return 0, err
		}
		if keys = append(keys, f.Key); len(keys) > hostkv.MaxMerged {
			return 0, host.OverLimit("entries of a branch that one mutation removes",
				hostkv.MaxMerged, int64(len(keys)))
		}
	}
	err = e.atomically(func() error {
		for _, key := range keys {
			if _, err := e.Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
	return int64(len(keys)), err
}

// expireIn removes an entry of a branch that has expired.
func (s *Store) expireIn(row []byte) error {
	if err := s.load(); err != nil {
		return err
	}
	b := s.scopes.branch(branchOf(row))
	if b.Removed {
		_, err := s.WriteSet.Delete(row)
		return err
	}
	return s.bury(s.scopes.of(userKey(row)), b, keyspace.UserKV.Append(nil, userKey(row)), Expired)
}

// Entry is Get for code that reads rows.
func (v *View) Entry(key []byte) (engine.Entry, bool, error) {
	if !keyspace.UserKV.Has(key) {
		return engine.Entry{}, false, nil
	}
	was, there, err := v.Get(key)
	if err != nil || !there {
		return engine.Entry{}, false, err
	}
	return was.entry(key), true, nil
}

func (v *Version) entry(key []byte) engine.Entry {
	return engine.Entry{
		Key: key, Value: v.Value, Version: v.Version, Created: v.Created, Updated: v.Time, Expire: v.Expire, Size: len(v.Value), Encoding: v.Encoding, Found: true,
	}
}

// List lists entries for code that reads rows.
func (v *View) List(q engine.ListQuery) (page engine.Page, err error) {
	limit, room := cmp.Or(q.Limit, engine.DefaultListEntries), cmp.Or(q.MaxBytes, engine.DefaultListBytes)
	err = v.Each(q, func(e *engine.Entry) bool {
		if n := len(page.Entries); n == limit || n > 0 && room <= 0 {
			page.Next = page.Entries[n-1].Key
			return false
		}
		room -= len(e.Key) + len(e.Value)
		page.Entries = append(page.Entries, *e)
		return true
	})
	if err != nil {
		return engine.Page{}, err
	}
	return page, nil
}

// Each visits entries for code that reads rows.
func (v *View) Each(q engine.ListQuery, visit func(*engine.Entry) bool) error {
	start, end := q.Start, q.End
	switch {
	case q.After == nil:
	case q.Reverse:
		end = q.After
	default:
		start = append(q.After[:len(q.After):len(q.After)], 0)
	}
	for f, err := range v.each(start, end, q.Reverse, q.KeysOnly) {
		if err != nil {
			return err
		}
		e := f.entry(f.Key)
		if q.KeysOnly {
			e.Value = nil
		}
		if !visit(&e) {
			return nil
		}
	}
	return nil
}
