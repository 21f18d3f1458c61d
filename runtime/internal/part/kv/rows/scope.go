package kvrows

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A Scope is all entries whose keys begin with the parts of a prefix, with a policy. Scopes nest.
type Scope struct {
	// Prefix is packed; the empty one is for the whole store.
	Prefix []byte
	Policy
	outer  *Scope // the next one around it; nil if there is none
	logged bool   // its entries are logged, by its policy or that of a scope around it
}

// A Policy has the rules for the entries of a scope. The zero value has none.
type Policy struct {
	_ struct{} `cbor:",toarray"`
	// MaxKeys, MaxBytes (of keys and values) and MaxGroups bound the content; 0 is no bound. A
	// group is all entries with the same next part, if their keys have more parts after it.
	MaxKeys, MaxBytes, MaxGroups int64
	// CountGroups counts groups without a bound.
	CountGroups bool
	// DefaultTTL is how long entries live that are put without a time to live, in milliseconds; 0
	// is for ever.
	DefaultTTL int64
	// KeepVersions is how many versions of an entry are kept besides the last, and KeepFor for how
	// long, in milliseconds from when the next one replaced it. 0 is no bound, if the other is one;
	// if both are 0, nothing is kept.
	KeepVersions, KeepFor int64
	// ReadOnly refuses all changes, except that entries expire.
	ReadOnly bool
	// Info is any document.
	Info []byte
	// Created is when the scope was made, Updated when its policy was set last, in Unix
	// milliseconds.
	Created, Updated int64
	// Declared: the scope belongs to a map of the actor's type.
	Declared bool
	// Log appends the changes of entries to the log of the actor. That keeps up to LogEvents of
	// LogBytes, for up to LogFor milliseconds; 0 is the default of streams. Of several scopes the
	// most generous bounds hold.
	Log                         bool
	LogEvents, LogBytes, LogFor int64
}

// Extended returns the policy with the nonzero fields of another one.
func (p Policy) Extended(by *Policy) Policy {
	for _, n := range []struct {
		to *int64
		by int64
	}{
		{&p.MaxKeys, by.MaxKeys}, {&p.MaxBytes, by.MaxBytes}, {&p.MaxGroups,
			by.MaxGroups}, {&p.DefaultTTL, by.DefaultTTL}, {&p.KeepVersions, by.KeepVersions},
		{&p.KeepFor, by.KeepFor}, {&p.LogEvents, by.LogEvents}, {&p.LogBytes, by.LogBytes}, {&p.LogFor, by.LogFor},
	} {
		*n.to = cmp.Or(n.by, *n.to)
	}
	p.CountGroups, p.ReadOnly, p.Log = p.CountGroups || by.CountGroups, p.ReadOnly || by.ReadOnly, p.Log || by.Log
	if by.Info != nil {
		p.Info = by.Info
	}
	return p
}

// Scopes caches the scopes of an actor between turns. The zero value has read nothing, and reads
// them when it must.
type Scopes struct {
	// Declared are the scopes of the actor's type, in the order of their prefixes.
	Declared []Scope
	// Handlers are the maps of the actor's type whose changes are handled.
	Handlers []Handler
	rung     map[string]bool // whether the handler of a map has something to handle, as far as it is known
	// Log gets the changes that a policy logs.
	Log      Log
	kept     *host.Stream // what the log keeps; nil if it is not known
	known    bool
	changed  engine.Version
	list     []*Scope // in the order of their prefixes, without Info
	pins     []pin
	branches []*Branch // including the ones that are being removed
	purge    int64     // when the purge of the store is armed, in Unix milliseconds; 0 is not
	armed    bool      // purge is known
}

// Forget drops what turns after a version have read or changed.
func (s *Scopes) Forget(after engine.Version) {
	if s.changed > after {
		s.forget(0)
	}
}

// Reset drops everything, because some of it may have been undone.
func (s *Scopes) Reset() { s.forget(s.changed) }

// forget drops everything. changed is the version of the turn that changes it.
func (s *Scopes) forget(changed engine.Version) {
	s.known, s.list, s.kept, s.pins, s.branches, s.purge, s.armed, s.rung, s.changed = false, nil,
		nil, nil, nil, 0, false, nil, changed
}

// load reads the scopes, unless they are known, after it has made the declared ones the type's.
func (s *Store) load() error {
	known := s.scopes
	if known.known {
		return nil
	}
	list, err := briefScopes(s.WriteSet)
	if err != nil {
		return err
	}
	changed, err := s.declare(list)
	if err != nil {
		return err
	}
	if changed {
		if list, err = briefScopes(s.WriteSet); err != nil {
			return err
		}
	}
	if known.pins, known.branches, err = readPins(s.WriteSet); err != nil {
		return err
	}
	known.list, known.kept, known.known, known.changed = list, nil, true, s.Version()
	if changed && len(list) > 0 {
		return s.hasten()
	}
	return nil
}

// briefScopes reads all scopes without Info, and finds out which contain which.
func briefScopes(rows engine.Reader) (list []*Scope, err error) {
	q := engine.ListQuery{Limit: 256}
	q.Start, q.End = keyspace.KVScope.Range()
	each(rows, q, func(e *engine.Entry, eerr error) bool {
		var sc *Scope
		if err = eerr; err == nil {
			sc, err = parseScope(e)
		}
		if err != nil {
			return false
		}
		sc.Info, sc.Prefix = nil, bytes.Clone(sc.Prefix)
		list = append(list, sc)
		return true
	})
	nest(list)
	return list, err
}

// nest records which scopes contain which, and returns how deep they nest.
func nest(list []*Scope) (deepest int) {
	var outer *Scope
	depth := 0
	for _, sc := range list {
		for outer != nil && !outer.has(sc.Prefix) {
			outer = outer.outer
			depth--
		}
		sc.logged = sc.Log || outer.logs()
		sc.outer, outer = outer, sc
		depth++
		deepest = max(deepest, depth)
	}
	return deepest
}

// declare makes the stored scopes agree with the type's.
func (s *Store) declare(stored []*Scope) (changed bool, err error) {
	find := func(prefix []byte) *Scope {
		i, ok := slices.BinarySearchFunc(stored, prefix,
			func(sc *Scope, p []byte) int { return bytes.Compare(sc.Prefix, p) })
		if !ok {
			return nil
		}
		return stored[i]
	}
	for i := range s.scopes.Declared {
		want := s.scopes.Declared[i]
		want.Policy.Declared = true
		if sc := find(want.Prefix); sc != nil {
			want.Created, want.Updated = sc.Created, sc.Updated
			if reflect.DeepEqual(sc.Policy, want.Policy) {
				continue
			}
		}
		changed = true
		if _, err := s.setScope(want.Prefix, want.Policy); err != nil {
			return false, err
		}
	}
	for _, sc := range stored {
		if !sc.Policy.Declared ||
			slices.ContainsFunc(s.scopes.Declared, func(d Scope) bool { return bytes.Equal(d.Prefix, sc.Prefix) }) {
			continue
		}
		changed = true
		if err := s.RemoveScope(sc.Prefix); err != nil {
			return false, err
		}
	}
	return changed, nil
}

// ListScopes lists up to limit scopes in the order of their prefixes, with start <= prefix < end
// and after one; nil bounds and a limit of 0 are no bounds.
func ListScopes(rows engine.Reader, start, end, after []byte, limit int) (list []*Scope, more bool, err error) {
	row := func(prefix []byte) []byte { return keyspace.KVScope.Append(nil, keyspace.UserKV.Append(nil, prefix)) }
	q := engine.ListQuery{}
	q.Start, q.End = keyspace.KVScope.Range()
	if start != nil {
		q.Start = row(start)
	}
	if end != nil {
		q.End = row(end)
	}
	if after != nil {
		q.After = row(after)
	}
	for {
		page, err := rows.List(q)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Entries {
			if limit > 0 && len(list) == limit {
				return list, true, nil
			}
			sc, err := parseScope(&page.Entries[i])
			if err != nil {
				return nil, false, err
			}
			list = append(list, sc)
		}
		if page.Next == nil {
			return list, false, nil
		}
		q.After = page.Next
	}
}

func parseScope(e *engine.Entry) (*Scope, error) {
	inner, err := keyspace.KVScope.Parse(e.Key)
	if err != nil {
		return nil, err
	}
	sc := &Scope{Prefix: inner[1:]}
	if err := record.Decode(e.Value, &sc.Policy); err != nil {
		return nil, fmt.Errorf("the scope %s: %w", keyspace.Format(inner), err)
	}
	return sc, nil
}

// has reports whether a packed key is in the scope.
func (sc *Scope) has(key []byte) bool {
	// A part that goes on behind the prefix is another part: a text with a zero byte.
	return bytes.HasPrefix(key, sc.Prefix) &&
		(len(key) == len(sc.Prefix) || len(sc.Prefix) == 0 || key[len(sc.Prefix)] != 0xFF)
}

// of returns the innermost scope of a packed key; nil if there is none.
func (s *Scopes) of(key []byte) *Scope {
	if len(s.list) == 0 {
		return nil
	}
	i := sort.Search(len(s.list), func(i int) bool { return bytes.Compare(s.list[i].Prefix, key) > 0 })
	if i == 0 {
		return nil
	}
	sc := s.list[i-1]
	for sc != nil && !sc.has(key) {
		sc = sc.outer
	}
	return sc
}

// at returns the scope with a packed prefix; nil if there is none.
func (s *Scopes) at(prefix []byte) *Scope {
	if sc := s.of(prefix); sc != nil && len(sc.Prefix) == len(prefix) {
		return sc
	}
	return nil
}

// meet reports whether a range of packed keys may have keys in scopes.
func (s *Scopes) meet(start, end []byte) bool {
	if s.of(start) != nil {
		return true
	}
	i, _ := slices.BinarySearchFunc(s.list, start, func(sc *Scope, k []byte) int { return bytes.Compare(sc.Prefix, k) })
	return i < len(s.list) && (end == nil || bytes.Compare(s.list[i].Prefix, end) < 0)
}

// group returns the packed part that names the group of a key of the scope; nil if the key has no
// group, or groups are not counted.
func (sc *Scope) group(key []byte) []byte {
	if !sc.CountGroups && sc.MaxGroups == 0 {
		return nil
	}
	rest := key[len(sc.Prefix):]
	d := tuple.NewDecoder(rest)
	if _, err := d.Next(); err != nil || !d.More() {
		return nil
	}
	return rest[:d.Offset()]
}

// Name is the prefix in its form for callers.
func (sc *Scope) Name() string {
	parts, err := tuple.Unpack(sc.Prefix)
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(hostkv.Key(parts))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (sc *Scope) refuse(code host.Code, reason, format string, args ...any) *host.Error {
	return host.Errorf(code, "the scope %s "+format, append([]any{sc.Name()}, args...)...).
		With("reason", reason).With("scope", sc.Name())
}

// Find returns a scope by its packed prefix.
func Find(rows engine.Reader, prefix []byte) (*Scope, bool, error) {
	e, there, err := rows.Get(keyspace.KVScope.Append(nil, keyspace.UserKV.Append(nil, prefix)))
	if err != nil || !there {
		return nil, false, err
	}
	sc, err := parseScope(&e)
	return sc, err == nil, err
}

// SetScope makes a scope or sets its policy. A new scope counts the entries that it has already,
// which takes a second or so for a million.
func (s *Store) SetScope(prefix []byte, p Policy) (*Scope, error) {
	if len(prefix) > hostkv.MaxPrefix {
		return nil, host.OverLimit("prefix", hostkv.MaxPrefix, int64(len(prefix))).With("field", "prefix")
	}
	if len(p.Info) > hostkv.MaxInfo {
		return nil, host.OverLimit("info", hostkv.MaxInfo, int64(len(p.Info))).With("field", "info")
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	if sc := s.scopes.at(prefix); sc != nil && sc.Policy.Declared {
		return nil, errDeclared()
	}
	if n := len(s.scopes.list); n >= hostkv.MaxScopes && s.scopes.at(prefix) == nil {
		return nil, host.OverLimit("scopes of an actor", hostkv.MaxScopes, int64(n+1))
	}
	list, i := s.scopes.list, 0
	for ; i < len(list) && bytes.Compare(list[i].Prefix, prefix) < 0; i++ {
	}
	brief := &Scope{Prefix: bytes.Clone(prefix), Policy: p}
	brief.Info = nil
	if i < len(list) && bytes.Equal(list[i].Prefix, prefix) {
		list = slices.Concat(list[:i], []*Scope{brief}, list[i+1:])
	} else {
		list = slices.Insert(slices.Clone(list), i, brief)
	}
	for _, sc := range list {
		sc.outer = nil
	}
	if nest(list) > hostkv.MaxNesting {
		nest(s.scopes.list)
		return nil, host.OverLimit("nested scopes", hostkv.MaxNesting, hostkv.MaxNesting+1).With("field", "prefix")
	}
	sc, err := s.setScope(prefix, p)
	if err != nil {
		s.scopes.Reset()
		return nil, err
	}
	brief.Created, brief.Updated = sc.Created, sc.Updated
	s.scopes.list, s.scopes.kept, s.scopes.known, s.scopes.changed = list, nil, true, s.Version()
	if s.scopes.pins, s.scopes.branches, err = readPins(s.WriteSet); err != nil {
		s.scopes.Reset()
		return nil, err
	}
	if len(list) > 1 {
		return sc, nil
	}
	return sc, s.hasten()
}

// hasten makes the next purge run within a second of the first expiry, as in a store with scopes,
// and not within an hour.
func (s *Store) hasten() error {
	at, err := s.NextExpiry()
	if err != nil || at == 0 {
		return err
	}
	return s.arm(max(at, s.Now()), promptly)
}

// Scopes counts the scopes with prefixes from start up to and without end; a nil end is the end of
// the store.
func (s *Store) Scopes(start, end []byte) (n int, err error) {
	if err := s.load(); err != nil {
		return 0, err
	}
	for _, sc := range s.scopes.list {
		if bytes.Compare(sc.Prefix, start) >= 0 && (end == nil || bytes.Compare(sc.Prefix, end) < 0) {
			n++
		}
	}
	return n, nil
}

func (s *Store) setScope(prefix []byte, p Policy) (*Scope, error) {
	was, there, err := Find(s.WriteSet, prefix)
	if err != nil {
		return nil, err
	}
	p.Created, p.Updated = s.Now(), s.Now()
	if there {
		p.Created = was.Created
	}
	text, err := record.Encode(&p)
	if err != nil {
		return nil, err
	}
	key := keyspace.UserKV.Append(nil, prefix)
	if err := s.WriteSet.Put(keyspace.KVScope.Append(nil, key), text, engine.PutOptions{}); err != nil {
		return nil, err
	}
	s.scopes.forget(s.Version())
	sc := &Scope{Prefix: prefix, Policy: p}
	if grouped := func(p *Policy) bool { return p.CountGroups || p.MaxGroups > 0 }; !there ||
		grouped(&was.Policy) != grouped(&p) {
		if err := s.recount(sc); err != nil {
			return nil, err
		}
	}
	before, now := there && was.history() != nil, sc.history() != nil
	switch {
	case before && now && (was.KeepVersions != p.KeepVersions || was.KeepFor != p.KeepFor):
		err = s.sweepAll()
	case now && !before:
		err = s.beginHistory(sc)
	case before && !now:
		var c Count
		if c, err = readCount(s.WriteSet, keyspace.KVCount.Append(nil, key)); err == nil {
			err = s.unkeep(prefix, c.floor())
		}
	}
	if err == nil && there && was.Log {
		err = s.relog()
	}
	return sc, err
}

// beginHistory begins the history of a scope. It begins with what a scope around it has kept of its
// entries.
func (s *Store) beginHistory(sc *Scope) error {
	list, err := briefScopes(s.WriteSet)
	if err != nil {
		return err
	}
	if around := (&Scopes{list: list, known: true}).at(sc.Prefix).outer.history(); around != nil {
		c, err := readCount(s.WriteSet, keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, around.Prefix)))
		if err != nil {
			return err
		}
		if err := s.sweepAll(); err != nil { // it may keep less
			return err
		}
		return s.raise(sc, c.floor())
	}
	if err := s.unkeep(sc.Prefix, floor{}); err != nil {
		return err
	}
	return s.raise(sc, floor{s.Version(), s.Time()})
}

// sweepAll schedules a search of all branches for versions that nothing keeps any longer.
func (s *Store) sweepAll() error {
	_, branches, err := readPins(s.WriteSet)
	if err != nil {
		return err
	}
	if main := (&Scopes{branches: branches}).branch(mainBranch); !slices.Contains(branches, main) {
		branches = append(branches, main)
	}
	for _, b := range branches {
		if err := s.sweepFrom(b, 0); err != nil {
			return err
		}
	}
	return nil
}

// errDeclared refuses to change a scope that the type declares.
func errDeclared() error {
	return host.Errorf(host.FailedPrecondition, "the scope belongs to a map of the actor's type").
		With("reason", "declared_scope")
}

// Has reports whether there is a scope with a prefix that the type does not declare.
func (s *Store) Has(prefix []byte) (bool, error) {
	if err := s.load(); err != nil {
		return false, err
	}
	sc := s.scopes.at(prefix)
	if sc != nil && sc.Policy.Declared {
		return false, errDeclared()
	}
	return sc != nil, nil
}

// RemoveScope removes a scope. Its entries stay, unless they are deleted before.
func (s *Store) RemoveScope(prefix []byte) error {
	key := keyspace.UserKV.Append(nil, prefix)
	was, there, err := Find(s.WriteSet, prefix)
	if err != nil || !there {
		return err
	}
	c, err := readCount(s.WriteSet, keyspace.KVCount.Append(nil, key))
	if err != nil {
		return err
	}
	s.scopes.forget(s.Version())
	for _, k := range [][]byte{keyspace.KVScope.Append(nil, key), keyspace.KVCount.Append(nil, key)} {
		if _, err := s.WriteSet.Delete(k); err != nil {
			return err
		}
	}
	start := keyspace.KVGroup.Append(nil, key, nil)
	if _, err := s.WriteSet.DeleteRange(start, keyspace.TupleEnd(start)); err != nil {
		return err
	}
	if was.Log {
		if err := s.relog(); err != nil {
			return err
		}
	}
	if was.history() == nil {
		return nil
	}
	return s.unkeep(prefix, c.floor())
}

// unkeep removes the versions of the entries below a prefix that no reader keeps, except in scopes
// within that keep some themselves. If a scope around keeps them now, its history begins at a
// floor.
func (s *Store) unkeep(prefix []byte, from floor) error {
	list, err := briefScopes(s.WriteSet) // the declared ones may be on their way
	if err != nil {
		return err
	}
	pins, branches, err := readPins(s.WriteSet)
	if err != nil {
		return err
	}
	now := Store{WriteSet: s.WriteSet, scopes: &Scopes{list: list, pins: pins, branches: branches, known: true}}
	if h := now.scopes.of(prefix).history(); h != nil && len(h.Prefix) < len(prefix) {
		if err := s.sweepAll(); err != nil { // it may keep less
			return err
		}
		return s.raise(h, from)
	}
	for _, b := range branches {
		if err := s.sweepFrom(b, 0); err != nil {
			return err
		}
	}
	start := keyspace.UserKV.Append(nil, prefix)
	p := newPuller(s.WriteSet,
		engine.ListQuery{Start: versionStart(start), End: versionStart(keyspace.TupleEnd(start)),
			KeysOnly: true, Expired: true})
	for began := s.Bytes(); ; {
		e, err := p.peek()
		if err != nil || e == nil {
			return err
		}
		key, _, err := keyspace.KVVersion.Parse(e.Key)
		if err != nil {
			return err
		}
		rows, err := p.group(key)
		if err != nil {
			return err
		}
		if h := now.scopes.of(key[1:]).history(); h != nil && len(h.Prefix) > len(prefix) {
			continue
		}
		if err := now.reduce(key, rows); err != nil {
			return err
		}
		if s.Bytes()-began >= purgeBytes { // the rest is for the purge
			return s.sweepFrom(now.scopes.branch(mainBranch), 0)
		}
	}
}
