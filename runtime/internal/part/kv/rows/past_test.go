package kvrows

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A moment is what the store had after a turn.
type moment struct {
	version engine.Version
	raw     map[string]engine.Entry // also what has expired and is not purged
	time    int64
	until   int64 // until when it is pinned; 0 if it is not
}

// A historian changes a store, and remembers all that it had.
type historian struct {
	t       *testing.T
	rnd     *rand.Rand
	s       *Store
	now     int64
	moments []moment
	known   int // answers about the past that were no error
}

func (h *historian) key() []byte {
	return keyspace.UserKV.Append(nil, [][]byte{pack("a"), pack("a", 1), pack("a", 2), pack("a\x00", 1), pack("b", "c", 1), pack("b", "c", 2), pack("b", 1)}[h.rnd.IntN(7)])
}

func (h *historian) turn() {
	h.now += int64(h.rnd.IntN(4))
	h.s.Advance(h.now)
	var pinned int64
	for range 1 + h.rnd.IntN(3) {
		switch h.rnd.IntN(16) {
		case 0:
			_, err := h.s.SetScope([][]byte{nil, pack("a"), pack("b"), pack("b", "c")}[h.rnd.IntN(4)], []Policy{{}, {KeepVersions: 2}, {KeepFor: 20}, {KeepVersions: 3, KeepFor: 40}}[h.rnd.IntN(4)])
			must(h.t, err)
		case 1:
			must(h.t, h.s.RemoveScope([][]byte{pack("a"), pack("b")}[h.rnd.IntN(2)]))
		case 2:
			_, err := h.s.Purge(1 + h.rnd.IntN(4))
			must(h.t, err)
		case 3:
			from, to := h.key(), h.key()
			if bytes.Compare(from, to) > 0 {
				from, to = to, from
			}
			_, err := h.s.DeleteRange(from, to)
			must(h.t, err)
		case 4, 5, 6:
			_, err := h.s.Delete(h.key())
			must(h.t, err)
		default:
			o := engine.PutOptions{Encoding: uint8(h.rnd.IntN(3))}
			if h.rnd.IntN(4) == 0 {
				o.ExpireAt = h.now + 1 + int64(h.rnd.IntN(10))
			}
			must(h.t, h.s.Put(h.key(), []byte{byte(h.rnd.IntN(256))}, o))
		}
	}
	if h.rnd.IntN(10) == 0 {
		d := int64(1 + h.rnd.IntN(30))
		v, err := h.s.Pin(time.Duration(d) * time.Millisecond)
		must(h.t, err)
		if v != h.s.Version() {
			h.t.Fatal(v)
		}
		pinned = h.now + d
	}
	from, to := keyspace.UserKV.Range()
	page, err := h.s.List(engine.ListQuery{Start: from, End: to, Expired: true})
	must(h.t, err)
	m := moment{version: h.s.Version(), raw: map[string]engine.Entry{}, time: h.now, until: pinned}
	for _, e := range page.Entries {
		m.raw[string(e.Key)] = e
	}
	h.moments = append(h.moments, m)
}

// tell logs all that there is to know about a key.
func (h *historian) tell(p *Past, key []byte) {
	h.t.Helper()
	for _, sc := range p.scopes.list {
		c, err := readCount(h.s, keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, sc.Prefix)))
		h.t.Logf("scope %s keeps %d for %d: %+v %v", sc.Name(), sc.KeepVersions, sc.KeepFor, c, err)
	}
	each(h.s, versions(key, 0, false), func(e *engine.Entry, err error) bool {
		must(h.t, err)
		v, err := parseVersion(e)
		h.t.Logf("%+v until %d: %v", v, e.Expire, err)
		return true
	})
	now, err := raw(h.s, key)
	h.t.Logf("%s is %+v at version %d, time %d, pins %+v, and was at version %d: %v", keyspace.Format(key), now, h.s.Version(), h.now, p.scopes.pins, p.version, err)
}

// check asks for what was at some versions.
func (h *historian) check() {
	for range 3 {
		m := &h.moments[len(h.moments)-1-h.rnd.IntN(min(len(h.moments), 30))]
		pinned := m.until > h.now
		want := maps.Clone(m.raw)
		if at := m.time; pinned || m.version == h.s.Version() {
			if !pinned {
				at = h.now
			}
			maps.DeleteFunc(want, func(_ string, e engine.Entry) bool { return e.Expire != 0 && e.Expire <= at })
		}
		p, err := At(h.s, m.version, h.s.Version(), h.now)
		must(h.t, err)
		same := func(key []byte, v *Version) {
			e, ok := want[string(key)]
			if !ok || !bytes.Equal(e.Value, v.Value) || e.Version != v.Version || e.Encoding != v.Encoding || e.Expire != v.Expire || e.Created != v.Created || e.Updated != v.Time {
				h.t.Fatalf("%s was %+v (%v) at version %d, and is said to have been %+v", keyspace.Format(key), e, ok, m.version, v)
			}
		}
		key := h.key()
		v, there, err := p.Get(key)
		trimmed, unknown := errors.AsType[*TrimmedError](err)
		switch _, was := want[string(key)]; {
		case unknown && (pinned || trimmed.Requested != m.version || trimmed.Earliest != 0 && trimmed.Earliest <= m.version):
			h.t.Fatalf("%v, at %d of %d", err, m.version, h.s.Version())
		case unknown:
		case err != nil || there != was:
			h.tell(p, key)
			h.t.Fatalf("%s at version %d: %v %v, want %v", keyspace.Format(key), m.version, there, err, was)
		case there:
			same(key, &v)
			h.known++
		}
		from, to := keyspace.UserKV.Range()
		if h.rnd.IntN(2) == 0 {
			if from, to = h.key(), h.key(); bytes.Compare(from, to) > 0 {
				from, to = to, from
			}
		}
		maps.DeleteFunc(want, func(key string, _ engine.Entry) bool { return key < string(from) || key >= string(to) })
		keys := slices.Sorted(maps.Keys(want))
		reverse := h.rnd.IntN(2) == 0
		if reverse {
			slices.Reverse(keys)
		}
		i := 0
		for f, err := range p.All(from, to, reverse) {
			if _, unknown = errors.AsType[*TrimmedError](err); unknown && !pinned {
				break
			}
			if err != nil {
				h.tell(p, f.Key)
				h.t.Fatal(err)
			}
			if i == len(keys) || string(f.Key) != keys[i] {
				h.tell(p, f.Key)
				h.t.Fatalf("entry %d at version %d is %s, want %q", i, m.version, keyspace.Format(f.Key), keys[i:])
			}
			same(f.Key, &f.Version)
			i++
		}
		if !unknown && i != len(keys) {
			for _, k := range keys[i:] {
				h.tell(p, []byte(k))
			}
			h.t.Fatalf("%d entries at version %d, want %d", i, m.version, len(keys))
		}
	}
}

func TestThePastIsWhatItWasOrUnknown(t *testing.T) {
	known := 0
	for seed := range uint64(40) {
		space, rows := openRows(t)
		h := &historian{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), s: Of(rows, new(Scopes)), now: 1000}
		for range 200 {
			h.turn()
			h.check()
			if h.rnd.IntN(3) == 0 {
				_, err := space.Commit(nil)
				must(t, err)
				h.s.Advance(h.now)
				h.moments = append(h.moments, h.moments[len(h.moments)-1])
				m := &h.moments[len(h.moments)-1]
				m.version, m.until = h.s.Version(), 0
			}
		}
		known += h.known
	}
	if known < 1000 {
		t.Errorf("only %d answers", known)
	}
}
