package kvrows

import (
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// sweep removes up to most rows that removed branches leave. It returns whether there may be more.
func (s *Store) sweep(most int) (more bool, err error) {
	if err := s.load(); err != nil {
		return false, err
	}
	for _, b := range s.scopes.branches {
		switch {
		case b.Removed:
			start := rowOf(b.ID, nil)
			end := keyspace.TupleEnd(start)
			n, err := s.deleteRows(start, end, most)
			if err == nil && n == 0 {
				n, err = s.deleteRows(versionStart(start), versionStart(end), most)
			}
			if err == nil && n == 0 {
				_, err = s.WriteSet.Delete(keyspace.KVBranch.Append(nil, b.ID))
				s.scopes.forget(s.Version())
			}
			return true, err
		case b.Sweeping:
			return true, s.sweepVersions(b, most)
		}
	}
	return false, nil
}

func (s *Store) deleteRows(start, end []byte, most int) (int, error) {
	page, err := s.WriteSet.List(engine.ListQuery{Start: start, End: end, KeysOnly: true, Expired: true, Limit: most})
	if err != nil {
		return 0, err
	}
	for i := range page.Entries {
		if _, err := s.WriteSet.Delete(page.Entries[i].Key); err != nil {
			return 0, err
		}
	}
	return len(page.Entries), nil
}

// sweepVersions goes over up to most versions of a branch.
func (s *Store) sweepVersions(b *Branch, most int) error {
	start := b.Swept
	first, last := keyspace.UserKV.Range()
	first, last = rowsOf(b.ID, first, last)
	if start == nil {
		start = versionStart(first)
	}
	p := newPuller(s.WriteSet, engine.ListQuery{Start: start, End: versionStart(last), KeysOnly: true, Expired: true, Limit: most})
	for n := 0; n < most; {
		e, err := p.peek()
		if err != nil {
			return err
		}
		next := *b
		if e == nil {
			next.Sweeping, next.Swept = false, nil
			if b.ID == mainBranch && len(b.Merged) == 0 {
				_, err = s.WriteSet.Delete(keyspace.KVBranch.Append(nil, b.ID))
				s.scopes.forget(s.Version())
				return err
			}
			return s.writeBranch(&next)
		}
		key, _, err := keyspace.KVVersion.Parse(e.Key)
		if err != nil {
			return err
		}
		group, err := p.group(key)
		if err != nil {
			return err
		}
		if err := s.sweepKey(key, group); err != nil {
			return err
		}
		n += len(group)
		b.Swept = keyspace.TupleEnd(keyspace.KVVersion.Prefix(nil, key))
	}
	next := *b
	return s.writeBranch(&next)
}

// sweepKey removes the versions of a key, the newest first, that nothing keeps any longer.
func (s *Store) sweepKey(key []byte, group []*engine.Entry) error {
	h := s.scopes.of(userKey(key)).history()
	switch {
	case h == nil:
		return s.reduce(key, group)
	case h.KeepVersions != 0:
		return s.trim(h, key)
	}
	needed := s.keptUntil(nil, key, 0)
	for _, e := range group {
		if e.Expire == 0 && needed != 0 { // its time begins now
			if err := s.keepUntil(e.Key, max(s.Now()+h.KeepFor, needed)); err != nil {
				return err
			}
		}
	}
	return nil
}
