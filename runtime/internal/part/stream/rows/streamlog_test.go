package streamrows

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

func mustAppend(t testing.TB, l *Log, cfg *host.Stream, values ...string) uint64 {
	t.Helper()
	last, err := l.Append(cfg, "s", items(values...))
	must(t, err)
	return last
}

func mustRead(t testing.TB, s *actorStore, now time.Time, cfg *host.Stream, after uint64) host.StreamPage {
	t.Helper()
	p, err := Read(s.rows, now, cfg, "s", after, 0, 0)
	must(t, err)
	return p
}

func TestLoweredLimitIsInForceAtOnceAndRowsGoABitAtATime(t *testing.T) {
	s := newStore(t)
	wide, narrow := config(host.Stream{}), config(host.Stream{Items: 10})
	for range 15 {
		mustAppend(t, s.log(begin), wide, slices.Repeat([]string{"x"}, host.MaxStreamBatch)...)
		s.commit()
	}
	mustAppend(t, s.log(begin), narrow, "y")
	s.commit()
	i, err := Info(s.rows, begin, narrow, "s")
	fatalIf(t, err != nil || i.Last-i.First != 9 || i.Bytes != 10, "%+v, %v", i, err)
	n := s.stored()
	fatalIf(t, n != 15_001-removeMost-1, "%v rows are left", n)
	turns := 0
	for ; len(s.wakes()) > 0; turns++ {
		w := s.wakes()
		fatalIf(t, len(w) != 1, "%+v", w)
		before := s.stored()
		must(t, s.log(begin).Purge(narrow, "s", w[0].Due))
		s.commit()
		fatalIf(t, before-s.stored() > purgeMost, "one turn removed %v", before-s.stored())
	}
	fatalIf(t, turns != 2 || s.stored() != 10, "%v %v", turns, s.stored())
}

func TestRowOfTheWakeIndexThatIsOutOfDateIsRemoved(t *testing.T) {
	s := newStore(t)
	l := s.log(begin)
	mustAppend(t, l, config(host.Stream{}), "a")
	s.rows.SetWake(5, keyspace.WakeExpiry, "s", "")
	s.rows.SetWake(5, keyspace.WakeExpiry, "none", "")
	s.commit()
	for _, name := range []string{"s", "none"} {
		must(t, s.log(begin).Purge(nil, name, 5))
	}
	s.commit()
	w := s.wakes()
	fatalIf(t, len(w) != 0 || s.stored() != 1, "%+v", w)
}

func TestStreamThatTheTypeNoLongerDeclaresIsListed(t *testing.T) {
	s := newStore(t)
	mustAppend(t, s.log(begin), config(host.Stream{Age: time.Minute}), "a")
	all, err := List(s.rows, begin.Add(time.Hour), func(string) *host.Stream { return nil })
	fatalIf(t, err != nil || len(all) != 1 || all[0].Bytes != 1, "%+v, %v", all, err)
}

func TestAppendIsRefusedWithTheFieldAndTheLimit(t *testing.T) {
	l := newStore(t).log(begin)
	for _, c := range []struct {
		items [][]byte
		code  host.Code
		text  string
	}{
		{nil, host.InvalidArgument, "items"},
		{items("four"), host.TooLarge, "limit of 3"},
		{make([][]byte, host.MaxStreamBatch+1), host.TooLarge, "limit of 1000"},
	} {
		_, err := l.Append(config(host.Stream{ItemBytes: 4, Bytes: 3}), "s", c.items)
		errorIf(t, host.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text), "%v", err)
	}
}

// TestAppendThatDoesNotFitLeavesEverythingAsItWas fills the write set at every item of a batch.
func TestAppendThatDoesNotFitLeavesEverythingAsItWas(t *testing.T) {
	s := newStore(t)
	limits := &engine.Limits{MaxWriteSet: 4096}
	limits.EnsureDefaults()
	must(t, s.space.SetLimits(limits))
	cfg := config(host.Stream{Items: 3, Age: time.Hour})
	mustAppend(t, s.log(begin), cfg, "a", "b")
	s.commit()
	item := strings.Repeat("x", 100)
	failed, turn := 0, s.log(begin)
	for range 60 {
		before, keys, size := mustRead(t, s, begin, cfg, 0), s.rows.Keys(), s.rows.Size()
		_, err := turn.Append(cfg, "s", items(item, item))
		if err == nil {
			continue
		}
		failed++
		full := (*engine.LimitError)(nil)
		fatalIf(t, !errors.As(err, &full), "%v", err)
		after := mustRead(t, s, begin, cfg, 0)
		fatalIf(t, fmt.Sprint(after) != fmt.Sprint(before) || s.rows.Keys() != keys || s.rows.Size() != size,
			"an append that failed left %+v of %+v, keys %d of %d, bytes %d of %d", after, before, s.rows.Keys(), keys, s.rows.Size(), size)
	}
	fatalIf(t, failed == 0, "the write set was never full")
	s.commit()
	mustAppend(t, s.log(begin), cfg, "c")
	s.commit()
	n := s.stored()
	fatalIf(t, n != 3, "%v rows are stored", n)
}

func TestDamagedRowsAreErrorsAndNotLoops(t *testing.T) {
	s, cfg := newStore(t), config(host.Stream{})
	l := s.log(begin)
	mustAppend(t, l, cfg, "a", "b")
	s.rows.Delete(keyspace.StreamItem.Append(nil, "s", 1))
	_, err := Read(s.rows, begin, cfg, "s", 0, 0, 0)
	errorIf(t, !errors.Is(err, &engine.CorruptError{}), "%v", err)
	bad := fresh()
	bad.First = 9
	must(t, l.write("s", &bad))
	_, err = l.Append(cfg, "s", items("c"))
	errorIf(t, !errors.Is(err, &engine.CorruptError{}), "%v", err)
}

// BenchmarkAppend appends one item a turn to a stream that is full, so that each append removes an
// item too.
func BenchmarkAppend(b *testing.B) {
	for _, full := range []bool{false, true} {
		b.Run(fmt.Sprintf("full=%v", full), func(b *testing.B) {
			s, cfg := newStore(b), config(host.Stream{})
			if full {
				cfg.Items = 1000
			}
			data := [][]byte{make([]byte, 100)}
			for range 1000 {
				_, err := s.log(begin).Append(cfg, "s", data)
				must(b, err)
			}
			s.commit()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				_, err := s.log(begin).Append(cfg, "s", data)
				must(b, err)
				if i%100 == 99 {
					s.commit()
				}
			}
		})
	}
}

// BenchmarkRead reads a page of 100 items.
func BenchmarkRead(b *testing.B) {
	s, cfg := newStore(b), config(host.Stream{})
	for range 1000 {
		_, err := s.log(begin).Append(cfg, "s", [][]byte{make([]byte, 100)})
		must(b, err)
	}
	s.commit()
	snap := s.store.Snapshot(actorID)
	defer snap.Close()
	b.ReportAllocs()
	for b.Loop() {
		p, err := Read(snap, begin, cfg, "s", 500, 100, 0)
		fatalIf(b, err != nil || len(p.Items) != 100, "%v", err)
	}
}

func FuzzItem(f *testing.F) {
	f.Add(appendItem(nil, &item{time: 1_771_891_200_000, before: 300, data: []byte("data")}))
	f.Add([]byte{1, 0x80})
	f.Fuzz(func(t *testing.T, value []byte) {
		it, err := parseItem(value)
		if err != nil {
			return
		}
		again, err := parseItem(appendItem(nil, &it))
		fatalIf(t, err != nil || again.time != it.time || again.before != it.before ||
			!bytes.Equal(again.data, it.data), "%v %v %v", again, it, err)
	})
}

// metaRows is a stream that consists of a metadata row.
type metaRows struct{ value []byte }

func (r metaRows) Get(key []byte) (engine.Entry, bool, error) {
	if keyspace.Kind(key[0]) == keyspace.Stream.Kind {
		return engine.Entry{Key: key, Value: r.value}, true, nil
	}
	return engine.Entry{}, false, nil
}

func (metaRows) List(engine.ListQuery) (engine.Page, error) { return engine.Page{}, nil }

// FuzzMeta reads streams with random metadata.
func FuzzMeta(f *testing.F) {
	m := fresh()
	for _, m.Next = range []uint64{1, 7} {
		value, err := record.Encode(&m)
		must(f, err)
		f.Add(value, uint64(3))
	}
	cfg := config(host.Stream{Age: 1})
	f.Fuzz(func(t *testing.T, value []byte, after uint64) {
		p, err := Read(metaRows{value}, begin, cfg, "s", after, 0, 0)
		fatalIf(t, err == nil && len(p.Items) > 0, "%v", p)
		Info(metaRows{value}, begin, cfg, "s")
	})
}

func (metaRows) Each(engine.ListQuery, func(*engine.Entry) bool) error { return nil }
