package kvrows

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// prefix is the packed prefix of a scope that the keys of a player may be in.
func (p *player) prefix() []byte {
	return [][]byte{nil, p.key(), pack("a"), pack("a\x00")}[p.rnd.IntN(4)]
}

// changeScopes makes a scope or removes one, and purges some entries that have expired.
func (p *player) changeScopes() {
	switch p.rnd.IntN(8) {
	case 0, 1:
		must(p.t, errOf(p.rows.SetScope(p.prefix(), Policy{CountGroups: p.rnd.IntN(2) == 0})))
	case 2:
		must(p.t, p.rows.RemoveScope(p.prefix()))
	case 3:
		must(p.t, errOf(p.rows.Purge(1+p.rnd.IntN(3))))
	}
}

// recount compares the counts of scopes with the entries.
func (p *player) recount() {
	list, _, err := ListScopes(p.rows, nil, nil, nil, 0)
	must(p.t, err)
	for _, sc := range list {
		start := keyspace.UserKV.Append(nil, sc.Prefix)
		page, err := p.rows.List(engine.ListQuery{Start: start, End: keyspace.TupleEnd(start), KeysOnly: true, Expired: true})
		must(p.t, err)
		var stored, seen Count
		first := int64(0) // when the first of its entries expires
		groups, live := map[string]Count{}, map[string]Count{}
		count := func(c *Count, groups map[string]Count, e *engine.Entry) {
			c.Keys++
			c.Bytes += sizeOf(e)
			if part := sc.group(e.Key[1:]); part != nil {
				g := groups[string(part)]
				g.Keys++
				g.Bytes += sizeOf(e)
				groups[string(part)] = g
				c.Grouped++
				c.Groups = int64(len(groups))
			}
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if count(&stored, groups, e); e.Expire == 0 || e.Expire > p.now {
				count(&seen, live, e)
			}
			if e.Expire != 0 && (first == 0 || e.Expire < first) {
				first = e.Expire
			}
		}
		got, err := readCount(p.rows, keyspace.KVCount.Append(nil, start))
		fatalIf(p.t, got.Expiry == 0 || first != 0 && (got.Expiry == never || got.Expiry > first),
			"nothing in the scope %s expires before %d, it says, but something does at %d", sc.Name(), got.Expiry, first)
		stored.Expiry, seen.Expiry = got.Expiry, got.Expiry
		fatalIf(p.t, err != nil || got != stored, "the scope %s counts %+v, and has %+v: %v", sc.Name(), got, stored, err)
		got, _, err = Counted(p.rows, sc.Prefix, p.now)
		fatalIf(p.t, err != nil || got != seen, "the scope %s shows %+v, and has %+v: %v", sc.Name(), got, seen, err)
		var parts []string
		for after, more := []byte(nil), true; more; {
			var some []Group
			some, more, err = Groups(p.rows, sc.Prefix, after, 2, p.now)
			must(p.t, err)
			for _, g := range some {
				fatalIf(p.t, g.Count != live[string(g.Part)], "the group %x shows %+v, and has %+v", g.Part, g.Count, live[string(g.Part)])
				after = g.Part
				parts = append(parts, string(g.Part))
			}
		}
		want := slices.Sorted(maps.Keys(live))
		fatalIf(p.t, !slices.Equal(parts, want), "the scope %s shows the groups %q, and has %q", sc.Name(), parts, want)
	}
}

func scoped(t *testing.T, prefix []byte, p Policy) *Store {
	_, rows := openRows(t)
	rows.Advance(1000)
	s := Of(rows, new(Scopes))
	must(t, errOf(s.SetScope(prefix, p)))
	return s
}

func put(s *Store, expire int64, value string, parts ...any) error {
	return s.Put(keyspace.UserKV.Append(nil, pack(parts...)), []byte(value), engine.PutOptions{ExpireAt: expire})
}

// A large delete does not write a row of counts for each entry that it removes.
func TestManyEntriesOfManyGroupsAreDeletedAtOnce(t *testing.T) {
	s := scoped(t, nil, Policy{CountGroups: true})
	for i := range 2000 {
		must(t, put(s, 0, "1", i/10, i))
	}
	from, to := keyspace.UserKV.Range()
	n, err := s.DeleteRange(from, to)
	c, _, cerr := Counted(s, nil, 1000)
	errorIf(t, n != 2000 || err != nil || cerr != nil || c != (Count{Expiry: never}), "%v %v %v %v", n, err, c, cerr)
	groups, more, err := Groups(s, nil, nil, 10, 1000)
	errorIf(t, len(groups) != 0 || more || err != nil, "%v %v %v", groups, more, err)
}

func FuzzCount(f *testing.F) {
	f.Add((&Count{1, 2, 3, 4, 5, 6, 7}).encode())
	f.Add([]byte{1, 1, 2, 3, 4, 5})    // of before there was a sixth number
	f.Add([]byte{1, 1, 2, 3, 4, 5, 6}) // of before there was a seventh
	f.Add([]byte{1, 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCount(&engine.Entry{Value: b})
		if err != nil {
			return
		}
		again, err := parseCount(&engine.Entry{Value: c.encode()})
		fatalIf(t, err != nil || again != c, "%v %v %v", again, c, err)
	})
}

func TestAScopeIsForgottenWithItsTurn(t *testing.T) {
	_, rows := openRows(t)
	s := Of(rows, new(Scopes))
	s.Advance(1000)
	before := s.Savepoint()
	s.Advance(1001)
	must(t, errOf(s.SetScope(nil, Policy{MaxKeys: 1})))
	must(t, put(s, 0, "1", "a"))
	s.Rollback(before)
	s.scopes.Forget(s.Version())
	s.Advance(1002)
	must(t, put(s, 0, "1", "a"))
	must(t, put(s, 0, "1", "b"))
}

// Expired entries make as much room as is needed, for any number of them.
func TestAFullScopeIsClearedUntilThereIsRoom(t *testing.T) {
	s := scoped(t, nil, Policy{MaxBytes: 2 * mostCleared * 100})
	for i := range mostCleared + 500 {
		must(t, put(s, 2000, strings.Repeat("x", 100), "b", i))
	}
	s.Advance(3000)
	must(t, put(s, 0, strings.Repeat("x", 2*mostCleared*100-100), "a"))
}

// Removed entries that are kept as versions need no room that a full actor does not have.
func TestAFullActorWithVersionsCanBeEmptied(t *testing.T) {
	space, rows := openRows(t)
	s := Of(rows, new(Scopes))
	s.Advance(1000)
	must(t, errOf(s.SetScope(nil, Policy{KeepFor: 1000})))
	for i := range 9 { // more than one purge removes
		must(t, put(s, 2000, strings.Repeat("v", 1<<10), i))
	}
	must(t, put(s, 0, "1", "a"))
	must(t, errOf(space.Commit(nil)))
	must(t, space.SetLimits(&engine.Limits{Quota: space.Head().Bytes}))
	s.Advance(3000)
	must(t, errOf(s.Delete(keyspace.UserKV.Append(nil, pack("a")))))
	turns, err := 0, error(nil)
	for more := true; more; turns++ {
		more, err = s.Purge(5)
		must(t, err)
		must(t, errOf(space.Commit(nil)))
		s.Advance(3000)
	}
	c, _, err := Counted(s, nil, 3000)
	errorIf(t, turns < 2 || err != nil || c.Keys != 0, "%v %v %v", turns, c, err)
}

// The type's scopes are protected from the first change of a store on.
func TestAScopeOfTheTypeIsNotChanged(t *testing.T) {
	_, rows := openRows(t)
	declared := Scope{Prefix: pack("m"), Policy: Policy{MaxKeys: 1}}
	for _, first := range []func(s *Store) error{
		func(s *Store) error { _, err := s.SetScope(declared.Prefix, Policy{}); return err },
		func(s *Store) error { _, err := s.Has(declared.Prefix); return err },
	} {
		before := rows.Savepoint()
		s := Of(rows, &Scopes{Declared: []Scope{declared}})
		s.Advance(1000)
		err := first(s)
		errorIf(t, host.CodeOf(err) != host.FailedPrecondition, "%v", err)
		must(t, put(s, 0, "1", "m", 1))
		err = put(s, 0, "1", "m", 2)
		errorIf(t, err == nil, "the bound of the type does not hold")
		rows.Rollback(before)
	}
}

// A row of a release that did not record when the first entry expires: an expired entry does not
// count.
func TestAnOldCountDoesNotKnowWhenNothingExpires(t *testing.T) {
	s := scoped(t, pack("a"), Policy{})
	key := keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, pack("a")))
	must(t, put(s, 9000, "1", "a", 3))
	e, _, err := s.Get(key)
	must(t, err)
	must(t, s.WriteSet.Put(key, e.Value[:len(e.Value)-len(binary.AppendUvarint(nil, 9000))], engine.PutOptions{}))
	c, err := readCount(s, key)
	fatalIf(t, err != nil || c.Expiry != 0, "nothing expires before %d, want 0: %v", c.Expiry, err)
	c, _, err = Counted(s, pack("a"), 9000)
	fatalIf(t, err != nil || c.Keys != 0, "%d entries, want 0: %v", c.Keys, err)
}
