package kvrows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

var actorID = keyspace.ActorID{1, 2, 3, 4, 5, 6, 0x8f, 8, 0x80, 10}

func openRows(t testing.TB) (*engine.Space, *engine.WriteSet) {
	t.Helper()
	store, err := engine.Open(context.Background(),
		engine.Options{Dir: "store", Disk: engine.NewDisk(), CacheBytes: 8 << 20, MemTableBytes: 1 << 20,
			Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	space, err := store.OpenSpace(actorID)
	must(t, err)
	return space, space.Writes()
}

// A kept entry of the model.
type kept struct {
	value   value.Value
	version uint64
	expires int64
}

// A player does random commits on an actor and on a map.
type player struct {
	t     *testing.T
	rnd   *rand.Rand
	space *engine.Space
	rows  *Store
	now   int64
	model map[string]kept
	scope bool   // scopes come and go
	seen  Digest // of some range, some time ago
}

func pack(parts ...any) []byte {
	b, err := tuple.Tuple(parts).Pack()
	if err != nil {
		panic(err)
	}
	return b
}

func (p *player) key() []byte {
	parts := []any{[]byte{0xFF}, "a", "a\x00", "ab", int64(p.rnd.IntN(3)), 1.5}[:1+p.rnd.IntN(6)]
	return pack(parts[p.rnd.IntN(len(parts))], int64(p.rnd.IntN(3)))
}

func (p *player) value() value.Value {
	switch p.rnd.IntN(5) {
	case 0:
		return value.U64(uint64(p.rnd.IntN(3)) - 1)
	case 1:
		return value.Integer(big.NewInt(p.rnd.Int64N(9) - 4))
	case 2:
		return value.Value{Encoding: host.EncodedJSON, Data: fmt.Appendf(nil, "[%d]", p.rnd.IntN(9))}
	}
	return value.Value{Encoding: host.EncodedJSON, Data: fmt.Append(nil, p.rnd.IntN(9))}
}

func (p *player) there(key []byte) (kept, bool) {
	k, ok := p.model[string(key)]
	return k, ok && (k.expires == 0 || k.expires > p.now)
}

func (p *player) mutation() Mutation {
	m := Mutation{Op: Op(p.rnd.IntN(5)), Key: p.key(), Value: p.value()}
	if m.Combine = []value.Op{value.Sum, value.Min, value.Max, value.Append}[p.rnd.IntN(4)]; m.Combine.Check(m.Value) != nil {
		m.Combine = value.Sum
		m.Value = value.Value{Encoding: host.EncodedJSON, Data: []byte("1")}
	}
	if m.Op == DeleteRange {
		if m.End = p.key(); bytes.Compare(m.Key, m.End) > 0 {
			m.Key, m.End = m.End, m.Key
		}
		if p.rnd.IntN(2) == 0 {
			m.Where = func(e *engine.Entry) (bool, error) { return odd(e.Value), nil }
		}
	}
	if p.rnd.IntN(3) == 0 {
		m.Expiry.Set = true
		if m.Expiry.At = p.now + int64(p.rnd.IntN(20)) + 1; p.rnd.IntN(4) == 0 && m.Op != Put {
			m.Expiry.At = 0
		}
	}
	return m
}

// odd is the filter of some mutations.
func odd(data []byte) bool { return len(data) > 0 && data[0]&1 == 1 }

// expected does a mutation on the model; false means that it cannot be done.
func (p *player) expected(m *Mutation, version uint64) (Done, bool) {
	old, there := p.there(m.Key)
	var d Done
	switch m.Op {
	case Delete, DeleteRange:
		for k := range maps.Clone(p.model) {
			inside := k == string(m.Key)
			if m.Op == DeleteRange {
				inside = k >= string(m.Key) && k < string(m.End) && (m.Where == nil || odd(p.model[k].value.Data))
			}
			if inside {
				if _, there := p.there([]byte(k)); there {
					d.Deleted++
				}
				delete(p.model, k)
			}
		}
		d.Changed = d.Deleted > 0
		return d, true
	case Touch:
		if !there {
			return Done{Value: m.Value, Expires: m.Expiry.At}, true
		}
		d.Value = old.value
	case Combine:
		stored := &old.value
		if !there {
			stored = nil
		}
		var err error
		if d.Value, err = m.Combine.Combine(stored, m.Value, m.Bounds); err != nil {
			return d, false
		}
	default:
		d.Value = m.Value
	}
	d.Changed, d.Expires = true, m.Expiry.At
	if m.Op != Put && !m.Expiry.Set && there {
		d.Expires = old.expires
	}
	p.model[string(m.Key)] = kept{d.Value, version, d.Expires}
	return d, true
}

func (p *player) check() (c Check, holds bool) {
	c = Check{Key: p.key(), Want: Want(p.rnd.IntN(5))}
	old, there := p.there(c.Key)
	switch c.Want {
	case Equal:
		wanted := p.value()
		c.Value = func(v value.Value) (bool, error) {
			return v.Encoding == wanted.Encoding && bytes.Equal(v.Data, wanted.Data), nil
		}
		return c, there && old.value.Encoding == wanted.Encoding && bytes.Equal(old.value.Data, wanted.Data)
	case Unchanged:
		if c.End = p.key(); bytes.Compare(c.Key, c.End) > 0 {
			c.Key, c.End = c.End, c.Key
		}
		is := p.digest(c.Key, c.End)
		if c.Digest = is; p.rnd.IntN(3) == 0 { // as of an earlier look
			c.Digest = p.seen
		}
		p.seen = is
		return c, c.Digest == is
	}
	if c.Version = old.version; p.rnd.IntN(3) == 0 {
		c.Version++
	}
	switch c.Want {
	case Absent:
		return c, !there
	case Exists:
		return c, there
	}
	return c, there && c.Version == old.version
}

// digest returns the digest of a range of the model.
func (p *player) digest(start, end []byte) (d Digest) {
	for k, e := range p.model {
		if _, there := p.there([]byte(k)); there && k >= string(start) && k < string(end) {
			d.Add(&engine.Entry{Key: keyspace.UserKV.Append(nil, []byte(k)), Version: engine.Version(e.version)})
		}
	}
	return d
}

func (p *player) commit() {
	p.now += int64(p.rnd.IntN(5))
	p.rows.Advance(p.now)
	var c Commit
	var failed []int
	for i := range p.rnd.IntN(3) {
		check, holds := p.check()
		c.Checks = append(c.Checks, check)
		if !holds {
			failed = append(failed, i)
		}
	}
	before := maps.Clone(p.model)
	version := uint64(p.rows.Version())
	var want []Done
	fails := -1
	for i := range 1 + p.rnd.IntN(5) {
		m := p.mutation()
		c.Mutations = append(c.Mutations, m)
		if failed == nil && fails < 0 {
			d, ok := p.expected(&m, version)
			if want = append(want, d); !ok {
				fails = i
			}
		}
	}
	undo := p.rows.Savepoint()
	refused, err := Apply(p.rows, &c)
	var fault *MutationError
	switch {
	case failed != nil:
		fatalIf(p.t, err != nil || !slices.Equal(refused, failed), "checks %v failed, want %v: %v", refused, failed, err)
	case fails >= 0:
		p.model = before
		var mismatch *value.MismatchError
		fatalIf(p.t, !errors.As(err, &fault) || fault.Index != fails ||
			!errors.As(err, &mismatch), "mutation %d should fail: %v", fails, err)
		p.rows.Rollback(undo)
		p.rows.scopes.Forget(p.rows.Version())
	case err != nil:
		p.t.Fatal(err)
	default:
		for i := range want {
			if g, w := c.Mutations[i].Done, want[i]; g.Changed != w.Changed || g.Deleted != w.Deleted ||
				g.Changed && g.Deleted == 0 &&
					(g.Expires != w.Expires || g.Value.Encoding != w.Value.Encoding || !bytes.Equal(g.Value.Data, w.Value.Data)) {
				p.t.Fatalf("mutation %d (%+v) did %+v, want %+v", i, c.Mutations[i], g, w)
			}
		}
	}
	if p.scope {
		p.changeScopes()
	}
	if p.rnd.IntN(3) == 0 {
		must(p.t, errOf(p.space.Commit(nil)))
		p.rows.Advance(p.now) // or reads would take the machine's clock
	}
}

// compare reads all entries.
func (p *player) compare() {
	from, to := Bounds(nil, nil)
	page, err := p.rows.List(engine.ListQuery{Start: from, End: to})
	must(p.t, err)
	n := 0
	for _, e := range page.Entries {
		want, there := p.there(e.Key[1:])
		fatalIf(p.t, !there || !bytes.Equal(e.Value, want.value.Data) || encoding(&e) != want.value.Encoding || e.Expire != want.expires,
			"%x is %s, want %+v", e.Key, e.Value, want)
		n++
	}
	for k := range p.model {
		if _, there := p.there([]byte(k)); there {
			n--
		}
	}
	fatalIf(p.t, n != 0, "%d entries more than the model has", n)
}

func TestCommitsAgreeWithAMap(t *testing.T) {
	for seed := range seeds(2, 40) {
		space, rows := openRows(t)
		p := &player{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), space: space, rows: Of(rows, new(Scopes)), now: 1000,
			model: make(map[string]kept), scope: seed%2 == 1}
		for range 300 {
			p.commit()
			p.compare()
			p.recount()
		}
	}
}

// B15: UUIDs of an actor grow, regardless of its clock, across commits that keep them.
func TestUUIDsGrow(t *testing.T) {
	space, rows := openRows(t)
	last := ""
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_999_999, time.UTC)
	for i, step := range []time.Duration{0, 0, time.Microsecond, time.Second, -time.Hour, 0, time.Millisecond, 2 * time.Hour} {
		now = now.Add(step)
		var s Stamps
		for range 5 {
			text, err := s.UUID(rows, now)
			must(t, err)
			id, err := uuid.Parse(text)
			errorIf(t, err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122,
				"%s: version %d, variant %s, %v", text, id.Version(), id.Variant(), err)
			errorIf(t, text <= last, "step %d: %s is not after %s", i, text, last)
			if sec, nsec := id.Time().UnixTime(); step > 0 && time.Unix(sec, nsec).Sub(now).Abs() > time.Millisecond && i != 6 {
				t.Errorf("step %d: the time of %s is %s and not %s", i, text, time.Unix(sec, nsec).UTC(), now)
			}
			last = text
		}
		must(t, s.Keep(rows))
		if i%2 == 0 {
			must(t, errOf(space.Commit(nil)))
		}
	}
	must(t, rows.Put(keyspace.UUID.Append(nil), []byte("damaged"), engine.PutOptions{}))
	_, err := new(Stamps).UUID(rows, now)
	errorIf(t, err != nil, "%v", err)
}

func TestVersionstampsAreOrderedAsVersions(t *testing.T) {
	if a, b := Versionstamp(255), Versionstamp(256); a != "00000000000000ff0000" || a >= b {
		t.Error(a, b)
	}
}

func document(text string) value.Value {
	return value.Value{Encoding: host.EncodedJSON, Data: []byte(text)}
}

// withoutValues fails a test when a value is read.
type withoutValues struct {
	*engine.WriteSet
	t *testing.T
}

func (w withoutValues) Get([]byte) (engine.Entry, bool, error) {
	w.t.Error("the value is read")
	return engine.Entry{}, false, nil
}

func TestPutsAndChecksDoNotReadValues(t *testing.T) {
	_, rows := openRows(t)
	rows.Advance(1000)
	blind := withoutValues{rows, t}
	for range 2 {
		must(t, errOf(Apply(blind,
			&Commit{Mutations: []Mutation{{Key: pack("a"), Value: document("1")}, {Key: pack("a", 1), Value: document("1")}}})))
	}
	failed, err := Apply(blind, &Commit{Checks: []Check{
		{Key: pack("a"), Want: Exists}, {Key: pack("a"), Want: Absent}, {Key: pack("a"), Want: AtVersion,
			Version: uint64(rows.Version())}, {Key: pack("b"), Want: Exists},
	}})
	errorIf(t, err != nil || len(failed) != 2 || failed[0] != 1 || failed[1] != 3, "%v %v", failed, err)
}

// A small commit must not copy a large value thousands of times.
func TestTheWorkOfACommitIsBounded(t *testing.T) {
	_, rows := openRows(t)
	rows.Advance(1000)
	large := document(`["` + string(bytes.Repeat([]byte("x"), 100<<10)) + `"]`)
	c := &Commit{Mutations: []Mutation{{Key: pack("a"), Value: large}}}
	for range 1000 {
		c.Mutations = append(c.Mutations, Mutation{Op: Combine, Key: pack("a"), Combine: value.Append, Value: document("[]")})
	}
	_, err := Apply(rows, c)
	errorIf(t, host.CodeOf(err) != host.TooLarge, "%v", err)
}
