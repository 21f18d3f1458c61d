package kvrows

import (
	"bytes"
	"slices"

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
			n, err := s.deleteRows(b, versionStart(start), versionStart(end), most)
			if err == nil && n == 0 {
				n, err = s.deleteRows(b, start, end, most)
			}
			if err == nil && n == 0 {
				_, err = s.WriteSet.Delete(keyspace.KVBranch.Append(nil, b.ID))
				s.scopes.forget(s.Version())
			}
			return true, err
		case b.Sweeping && b.SweepAt <= s.Now():
			return true, s.sweepVersions(b, most)
		}
	}
	return false, nil
}

// deleteRows deletes up to most rows of a range, from where it was before.
func (s *Store) deleteRows(b *Branch, start, end []byte, most int) (int, error) {
	if bytes.Compare(b.Swept, start) > 0 {
		start = b.Swept
	}
	if bytes.Compare(start, end) >= 0 {
		return 0, nil
	}
	page, err := s.WriteSet.List(engine.ListQuery{Start: start, End: end, KeysOnly: true, Expired: true, Limit: most})
	if err != nil {
		return 0, err
	}
	for i := range page.Entries {
		if _, err := s.WriteSet.Delete(page.Entries[i].Key); err != nil {
			return 0, err
		}
	}
	n := len(page.Entries)
	if n == 0 {
		return 0, nil
	}
	next := *b
	next.Swept = append(bytes.Clone(page.Entries[n-1].Key), 0)
	return n, s.writeBranch(&next)
}

// sweepVersions searches up to most versions of a branch.
func (s *Store) sweepVersions(b *Branch, most int) error {
	next := *b
	first, last := keyspace.UserKV.Range()
	first, last = rowsOf(b.ID, first, last)
	if next.Swept == nil {
		next.Swept = versionStart(first)
	}
	p := newPuller(s.WriteSet,
		engine.ListQuery{Start: next.Swept, End: versionStart(last), KeysOnly: true, Expired: true, Limit: most})
	for n, began := 0, s.Bytes(); n < most && s.Bytes()-began < purgeBytes; {
		e, err := p.peek()
		if err != nil {
			return err
		}
		if e == nil {
			next.Sweeping, next.Again, next.Swept = b.Again, false, nil
			if !b.Again && b.ID == mainBranch && len(b.Merged)+len(b.Parts)+len(b.Contained)+len(b.Unknown) == 0 {
				_, err = s.WriteSet.Delete(keyspace.KVBranch.Append(nil, b.ID))
				s.scopes.forget(s.Version())
				return err
			}
			break
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
		if s.Bytes()-began >= purgeBytes {
			break // the rest of this key is for the next turn
		}
		n += len(group)
		next.Swept = keyspace.TupleEnd(keyspace.KVVersion.Prefix(nil, key))
	}
	return s.writeBranch(&next)
}

// sweepKey removes the versions of a key, the newest first, that nothing keeps any longer. It may
// leave some for the next time.
func (s *Store) sweepKey(key []byte, group []*engine.Entry) error {
	h := s.scopes.of(userKey(key)).history()
	if h == nil {
		return s.reduce(key, group)
	}
	if err := s.trim(h, key, len(group)); err != nil || h.KeepFor == 0 {
		return err
	}
	read, err := s.readUntils(key, group, false)
	if err != nil {
		return err
	}
	for i, began := 0, s.Bytes(); i < len(group) && s.Bytes()-began < purgeBytes; i++ {
		if group[i].Expire != 0 {
			continue
		}
		if until := later(read[i], h.keptUntil(s.Now())); until != forever { // its time begins now
			if err := s.keepUntil(group[i].Key, until); err != nil {
				return err
			}
		}
	}
	return nil
}

// reduce removes the versions of a key, the newest first, that no reader may read. It may leave
// some.
func (s *Store) reduce(key []byte, group []*engine.Entry) error {
	read, err := s.readUntils(key, group, true)
	if err != nil {
		return err
	}
	for i, began := 0, s.Bytes(); i < len(group) && s.Bytes()-began < purgeBytes; i++ {
		if row := group[i].Key; read[i] != notKept {
			err = s.keepUntil(row, read[i])
		} else {
			_, err = s.WriteSet.Delete(row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readUntils returns until when readers may read each version of a key, the newest first, or need
// it to find when another one ended. A version with a time is left out unless timed.
func (s *Store) readUntils(key []byte, group []*engine.Entry, timed bool) ([]int64, error) {
	head, there, err := s.Stat(key)
	if err != nil {
		return nil, err
	}
	until := slices.Repeat([]int64{notKept}, len(group))
	for i := len(group) - 1; i >= 0; i-- {
		row := group[i]
		if Kind(row.Encoding) == trimmed || row.Expire != 0 && !timed {
			continue
		}
		stored, err := raw(s.WriteSet, row.Key)
		if err != nil {
			return nil, err
		}
		if stored == nil { // it was trimmed in this turn
			continue
		}
		v, err := parseVersion(stored)
		if err != nil {
			return nil, err
		}
		ended := v.Ended
		switch {
		case ended != 0:
		case v.Kind != Set: // it only says when an older one ended
			continue
		case i > 0:
			_, n, err := keyspace.KVVersion.Parse(group[i-1].Key)
			if err != nil {
				return nil, err
			}
			ended = engine.Version(-n)
		case there:
			ended = head.Version
		default:
			ended = s.Version()
		}
		read := s.readUntil(key, v.Version, ended)
		until[i] = later(until[i], read)
		if v.Ended == 0 && i > 0 {
			until[i-1] = later(until[i-1], read)
		}
	}
	return until, nil
}
