package kvrows

import (
	"bytes"
	"encoding/binary"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A Kind is the kind of a version of an entry.
type Kind uint8

// The kinds of versions. The numbers are on disk.
const (
	// Set is a value.
	Set Kind = 1
	// Deleted and Expired are the absence of one.
	Deleted Kind = 2
	Expired Kind = 3
	// trimmed stands for all versions before, which are gone.
	trimmed Kind = 4
)

// noEntry is the encoding of a branch's row that says that there is no entry.
const noEntry = 0xFF

// A Version is the state of an entry from the commit with a number on.
type Version struct {
	Version engine.Version
	Kind    Kind
	// Time is when it was committed, Created when the entry was, in Unix milliseconds. No version
	// of an entry has an earlier time than the one before, even if the clock is set back.
	Time, Created int64
	// Ended is the version that replaced it. 0 is not known: it is the last one, or what followed
	// has a row.
	Ended engine.Version
	// Expire is when the value ceases to exist, 0 for never.
	Expire   int64
	Encoding uint8
	Value    []byte
}

// The first byte of a row of a version. The kind follows, three times and, in endedForm, the
// version that replaced it as varints, the encoding, and the value.
const (
	versionForm = 1
	endedForm   = 2
)

func (v *Version) encode() []byte {
	b := make([]byte, 0, 3+4*binary.MaxVarintLen64+len(v.Value))
	form := byte(versionForm)
	if v.Ended != 0 {
		form = endedForm
	}
	b = append(b, form, byte(v.Kind))
	for _, n := range []int64{v.Time, v.Created, v.Expire} {
		b = binary.AppendVarint(b, n)
	}
	if v.Ended != 0 {
		b = binary.AppendVarint(b, int64(v.Ended))
	}
	return append(append(b, v.Encoding), v.Value...)
}

func parseVersion(e *engine.Entry) (v Version, err error) {
	damaged := &engine.CorruptError{Row: e.Key, Reason: "a version of another form"}
	_, n, err := keyspace.KVVersion.Parse(e.Key)
	if err != nil {
		return Version{}, err
	}
	b := e.Value
	if n >= 0 || len(b) < 2 || b[0] != versionForm && b[0] != endedForm || b[1] == 0 || Kind(b[1]) > trimmed {
		return Version{}, damaged
	}
	var ended int64
	fields := []*int64{&v.Time, &v.Created, &v.Expire, &ended}
	if b[0] == versionForm {
		fields = fields[:3]
	}
	v.Version, v.Kind, b = engine.Version(-n), Kind(b[1]), b[2:]
	for _, to := range fields {
		n, size := binary.Varint(b)
		if size <= 0 {
			return Version{}, damaged
		}
		*to, b = n, b[size:]
	}
	if len(b) == 0 || ended < 0 {
		return Version{}, damaged
	}
	v.Ended, v.Encoding, v.Value = engine.Version(ended), b[0], b[1:]
	return v, nil
}

func versionRow(key []byte, version engine.Version) []byte {
	return keyspace.KVVersion.Append(nil, key, -int64(version))
}

// versionStart is where the versions of keys begin that are not below a key.
func versionStart(key []byte) []byte {
	at := keyspace.KVVersion.Prefix(nil, key)
	return at[:len(at)-1] // without the end of the byte string, which longer keys do not have
}

// gone reports whether a row of a branch says that there is no entry.
func gone(e *engine.Entry) bool {
	return e.Encoding == noEntry && e.Size == 1 && keyspace.KVBranchEntry.Has(e.Key)
}

// head returns an entry as a version.
func head(e *engine.Entry) Version {
	if gone(e) {
		why := Deleted
		if len(e.Value) == 1 { // it may have been left out
			why = Kind(e.Value[0])
		}
		return Version{Version: e.Version, Kind: why, Time: e.Updated}
	}
	return Version{Version: e.Version, Kind: Set, Time: e.Updated, Created: e.Created,
		Expire: e.Expire, Encoding: e.Encoding, Value: e.Value}
}

// raw returns the stored row of a key, expired or not; nil if there is none.
func raw(rows engine.Reader, key []byte) (*engine.Entry, error) {
	page, err := rows.List(engine.ListQuery{Start: key, End: append(key[:len(key):len(key)], 0),
		Limit: 1, Expired: true})
	if err != nil || len(page.Entries) == 0 {
		return nil, err
	}
	return &page.Entries[0], nil
}

// history returns the innermost scope around that keeps versions; nil if none does.
func (sc *Scope) history() *Scope {
	for ; sc != nil; sc = sc.outer {
		if sc.KeepVersions != 0 || sc.KeepFor != 0 {
			return sc
		}
	}
	return nil
}

// keep stores the state of an entry before it changes, if its scope or a reader keeps it. there:
// there is an entry, which the caller has not changed yet.
func (s *Store) keep(sc *Scope, key []byte, there, removal bool) error {
	h := sc.history()
	if h == nil && !s.scopes.pinned(branchOf(key)) {
		return nil
	}
	if !there {
		// The turn may have removed it: a state within a turn is no version.
		_, err := s.WriteSet.Delete(versionRow(key, s.Version()))
		return err
	}
	was, err := raw(s.WriteSet, key)
	if err != nil || was == nil || was.Version == s.Version() {
		return err
	}
	until := s.keptUntil(h, key, was.Version)
	if until == notKept {
		return nil
	}
	v := head(was)
	v.Ended = s.Version()
	if err := s.putVersion(key, &v, until, removal); err != nil {
		return err
	}
	return s.trim(h, key, 16) // the next changes trim the rest
}

// Times until when a version is kept, in Unix milliseconds.
const (
	forever int64 = 0
	notKept int64 = -1
)

// later returns the later of two such times.
func later(a, b int64) int64 {
	if a == forever || b == forever {
		return forever
	}
	return max(a, b)
}

// keptUntil returns until when a scope keeps a version that is replaced now.
func (sc *Scope) keptUntil(now int64) int64 {
	switch {
	case sc == nil:
		return notKept
	case sc.KeepFor == 0:
		return forever
	}
	return now + sc.KeepFor
}

// readUntil returns until when readers may read a version of a key, which ended with another one.
func (s *Store) readUntil(key []byte, version, ended engine.Version) int64 {
	until, branch := notKept, branchOf(key)
	for i := range s.scopes.pins {
		p := &s.scopes.pins[i]
		switch {
		case p.version < version || p.version >= ended || !p.of(branch, s.Now()):
		case p.forever:
			return forever
		default:
			until = max(until, p.Until)
		}
	}
	return until
}

// keptUntil returns until when a version of a key is kept that is replaced now. Readers of this
// turn read its successor.
func (s *Store) keptUntil(h *Scope, key []byte, version engine.Version) int64 {
	return later(h.keptUntil(s.Now()), s.readUntil(key, version, s.Version()))
}

// putVersion stores a version until a time. removal: the change makes a full actor emptier.
func (s *Store) putVersion(key []byte, v *Version, until int64, removal bool) error {
	if err := s.arm(until, hourly); err != nil {
		return err
	}
	return s.WriteSet.Put(versionRow(key, v.Version), v.encode(),
		engine.PutOptions{ExpireAt: until, Encoding: uint8(v.Kind), Exempt: removal})
}

// end stores the state of an entry that is removed, and that it is gone.
func (s *Store) end(sc *Scope, key []byte, was *engine.Entry, kind Kind) error {
	if err := s.keep(sc, key, true, true); err != nil {
		return err
	}
	h := sc.history()
	until := h.keptUntil(s.Now())
	if h == nil || was.Version == s.Version() {
		// If no earlier version is known, there is nothing to end.
		page, err := s.WriteSet.List(versions(key, 1, false))
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		before, err := parseVersion(&page.Entries[0])
		if err != nil {
			return err
		}
		if before.Kind == Set && before.Ended == 0 { // its readers find here when it ended
			until = later(until, s.readUntil(key, 0, s.Version()+1))
		}
	}
	if until == notKept {
		return nil
	}
	v := Version{Version: s.Version(), Kind: kind, Time: s.Time()}
	return s.putVersion(key, &v, until, true)
}

// versions selects the stored versions of a key, from the newest to the oldest, including expired
// ones that are not purged.
func versions(key []byte, limit int, keysOnly bool) engine.ListQuery {
	prefix := keyspace.KVVersion.Prefix(nil, key)
	return engine.ListQuery{Start: prefix, End: keyspace.TupleEnd(prefix), Limit: limit,
		KeysOnly: keysOnly, Expired: true}
}

// trim removes versions of an entry, up to most of them, if there are too many. The newest of them
// leaves a row without a value.
func (s *Store) trim(h *Scope, key []byte, most int) error {
	if h == nil || h.KeepVersions == 0 {
		return nil
	}
	page, err := s.WriteSet.List(versions(key, int(h.KeepVersions)+1+most, true))
	if err != nil || int64(len(page.Entries)) <= h.KeepVersions {
		return err
	}
	keep, err := s.number(h, key, &page.Entries[0])
	if err != nil {
		return err
	}
	newer, marked := s.Version(), false
	for i, began := 0, s.Bytes(); i < len(page.Entries) && s.Bytes()-began < purgeBytes; i++ {
		e := &page.Entries[i]
		_, n, err := keyspace.KVVersion.Parse(e.Key)
		if err != nil {
			return err
		}
		version := engine.Version(-n)
		switch until := s.readUntil(key, version, newer); {
		case int64(i) < keep:
		case until != notKept: // by its readers only
			if e.Expire == 0 && until != forever {
				if err := s.keepUntil(e.Key, until); err != nil {
					return err
				}
			}
		case marked:
			if _, err := s.WriteSet.Delete(e.Key); err != nil {
				return err
			}
		case Kind(e.Encoding) == trimmed:
			marked = true
		default:
			marked = true
			v := Version{Version: version, Kind: trimmed, Time: e.Updated} // when it ended: nothing is known before
			until := e.Expire
			// its time began with it, not when it was replaced
			if was := Kind(e.Encoding); until != forever && (was == Deleted || was == Expired) {
				until = h.keptUntil(s.Now())
			}
			if err := s.arm(until, hourly); err != nil {
				return err
			}
			if err := s.WriteSet.Put(e.Key, v.encode(),
				engine.PutOptions{ExpireAt: until, Encoding: uint8(trimmed), Exempt: true}); err != nil {
				return err
			}
		}
		newer = version
	}
	return nil
}

// number returns how many rows of versions a scope keeps of a key. The newest row may be the last
// version itself: that there is no entry.
func (s *Store) number(h *Scope, key []byte, newest *engine.Entry) (int64, error) {
	if last := Kind(newest.Encoding); last != Deleted && last != Expired {
		return h.KeepVersions, nil
	}
	_, there, err := s.Stat(key)
	if there || err != nil {
		return h.KeepVersions, err
	}
	return h.KeepVersions + 1, nil
}

// over reports whether a row is a version that only readers kept: it is beyond the number of its
// scope. marked: a newer row says that nothing before it is known.
func (s *Store) over(h *Scope, key, row []byte) (over, marked bool, err error) {
	if h == nil || h.KeepVersions == 0 {
		return false, false, nil
	}
	newer, keep := int64(0), h.KeepVersions
	q := versions(key, 1000, true)
	q.End = row
	each(s.WriteSet, q, func(e *engine.Entry, eerr error) bool {
		if err = eerr; err == nil && newer == 0 {
			keep, err = s.number(h, key, e)
		}
		newer++
		marked = marked || err == nil && Kind(e.Encoding) == trimmed
		return err == nil
	})
	return newer >= keep, marked, err
}

// forget removes a version whose time is over, and older ones down to the first that a reader may
// read. States before that version ended are unknown from then on. A history of a number of
// versions chooses its versions itself.
func (s *Store) forget(l *ledger, row []byte) error {
	key, _, err := keyspace.KVVersion.Parse(row)
	if err != nil {
		return err
	}
	v, err := s.stored(row)
	if err != nil || v.Version == 0 { // this turn has removed it
		return err
	}
	if s.scopes.branch(branchOf(key)).Removed { // nothing is known of it
		_, err := s.WriteSet.Delete(row)
		return err
	}
	h := s.scopes.of(userKey(key)).history()
	if h != nil && h.KeepFor == 0 {
		c, err := readCount(s.WriteSet, keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, h.Prefix)))
		if err != nil {
			return err
		}
		if v.Ended == 0 || v.Ended > c.floor().version { // it did not end before the history began
			if err := s.keepUntil(row, forever); err != nil {
				return err
			}
			return s.trim(h, key, 1000)
		}
	}
	prefix := keyspace.KVVersion.Prefix(nil, key)
	page, err := s.WriteSet.List(engine.ListQuery{Start: prefix, End: row, Reverse: true, Limit: 1,
		KeysOnly: true, Expired: true})
	if err != nil {
		return err
	}
	now, there, err := s.WriteSet.Stat(key)
	if err != nil {
		return err
	}
	from := floor{s.Version(), s.Time()} // the version that followed, or else the present
	switch {
	case len(page.Entries) == 1:
		if from, err = s.floorAt(page.Entries[0].Key); err != nil {
			return err
		}
	case there:
		from = floor{now.Version, now.Updated}
	}
	end, until, err := s.forgettable(key, row, keyspace.TupleEnd(prefix), from.version)
	switch {
	case err != nil:
		return err
	case until != notKept:
		return s.keepUntil(row, until)
	case end == nil:
		return nil
	}
	over, marked, err := s.over(h, key, row)
	if err != nil {
		return err
	}
	switch {
	case over && marked:
	case over && v.Kind == Set && h.KeepFor != 0 && (v.Ended == 0 || v.Ended == from.version):
		// The rest of the history stays. Readers may need to know where there was no entry.
		mark := Version{Version: v.Version, Kind: trimmed, Time: s.Time()}
		if err := s.putVersion(key, &mark, h.keptUntil(s.Now()), true); err != nil {
			return err
		}
		row = append(row[:len(row):len(row)], 0)
	case h != nil:
		switch {
		case v.Ended != 0: // maybe before the next one that is known began
			from.version = v.Ended
		case v.Kind == Deleted || v.Kind == Expired || len(page.Entries) == 0 && !there: // without it there is no entry either
			from, err = s.floorAt(row)
		}
		if err == nil {
			err = l.raise(h, from)
		}
		if err != nil {
			return err
		}
	}
	_, err = s.WriteSet.DeleteRange(row, end)
	return err
}

// stored reads a stored version; zero if it is gone.
func (s *Store) stored(row []byte) (Version, error) {
	e, err := raw(s.WriteSet, row)
	if err != nil || e == nil {
		return Version{}, err
	}
	return parseVersion(e)
}

// forgettable returns the end of the rows that can be removed with row, whose version was replaced
// by ended. Versions are stored from the newest to the oldest; the end is the first version that a
// reader may read, or the row before it if only that says when the version ended. If either is row
// itself, it is kept until a time. The end is nil if this turn has removed row.
func (s *Store) forgettable(key, row, end []byte, ended engine.Version) (rest []byte, until int64, err error) {
	var last []byte // the row before, whose version is newer
	for start := row; ; start = append(last[:len(last):len(last)], 0) {
		page, err := s.WriteSet.List(engine.ListQuery{Start: start, End: end, KeysOnly: true,
			Expired: true, Limit: 100})
		if err != nil || last == nil && (len(page.Entries) == 0 || !bytes.Equal(page.Entries[0].Key, row)) {
			return nil, notKept, err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			_, n, err := keyspace.KVVersion.Parse(e.Key)
			if err != nil {
				return nil, notKept, err
			}
			version := engine.Version(-n)
			if s.readUntil(key, version, ended) != notKept {
				v, err := s.stored(e.Key)
				if err != nil {
					return nil, notKept, err
				}
				if v.Ended != 0 {
					ended = v.Ended
				}
				// A row that is no value and has no end says only when the one before ended.
				if read := s.readUntil(key, version, ended); read != notKept && (v.Ended != 0 || v.Kind == Set) {
					switch {
					case last == nil || v.Ended == 0 && bytes.Equal(last, row):
						return nil, read, nil
					case v.Ended != 0:
						return e.Key, notKept, nil
					}
					return last, notKept, nil
				}
			}
			ended, last = version, e.Key
		}
		if page.Next == nil {
			return end, notKept, nil
		}
	}
}

// keepUntil keeps a version until a time; 0 is for ever.
func (s *Store) keepUntil(row []byte, until int64) error {
	e, err := raw(s.WriteSet, row)
	if err != nil || e == nil || e.Expire == until {
		return err
	}
	if err := s.arm(until, hourly); err != nil {
		return err
	}
	return s.WriteSet.Put(row, e.Value, engine.PutOptions{ExpireAt: until, Encoding: e.Encoding, Exempt: true})
}

// A floor is the version before which a scope does not know its old entries, and when it was
// committed, in Unix milliseconds.
type floor struct {
	version engine.Version
	time    int64
}

func (c *Count) floor() floor { return floor{engine.Version(c.Floor), c.FloorTime} }

// floorAt returns the version in a row as a floor.
func (s *Store) floorAt(row []byte) (floor, error) {
	e, err := raw(s.WriteSet, row)
	if err != nil || e == nil {
		return floor{}, err
	}
	v, err := parseVersion(e)
	if v.Time == 0 { // it was trimmed before such rows had a time
		v.Time = s.Time()
	}
	return floor{v.Version, v.Time}, err
}

// raise records that a scope does not know its states before a version.
func (l *ledger) raise(h *Scope, from floor) error {
	t, err := l.at(keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, h.Prefix)), false)
	if err != nil {
		return err
	}
	if c := &t.count; c.floor().version < from.version {
		c.Floor, c.FloorTime = int64(from.version), from.time
	}
	return nil
}

func (s *Store) raise(h *Scope, from floor) error {
	l := ledger{rows: s.WriteSet}
	if err := l.raise(h, from); err != nil {
		return err
	}
	return l.write(s.WriteSet)
}
