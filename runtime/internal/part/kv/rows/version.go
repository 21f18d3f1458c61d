package kvrows

import (
	"bytes"
	"encoding/binary"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A Kind says what a version of an entry is.
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

// noEntry is the encoding of an entry of a branch that says that there is none.
const noEntry = 0xFF

// A Version is what an entry was, or is, from the commit with a number on.
type Version struct {
	Version engine.Version
	Kind    Kind
	// Time is when it was committed, Created when the entry was, in Unix milliseconds. No version of an entry has an
	// earlier time than the one before, whatever the clock does.
	Time, Created int64
	// Ended is the version that replaced it. 0 is not known: it is the last one, or what followed has a row.
	Ended engine.Version
	// Expire is when the value ceases to exist, 0 for never.
	Expire   int64
	Encoding uint8
	Value    []byte
}

// The first byte of a row of a version. The kind follows, three times and, in endedForm, the version that replaced it as varints,
// the encoding, and the value.
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

// head is the version that an entry is.
func head(e *engine.Entry) Version {
	if gone(e) {
		why := Deleted
		if len(e.Value) == 1 { // it may have been left out
			why = Kind(e.Value[0])
		}
		return Version{Version: e.Version, Kind: why, Time: e.Updated}
	}
	return Version{Version: e.Version, Kind: Set, Time: e.Updated, Created: e.Created, Expire: e.Expire, Encoding: e.Encoding, Value: e.Value}
}

// raw returns what is stored under a key, expired or not; nil if there is nothing.
func raw(rows engine.Reader, key []byte) (*engine.Entry, error) {
	page, err := rows.List(engine.ListQuery{Start: key, End: append(key[:len(key):len(key)], 0), Limit: 1, Expired: true})
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

// keep stores what an entry is before it changes, if its scope or a reader keeps it. there: it is an entry, which the caller
// has not changed yet.
func (s *Store) keep(sc *Scope, key []byte, there, removal bool) error {
	h := sc.history()
	if h == nil && !s.scopes.pinned(branchOf(key)) {
		return nil
	}
	if !there {
		// The turn may have removed it: what was in between is no version.
		_, err := s.WriteSet.Delete(versionRow(key, s.Version()))
		return err
	}
	was, err := raw(s.WriteSet, key)
	if err != nil || was == nil || was.Version == s.Version() {
		return err
	}
	until := s.keptUntil(h, key, was.Version)
	if until < 0 {
		return nil
	}
	v := head(was)
	v.Ended = s.Version()
	if err := s.putVersion(key, &v, until, removal); err != nil {
		return err
	}
	return s.trim(h, key)
}

// keptUntil returns until when a version of a key is kept that ceases to be the last: 0 is for ever, and a negative number is
// not at all.
func (s *Store) keptUntil(h *Scope, key []byte, version engine.Version) int64 {
	until, branch := int64(-1), branchOf(key)
	if h != nil {
		if h.KeepFor == 0 {
			return 0
		}
		until = s.Now() + h.KeepFor
	}
	for i := range s.scopes.pins {
		if p := &s.scopes.pins[i]; p.version >= version && p.of(branch, s.Now()) {
			if p.forever {
				return 0
			}
			until = max(until, p.Until)
		}
	}
	return until
}

// putVersion stores a version until a time. removal: it goes with a change that makes a full actor emptier.
func (s *Store) putVersion(key []byte, v *Version, until int64, removal bool) error {
	if err := s.arm(until, hourly); err != nil {
		return err
	}
	return s.WriteSet.Put(versionRow(key, v.Version), v.encode(), engine.PutOptions{ExpireAt: until, Encoding: uint8(v.Kind), Exempt: removal})
}

// end keeps what an entry was that is removed, and that it is gone.
func (s *Store) end(sc *Scope, key []byte, was *engine.Entry, kind Kind) error {
	if err := s.keep(sc, key, true, true); err != nil {
		return err
	}
	h := sc.history()
	until := s.keptUntil(h, key, 0)
	if until < 0 {
		return nil
	}
	if h == nil || was.Version == s.Version() {
		// If nothing is known of before, or that says when it ended, there is nothing to end.
		page, err := s.WriteSet.List(versions(key, 1, h != nil))
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		if h == nil {
			if before, err := parseVersion(&page.Entries[0]); err != nil || before.Ended != 0 {
				return err
			}
		}
	}
	v := Version{Version: s.Version(), Kind: kind, Time: s.Time()}
	return s.putVersion(key, &v, until, true)
}

// versions selects the stored versions of a key, from the newest to the oldest, also such that expire, until they are purged.
func versions(key []byte, limit int, keysOnly bool) engine.ListQuery {
	prefix := keyspace.KVVersion.Prefix(nil, key)
	return engine.ListQuery{Start: prefix, End: keyspace.TupleEnd(prefix), Limit: limit, KeysOnly: keysOnly, Expired: true}
}

// trim removes versions of an entry if there are too many. The newest of them leaves a row without a value.
func (s *Store) trim(h *Scope, key []byte) error {
	if h == nil || h.KeepVersions == 0 {
		return nil
	}
	q := versions(key, int(h.KeepVersions)+16, true) // more than that are taken by the next changes
	page, err := s.WriteSet.List(q)
	if err != nil || int64(len(page.Entries)) <= h.KeepVersions {
		return err
	}
	newer, marked := s.Version(), false
	for i := range page.Entries {
		e := &page.Entries[i]
		_, n, err := keyspace.KVVersion.Parse(e.Key)
		if err != nil {
			return err
		}
		version := engine.Version(-n)
		switch {
		case int64(i) < h.KeepVersions || s.pinned(key, version, newer):
		case !marked:
			marked = true
			v := Version{Version: version, Kind: trimmed, Time: e.Updated} // when it ended: nothing is known before
			if err := s.WriteSet.Put(e.Key, v.encode(), engine.PutOptions{ExpireAt: e.Expire, Encoding: uint8(trimmed), Exempt: true}); err != nil {
				return err
			}
		default:
			if _, err := s.WriteSet.Delete(e.Key); err != nil {
				return err
			}
		}
		newer = version
	}
	return nil
}

// pinned reports whether a reader may read a version of a key, which ended with the next newer one.
func (s *Store) pinned(key []byte, version, newer engine.Version) bool {
	branch := branchOf(key)
	for i := range s.scopes.pins {
		if p := &s.scopes.pins[i]; version <= p.version && p.version < newer && p.of(branch, s.Now()) {
			return true
		}
	}
	return false
}

// forget removes a version whose time is over, and older ones down to the first that a reader may read. What an entry was
// before the next newer version is unknown from then on.
func (s *Store) forget(l *ledger, row []byte) error {
	key, _, err := keyspace.KVVersion.Parse(row)
	if err != nil {
		return err
	}
	prefix := keyspace.KVVersion.Prefix(nil, key)
	end, err := s.forgettable(key, row, keyspace.TupleEnd(prefix))
	if err != nil || end == nil {
		return err
	}
	if bytes.Equal(end, row) {
		return s.postpone(row, key) // it says when the one before ended
	}
	var from floor
	at := row // the row of what the scope knows from now on, unless that is the present
	page, err := s.WriteSet.List(engine.ListQuery{Start: prefix, End: row, Reverse: true, Limit: 1, KeysOnly: true, Expired: true})
	if err != nil {
		return err
	}
	if len(page.Entries) == 1 {
		at = page.Entries[0].Key
	} else if now, there, err := s.WriteSet.Stat(key); err != nil {
		return err
	} else if there {
		at, from = nil, floor{now.Version, now.Updated}
	}
	if at != nil {
		if from, err = s.floorAt(at); err != nil {
			return err
		}
	}
	if h := s.scopes.of(userKey(key)).history(); h != nil {
		if err := l.raise(h, from); err != nil {
			return err
		}
	}
	_, err = s.WriteSet.DeleteRange(row, end)
	return err
}

// forgettable returns the end of the rows that can be removed with row. Versions are stored from the newest to the oldest; the end
// is the first version that a reader may read, or the row before it if only that says when the version ended. It is row itself if
// that is the case for row, and nil if this turn has removed row.
func (s *Store) forgettable(key, row, end []byte) ([]byte, error) {
	var newer engine.Version
	var last []byte // the version before, which is newer
	for start := row; ; start = append(last[:len(last):len(last)], 0) {
		page, err := s.WriteSet.List(engine.ListQuery{Start: start, End: end, KeysOnly: true, Expired: true, Limit: 100})
		if err != nil || last == nil && (len(page.Entries) == 0 || !bytes.Equal(page.Entries[0].Key, row)) {
			return nil, err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			_, n, err := keyspace.KVVersion.Parse(e.Key)
			if err != nil {
				return nil, err
			}
			version := engine.Version(-n)
			if last != nil && (e.Expire == 0 || e.Expire > s.Now()) && s.pinned(key, version, newer) {
				kept, err := raw(s.WriteSet, e.Key)
				if err != nil || kept == nil {
					return nil, err
				}
				if v, err := parseVersion(kept); err != nil || v.Ended != 0 {
					return e.Key, err
				}
				return last, nil
			}
			newer, last = version, e.Key
		}
		if page.Next == nil {
			return end, nil
		}
	}
}

// postpone keeps a version of a key until no reader may read it, or one before it.
func (s *Store) postpone(row, key []byte) error {
	return s.keepUntil(row, s.keptUntil(nil, key, 0))
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

// A floor is a version before which a scope does not know what its entries were, and when it was committed, in Unix milliseconds.
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

// raise notes that a scope does not know what was before a version.
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
