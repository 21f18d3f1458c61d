package kvrows

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A TrimmedError says that the state of a key at a version is not known, because nothing keeps it
// any longer, or never did.
type TrimmedError struct {
	Requested engine.Version
	// Time is the requested time instead, in Unix milliseconds.
	Time int64
	// Earliest is a version that is known; 0 if only the present is.
	Earliest engine.Version
}

// Error names the requested and the known version.
func (e *TrimmedError) Error() string {
	if e.Requested == 0 {
		return fmt.Sprintf("what was at %d ms is not kept; the earliest version that is known is %d", e.Time, e.Earliest)
	}
	return fmt.Sprintf("version %d is not kept; the earliest that is known is %d", e.Requested, e.Earliest)
}

// A Past reads a branch's own entries at a version, without the entries of other branches.
type Past struct {
	rows    engine.Reader
	branch  uint64
	version engine.Version
	scopes  *Scopes
	now     int64          // the time of the reader
	time    int64          // at which entries have expired; 0 is not known
	vague   engine.Version // that was asked for, if time is only the earliest that it can be
	timed   bool           // commits up to time are read, and not up to version, which is the present one
	sure    bool           // all is known: the version is pinned, or the present one
	present bool
	floors  map[*Scope]floor
}

// At returns the store itself as it was when a version was committed. now is the version of the
// rows, and nowMS the time.
func At(rows engine.Reader, version, now engine.Version, nowMS int64) (*Past, error) {
	known, err := survey(rows)
	if err != nil {
		return nil, err
	}
	return newPast(rows, known, mainBranch, version, now, nowMS), nil
}

func newPast(rows engine.Reader, known *Scopes, branch uint64, version, now engine.Version, nowMS int64) *Past {
	p := &Past{rows: rows, branch: branch, version: version, scopes: known, now: nowMS,
		present: version == now, floors: make(map[*Scope]floor)}
	for i := range known.pins {
		if pin := &known.pins[i]; pin.version == version && pin.of(branch, nowMS) {
			p.sure, p.time = true, pin.Time
		}
	}
	if p.present {
		p.sure, p.time = true, nowMS
	}
	return p
}

// when makes p read the state at a time before now.
func (p *Past) when(ms int64) {
	p.time, p.timed, p.sure, p.present = ms, true, false, false
}

// unknown is the error for an unknown state. earliest is a known version; 0 is none.
func (p *Past) unknown(earliest engine.Version) error {
	e := &TrimmedError{Requested: p.version, Earliest: earliest}
	if p.timed {
		e.Requested, e.Time = 0, p.time
	}
	return e
}

// reached reports whether a version was committed by then. Times of commits are in the order of
// their versions.
func (p *Past) reached(version engine.Version, ms int64) bool {
	if p.timed {
		return ms <= p.time
	}
	return version <= p.version
}

// known returns an error if the state of a key is not known, although no version of it says so.
func (p *Past) known(key []byte) error {
	if p.sure {
		return nil
	}
	h := p.scopes.of(userKey(key)).history()
	if h == nil {
		return p.unknown(0)
	}
	from, ok := p.floors[h]
	if !ok {
		c, err := readCount(p.rows, keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, h.Prefix)))
		if err != nil {
			return err
		}
		from = c.floor()
		p.floors[h] = from
	}
	if p.timed && from.version != 0 && from.time == 0 || !p.reached(from.version, from.time) {
		return p.unknown(from.version)
	}
	return nil
}

// covers returns an error if a range of user keys is not known as a whole.
func (p *Past) covers(start, end []byte) error {
	if p.sure {
		return nil
	}
	first := start[min(1, len(start)):]
	sc := p.scopes.of(first)
	for sc != nil && (sc.history() != sc ||
		len(sc.Prefix) > 0 && bytes.Compare(end, keyspace.TupleEnd(keyspace.UserKV.Append(nil, sc.Prefix))) > 0) {
		sc = sc.outer
	}
	if sc == nil {
		return p.unknown(0)
	}
	for _, in := range p.scopes.list {
		key := keyspace.UserKV.Append(nil, in.Prefix)
		if in != sc && (bytes.Compare(key, end) >= 0 || !in.has(first) && bytes.Compare(key, start) < 0) {
			continue
		}
		if err := p.known(key); err != nil {
			return err
		}
	}
	return nil
}

// Get returns the value of a key; false if it was absent. The error may be a *TrimmedError.
func (p *Past) Get(key []byte) (Version, bool, error) {
	now, err := raw(p.rows, key)
	if err != nil {
		return Version{}, false, err
	}
	return p.pick(key, now, func(yield func(*engine.Entry, error) bool) {
		each(p.rows, versions(key, 256, !p.timed), yield)
	})
}

// each visits the entries of a query.
func each(rows engine.Reader, q engine.ListQuery, yield func(*engine.Entry, error) bool) {
	for {
		page, err := rows.List(q)
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range page.Entries {
			if !yield(&page.Entries[i], nil) {
				return
			}
		}
		if page.Next == nil {
			return
		}
		q.After = page.Next
	}
}

// pick returns the state of a key: the present one, if that is old enough, or the newest of its
// older versions that is. A version without a kind means that there was none.
func (p *Past) pick(key []byte, now *engine.Entry, older iter.Seq2[*engine.Entry, error]) (Version, bool, error) {
	if err := p.known(key); err != nil {
		return Version{}, false, err
	}
	if now != nil && p.reached(now.Version, now.Updated) {
		return p.as(head(now))
	}
	earliest := engine.Version(0)
	if now != nil {
		earliest = now.Version
	}
	for e, err := range older {
		if err != nil {
			return Version{}, false, err
		}
		_, n, err := keyspace.KVVersion.Parse(e.Key)
		version := engine.Version(-n)
		switch {
		case err != nil:
			return Version{}, false, err
		case p.present || p.sure && version <= p.version && e.Expire != 0 && e.Expire <= p.now:
			return Version{}, false, nil // no reader needs it: it had ended by then
		case Kind(e.Encoding) == trimmed && (version <= p.version || !p.sure):
			return Version{}, false, p.unknown(earliest)
		case p.timed:
			if v, err := parseVersion(e); err != nil || p.reached(version, v.Time) {
				if v.Ended != 0 && v.Ended != earliest { // not by one that came later, but by one that nothing keeps
					return Version{}, false, err
				}
				if err != nil {
					return v, false, err
				}
				return p.as(v)
			}
		case version <= p.version:
			return p.fetch(e.Key)
		}
		earliest = version
	}
	return Version{}, false, nil
}

// fetch reads a stored version.
func (p *Past) fetch(row []byte) (Version, bool, error) {
	e, err := raw(p.rows, row)
	if err != nil || e == nil {
		return Version{}, false, err
	}
	v, err := parseVersion(e)
	if v.Ended != 0 && v.Ended <= p.version {
		return Version{}, false, err // nothing keeps its successor, which is gone
	}
	if err != nil {
		return v, false, err
	}
	return p.as(v)
}

// as returns a version in its old state; false if it is none of an entry, or had expired.
func (p *Past) as(v Version) (Version, bool, error) {
	if p.vague != 0 && v.Kind == Set && v.Expire > p.time && !v.lives(p.now) { // before or since
		return v, false, &TrimmedError{Requested: p.vague}
	}
	return v, v.Kind == Set && v.lives(p.time), nil
}

// lives reports whether a value has not expired by a time.
func (v *Version) lives(ms int64) bool { return v.Expire == 0 || v.Expire > ms }

// A Found is an old entry.
type Found struct {
	Key []byte
	Version
	gone bool // there was none, as the branch says
}

// All ranges over the entries as they were, in the order of their keys, from start to end. The
// error may be a *TrimmedError.
func (p *Past) All(start, end []byte, reverse bool) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		for f, err := range p.all(start, end, reverse, false) {
			if (!f.gone || err != nil) && !yield(f, err) {
				return
			}
		}
	}
}

// all is All, including removed entries. keys: present values may be left out.
func (p *Past) all(start, end []byte, reverse, keys bool) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		const page = 256
		if err := p.covers(start, end); err != nil {
			yield(Found{}, err)
			return
		}
		start, end := rowsOf(p.branch, start, end)
		now := newPuller(p.rows,
			engine.ListQuery{Start: start, End: end, Reverse: reverse, Expired: true, Limit: page,
				MaxBytes: 4 << 20, KeysOnly: keys})
		old := newPuller(p.rows,
			engine.ListQuery{Start: versionStart(start), End: versionStart(end), Reverse: reverse,
				Expired: true, Limit: page, KeysOnly: !p.timed, MaxBytes: 4 << 20})
		old.end = p.present
		for {
			present, err := now.peek()
			if err != nil {
				yield(Found{}, err)
				return
			}
			past, err := old.peek()
			if err != nil {
				yield(Found{}, err)
				return
			}
			key, err := first(present, past, reverse)
			if err != nil || key == nil {
				if err != nil {
					yield(Found{}, err)
				}
				return
			}
			if present != nil && bytes.Equal(present.Key, key) {
				now.take()
			} else {
				present = nil
			}
			group, err := old.group(key)
			if err != nil {
				yield(Found{}, err)
				return
			}
			if reverse {
				slices.Reverse(group)
			}
			v, there, err := p.pick(key, present, func(yield func(*engine.Entry, error) bool) {
				for _, e := range group {
					if !yield(e, nil) {
						return
					}
				}
			})
			if v.Kind == 0 && err == nil {
				continue
			}
			if !yield(Found{keyspace.UserKV.Append(nil, userKey(key)), v, !there}, err) || err != nil {
				return
			}
		}
	}
}

// first returns the first of two keys, of an entry and of a version.
func first(present, past *engine.Entry, reverse bool) (key []byte, err error) {
	if present != nil {
		key = present.Key
	}
	if past == nil {
		return key, nil
	}
	of, _, err := keyspace.KVVersion.Parse(past.Key)
	if err != nil || key == nil {
		return of, err
	}
	if c := bytes.Compare(of, key); c < 0 != reverse && c != 0 {
		key = of
	}
	return key, nil
}

// A puller hands out the entries of a query one by one.
type puller struct {
	rows engine.Reader
	q    engine.ListQuery
	page []engine.Entry
	end  bool
}

func newPuller(rows engine.Reader, q engine.ListQuery) *puller { return &puller{rows: rows, q: q} }

// peek returns the next entry; nil at the end.
func (p *puller) peek() (*engine.Entry, error) {
	for len(p.page) == 0 && !p.end {
		page, err := p.rows.List(p.q)
		if err != nil {
			return nil, err
		}
		p.page, p.q.After, p.end = page.Entries, page.Next, page.Next == nil
	}
	if len(p.page) == 0 {
		return nil, nil
	}
	return &p.page[0], nil
}

func (p *puller) take() { p.page = p.page[1:] }

// group returns the versions of a key.
func (p *puller) group(key []byte) (list []*engine.Entry, err error) {
	prefix := keyspace.KVVersion.Prefix(nil, key)
	for {
		e, err := p.peek()
		if err != nil || e == nil || !bytes.HasPrefix(e.Key, prefix) {
			return list, err
		}
		list = append(list, e)
		p.take()
	}
}

// History lists up to limit versions of a key from the newest to the oldest, the present one first;
// before a version, or all if that is 0. Versions before the floor are not known.
func History(rows engine.Reader, key []byte, before engine.Version, limit int,
	nowMS int64) (list []Version, more bool, floor engine.Version, err error) {
	const most = 4 << 20 // bytes of the values, the last one aside
	size := 0
	add := func(v *Version) bool {
		if before != 0 && v.Version >= before {
			return true
		}
		if len(list) == limit || size >= most {
			more = true
			return false
		}
		size += len(v.Value)
		list = append(list, *v)
		return true
	}
	known, err := survey(rows)
	if err != nil {
		return nil, false, 0, err
	}
	p := newPast(rows, known, branchOf(key), 0, 1, nowMS)
	now, err := raw(rows, key)
	if err != nil {
		return nil, false, 0, err
	}
	if now != nil {
		v := head(now)
		if v.Kind == Set && !v.lives(nowMS) { // and is not purged yet
			v = Version{Version: v.Version, Kind: Expired, Time: v.Expire}
		}
		floor = v.Version
		add(&v)
	}
	if trimmed, ok := errors.AsType[*TrimmedError](p.known(key)); ok && trimmed.Earliest != 0 {
		floor = trimmed.Earliest
	}
	q := versions(key, min(limit+2, 256), false)
	q.MaxBytes = most
	if before != 0 {
		q.Start = versionRow(key, before-1)
	}
	each(rows, q, func(e *engine.Entry, eerr error) bool {
		if err = eerr; err != nil {
			return false
		}
		var v Version
		if v, err = parseVersion(e); err != nil {
			return false
		}
		if v.Kind == trimmed {
			if len(list) > 0 {
				floor = max(floor, list[len(list)-1].Version)
			}
			return false
		}
		return add(&v)
	})
	if err == nil && floor == 0 && p.known(key) != nil { // it is gone, and only readers keep versions of it
		page, err := rows.List(versions(key, 1, true))
		if err != nil || len(page.Entries) == 0 {
			return list, more, 0, err
		}
		_, n, err := keyspace.KVVersion.Parse(page.Entries[0].Key)
		return list, more, engine.Version(-n), err
	}
	return list, more, floor, err
}
