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

// A moment is the state of the store after a turn.
type moment struct {
	version engine.Version
	raw     map[string]engine.Entry // even expired entries that are not purged
	time    int64
	until   int64 // until when it is pinned; 0 if it is not
}

// A historian changes a store, and remembers all its states.
type historian struct {
	t       *testing.T
	rnd     *rand.Rand
	s       *Store
	now     int64
	moments []moment
	known   int // answers about the past that were no error
	timed   int // of them about a time
}

func (h *historian) key() []byte {
	return keyspace.UserKV.Append(nil,
		[][]byte{pack("a"), pack("a", 1), pack("a", 2), pack("a\x00", 1), pack("b", "c", 1), pack("b", "c", 2),
			pack("b", 1)}[h.rnd.IntN(7)])
}

func (h *historian) turn() {
	h.now += int64(h.rnd.IntN(4))
	h.s.Advance(h.now)
	var pinned int64
	for range 1 + h.rnd.IntN(3) {
		switch h.rnd.IntN(16) {
		case 0:
			policy := []Policy{{}, {KeepVersions: 2}, {KeepFor: 20}, {KeepVersions: 3, KeepFor: 40}}[h.rnd.IntN(4)]
			must(h.t, errOf(h.s.SetScope([][]byte{nil, pack("a"), pack("b"), pack("b", "c")}[h.rnd.IntN(4)], policy)))
		case 1:
			must(h.t, h.s.RemoveScope([][]byte{pack("a"), pack("b")}[h.rnd.IntN(2)]))
		case 2:
			must(h.t, errOf(h.s.Purge(1+h.rnd.IntN(4))))
		case 3:
			from, to := h.key(), h.key()
			if bytes.Compare(from, to) > 0 {
				from, to = to, from
			}
			must(h.t, errOf(h.s.DeleteRange(from, to)))
		case 4, 5, 6:
			must(h.t, errOf(h.s.Delete(h.key())))
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
		fatalIf(h.t, v != h.s.Version(), "%v", v)
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

// check compares the states at some versions.
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
			if !ok || !bytes.Equal(e.Value, v.Value) || e.Version != v.Version || e.Encoding != v.Encoding ||
				e.Expire != v.Expire || e.Created != v.Created || e.Updated != v.Time {
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
			must(h.t, err)
			wrong := i == len(keys) || string(f.Key) != keys[i]
			fatalIf(h.t, wrong, "entry %d at version %d is %s, want %q", i, m.version, keyspace.Format(f.Key), keys)
			same(f.Key, &f.Version)
			i++
		}
		fatalIf(h.t, !unknown && i != len(keys), "%d entries at version %d, want %d", i, m.version, len(keys))
	}
}

// checkTime compares the states at some times: what the last turn by then left.
func (h *historian) checkTime() {
	at := h.moments[len(h.moments)-1-h.rnd.IntN(min(len(h.moments), 30))].time + int64(h.rnd.IntN(2))
	last := slices.IndexFunc(h.moments, func(m moment) bool { return m.time > at }) - 1
	if last < 0 || at >= h.now {
		return
	}
	m := &h.moments[last]
	want := maps.Clone(m.raw)
	maps.DeleteFunc(want, func(_ string, e engine.Entry) bool { return e.Expire != 0 && e.Expire <= at })
	v, err := LookBack(h.s, "", at, h.s.Version(), h.now)
	must(h.t, err)
	key := h.key()
	got, there, err := v.Get(key)
	e, was := want[string(key)]
	if trimmed, unknown := errors.AsType[*TrimmedError](err); unknown {
		fatalIf(h.t, trimmed.Time != at || trimmed.Requested != 0, "%+v at %d, version %d", trimmed, at, m.version)
		return
	}
	fatalIf(h.t, err != nil || there != was ||
		there && (!bytes.Equal(e.Value, got.Value) || e.Version != got.Version || e.Updated != got.Time),
		"%s at %d: %+v %v %v, want %+v %v", keyspace.Format(key), at, got, there, err, e, was)
	h.timed++
	from, to := keyspace.UserKV.Range()
	n := 0
	for f, err := range v.All(from, to, h.rnd.IntN(2) == 0) {
		if _, unknown := errors.AsType[*TrimmedError](err); unknown {
			return
		}
		must(h.t, err)
		e, was := want[string(f.Key)]
		fatalIf(h.t, !was || e.Version != f.Version.Version, "%s at %d: %+v, want %+v %v", keyspace.Format(f.Key), at, f, e, was)
		n++
	}
	fatalIf(h.t, n != len(want), "%d entries at %d, want %d", n, at, len(want))
}

// A clock that is set back reorders nothing: later writes have a later time, or the same.
func TestTheClockDoesNotReorderThePast(t *testing.T) {
	_, rows := openRows(t)
	s := Of(rows, new(Scopes))
	s.Advance(1000)
	must(t, errOf(s.SetScope(nil, Policy{KeepVersions: 10})))
	for i, clock := range []int64{2000, 500, 700, 2100, 100} {
		s.Advance(clock)
		must(t, s.Put(keyspace.UserKV.Append(nil, pack("a", i)), nil, engine.PutOptions{}))
		if i == 3 {
			must(t, errOf(s.Delete(keyspace.UserKV.Append(nil, pack("a", 0)))))
		}
	}
	// times that the clock showed twice are not tested
	for at, want := range map[int64]int{1000: 0, 1999: 0, 2000: 3, 2099: 3, 2100: 4, 3000: 4} {
		v, err := LookBack(s, "", at, s.Version(), 9000)
		must(t, err)
		n := 0
		for _, err := range v.All(keyspace.UserKV.Append(nil, pack("a")), keyspace.UserKV.Append(nil, pack("b")), false) {
			must(t, err)
			n++
		}
		errorIf(t, n != want, "at %d there were %d, not %d", at, n, want)
	}
	if v, err := LookBack(s, "", 999, s.Version(), 9000); err == nil {
		_, _, err = v.Get(keyspace.UserKV.Append(nil, pack("a", 1)))
		trimmed, is := errors.AsType[*TrimmedError](err)
		errorIf(t, !is || trimmed.Time != 999 || trimmed.Earliest == 0, "%+v", err)
	}
}

func TestThePastIsWhatItWasOrUnknown(t *testing.T) {
	known, timed := 0, 0
	for seed := range seeds(2, 40) {
		space, rows := openRows(t)
		h := &historian{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), s: Of(rows, new(Scopes)), now: 1000}
		for range 200 {
			h.turn()
			h.check()
			h.checkTime()
			if h.rnd.IntN(3) == 0 {
				must(t, errOf(space.Commit(nil)))
				h.s.Advance(h.now)
				h.moments = append(h.moments, h.moments[len(h.moments)-1])
				m := &h.moments[len(h.moments)-1]
				m.version, m.until = h.s.Version(), 0
			}
		}
		known += h.known
		timed += h.timed
	}
	errorIf(t, known < 250 || timed < 125, "only %d answers, and %d about times", known, timed)
}
