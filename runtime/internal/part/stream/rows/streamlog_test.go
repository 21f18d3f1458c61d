package streamrows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

func mustAppend(t testing.TB, l *Log, cfg *host.Stream, values ...string) uint64 {
	t.Helper()
	last, err := l.Append(cfg, "s", items(values...))
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func mustRead(t testing.TB, s *actorStore, now time.Time, cfg *host.Stream, after uint64) host.StreamPage {
	t.Helper()
	p, err := Read(s.rows, now, cfg, "s", after, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustInfo(t testing.TB, s *actorStore, now time.Time, cfg *host.Stream) host.StreamInfo {
	t.Helper()
	i, err := Info(s.rows, now, cfg, "s")
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestItemsAreReadInOrderFromAnyPosition(t *testing.T) {
	s, cfg := newStore(t), config(host.Stream{})
	l := s.log(begin)
	mustAppend(t, l, cfg, "a", "b")
	if last := mustAppend(t, l, cfg, "c"); last != 3 {
		t.Fatal(last)
	}
	for after, want := range [][]string{{"a", "b", "c"}, {"b", "c"}, {"c"}, {}} {
		p := mustRead(t, s, begin, cfg, uint64(after))
		if !slices.Equal(values(p), want) || p.Next != 3 || p.Missed != 0 || p.Closed {
			t.Errorf("after %d: %q, %+v", after, values(p), p)
		}
	}
	p, err := Read(s.rows, begin, cfg, "s", 0, 2, 0)
	if err != nil || !slices.Equal(values(p), []string{"a", "b"}) || p.Next != 2 {
		t.Errorf("limit 2: %+v, %v", p, err)
	}
	if p, err = Read(s.rows, begin, cfg, "s", 0, 0, 1); err != nil || len(p.Items) != 1 || p.Next != 1 {
		t.Errorf("one byte: %+v, %v", p, err)
	}
	if i := mustInfo(t, s, begin, cfg); i.First != 1 || i.Last != 3 || i.Bytes != 3 || !i.Updated.Equal(begin) {
		t.Errorf("%+v", i)
	}
}

func TestClosedStreamTakesNoItemsAndReadersLearnItsEnd(t *testing.T) {
	s, cfg := newStore(t), config(host.Stream{})
	l := s.log(begin)
	mustAppend(t, l, cfg, "a", "b")
	for _, want := range []bool{true, false} {
		if ok, err := l.Close("s"); ok != want || err != nil {
			t.Fatal(ok, err)
		}
	}
	if _, err := l.Append(cfg, "s", items("c")); host.CodeOf(err) != host.FailedPrecondition {
		t.Fatal(err)
	}
	for after, closed := range []bool{true, true, true} {
		if p := mustRead(t, s, begin, cfg, uint64(after)); p.Closed != closed {
			t.Errorf("after %d: %+v", after, p)
		}
	}
	if p, _ := Read(s.rows, begin, cfg, "s", 0, 1, 0); p.Closed {
		t.Error("a page that ends before the last item says that the stream has ended")
	}
	if ok, err := l.Close("never appended to"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if p, err := Read(s.rows, begin, cfg, "never appended to", 0, 0, 0); err != nil || !p.Closed {
		t.Fatal(p, err)
	}
}

func TestPositionNeverComesToMeanAnotherItem(t *testing.T) {
	s, cfg := newStore(t), config(host.Stream{})
	l := s.log(begin)
	mustAppend(t, l, cfg, "a", "b", "c")
	l.Close("s")
	if n, err := l.Delete("s"); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if all, err := List(s.rows, begin, func(string) *host.Stream { return cfg }); err != nil || len(all) != 0 {
		t.Fatal("a deleted stream is listed", all, err)
	}
	if i := mustInfo(t, s, begin, cfg); i.First != 4 || i.Last != 3 || i.Bytes != 0 || i.Closed {
		t.Fatalf("%+v", i)
	}
	if last := mustAppend(t, l, cfg, "d"); last != 4 {
		t.Fatal(last)
	}
	if p := mustRead(t, s, begin, cfg, 1); p.Missed != 2 || !slices.Equal(values(p), []string{"d"}) {
		t.Fatalf("%+v", p)
	}
	if all, err := List(s.rows, begin, func(string) *host.Stream { return nil }); err != nil || len(all) != 1 || all[0].First != 4 {
		t.Fatal(all, err)
	}
	if n, err := l.Delete("none"); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

func TestPositionOfAnotherIncarnationReadsFromTheBeginning(t *testing.T) {
	s, cfg := newStore(t), config(host.Stream{Items: 2})
	// Before there is anything, the reader is told where it is: items that come later must not be passed over.
	if p := mustRead(t, s, begin, cfg, 2); p.Next != 0 || p.Missed != 0 {
		t.Fatalf("%+v", p)
	}
	mustAppend(t, s.log(begin), cfg, "a", "b", "c", "d")
	if p := mustRead(t, s, begin, cfg, 17); p.Missed != 2 || !slices.Equal(values(p), []string{"c", "d"}) || p.Next != 4 {
		t.Fatalf("%+v", p)
	}
	if p := mustRead(t, s, begin, cfg, 1<<64-1); p.Missed != 2 || p.Next != 4 {
		t.Fatalf("%+v", p)
	}
}

func TestOldestItemsGoFirstWhateverTheLimitIs(t *testing.T) {
	for name, cfg := range map[string]*host.Stream{
		"items": config(host.Stream{Items: 3}),
		"bytes": config(host.Stream{Bytes: 6, ItemBytes: 4}),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			for i := range 50 {
				now := begin.Add(time.Duration(i) * time.Second)
				mustAppend(t, s.log(now), cfg, fmt.Sprintf("%02d", i))
				if i%7 == 0 {
					s.commit()
				}
				p, info := mustRead(t, s, now, cfg, 0), mustInfo(t, s, now, cfg)
				if want := min(i+1, 3); len(p.Items) != want || s.stored() != want || info.Bytes != int64(2*want) {
					t.Fatalf("after %d: %d items, %d rows, %+v", i+1, len(p.Items), s.stored(), info)
				}
				if want := uint64(max(i-2, 0)); p.Missed != want || info.First != want+1 {
					t.Fatalf("after %d: missed %d, %+v", i+1, p.Missed, info)
				}
			}
		})
	}
}

func TestBatchLargerThanTheStreamKeepsItsEnd(t *testing.T) {
	s, cfg := newStore(t), config(host.Stream{Items: 2})
	mustAppend(t, s.log(begin), cfg, "a", "b", "c", "d", "e")
	if p := mustRead(t, s, begin, cfg, 0); p.Missed != 3 || !slices.Equal(values(p), []string{"d", "e"}) {
		t.Fatalf("%+v", p)
	}
	if n := s.stored(); n != 2 {
		t.Fatal(n, "rows")
	}
}

func TestItemsThatAreTooOldAreNeverReadAndRemovedLater(t *testing.T) {
	s, cfg := newStore(t), config(host.Stream{Age: time.Minute})
	mustAppend(t, s.log(begin), cfg, "a", "bb")
	mustAppend(t, s.log(begin.Add(30*time.Second)), cfg, "ccc")
	s.commit()
	for _, c := range []struct {
		after time.Duration
		want  []string
		bytes int64
	}{
		{59 * time.Second, []string{"a", "bb", "ccc"}, 6}, {time.Minute, []string{"ccc"}, 3}, {90 * time.Second, []string{}, 0}, {time.Hour, []string{}, 0},
	} {
		now := begin.Add(c.after)
		p, info := mustRead(t, s, now, cfg, 0), mustInfo(t, s, now, cfg)
		if !slices.Equal(values(p), c.want) || info.Bytes != c.bytes || p.Next != 3 || info.Last != 3 || info.First != 4-uint64(len(c.want)) {
			t.Errorf("after %v: %q, %+v, %+v", c.after, values(p), p, info)
		}
	}
	if s.stored() != 3 {
		t.Fatal("reading removed rows")
	}
	w := s.wakes()
	if len(w) != 1 || w[0].Kind != keyspace.WakeExpiry || w[0].Name != "s" {
		t.Fatalf("%+v", w)
	}
	now := time.UnixMilli(w[0].Due)
	if now.Before(begin.Add(time.Minute)) || now.After(begin.Add(2*time.Hour)) {
		t.Fatal(now)
	}
	if err := s.log(now).Purge(cfg, "s", w[0].Due); err != nil {
		t.Fatal(err)
	}
	s.commit()
	if s.stored() != 0 || len(s.wakes()) != 0 {
		t.Fatal(s.stored(), s.wakes())
	}
	if last := mustAppend(t, s.log(now), cfg, "d"); last != 4 {
		t.Fatal(last)
	}
}

func TestLoweredLimitIsInForceAtOnceAndRowsGoABitAtATime(t *testing.T) {
	s := newStore(t)
	wide, narrow := config(host.Stream{}), config(host.Stream{Items: 10})
	batch := make([][]byte, host.MaxStreamBatch)
	for i := range batch {
		batch[i] = []byte("x")
	}
	for range 15 {
		if _, err := s.log(begin).Append(wide, "s", batch); err != nil {
			t.Fatal(err)
		}
		s.commit()
	}
	mustAppend(t, s.log(begin), narrow, "y")
	s.commit()
	if i := mustInfo(t, s, begin, narrow); i.Last-i.First != 9 || i.Bytes != 10 {
		t.Fatalf("%+v", i)
	}
	if n := s.stored(); n != 15_001-removeMost-1 {
		t.Fatal(n, "rows are left")
	}
	turns := 0
	for ; len(s.wakes()) > 0; turns++ {
		w := s.wakes()
		if len(w) != 1 {
			t.Fatalf("%+v", w)
		}
		before := s.stored()
		if err := s.log(begin).Purge(narrow, "s", w[0].Due); err != nil {
			t.Fatal(err)
		}
		s.commit()
		if before-s.stored() > purgeMost {
			t.Fatal("one turn removed", before-s.stored())
		}
	}
	if turns != 2 || s.stored() != 10 {
		t.Fatal(turns, s.stored())
	}
}

func TestRowOfTheWakeIndexThatIsOutOfDateIsRemoved(t *testing.T) {
	s := newStore(t)
	l := s.log(begin)
	mustAppend(t, l, config(host.Stream{}), "a")
	s.rows.SetWake(5, keyspace.WakeExpiry, "s", "")
	s.rows.SetWake(5, keyspace.WakeExpiry, "none", "")
	s.commit()
	for _, name := range []string{"s", "none"} {
		if err := s.log(begin).Purge(nil, name, 5); err != nil {
			t.Fatal(err)
		}
	}
	s.commit()
	if w := s.wakes(); len(w) != 0 || s.stored() != 1 {
		t.Fatalf("%+v", w)
	}
}

func TestAppendIsRefusedWithTheFieldAndTheLimit(t *testing.T) {
	s := newStore(t)
	l := s.log(begin)
	cfg := config(host.Stream{ItemBytes: 4, Bytes: 3})
	for _, c := range []struct {
		items [][]byte
		code  host.Code
		text  string
	}{
		{nil, host.InvalidArgument, "items"},
		{items("four"), host.TooLarge, "limit of 3"},
		{make([][]byte, host.MaxStreamBatch+1), host.TooLarge, "limit of 1000"},
	} {
		if _, err := l.Append(cfg, "s", c.items); host.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Error(err)
		}
	}
}

// TestAppendThatDoesNotFitLeavesEverythingAsItWas lets the write set be full at every item of a batch.
func TestAppendThatDoesNotFitLeavesEverythingAsItWas(t *testing.T) {
	s := newStore(t)
	limits := &engine.Limits{MaxWriteSet: 4096}
	limits.EnsureDefaults()
	if err := s.space.SetLimits(limits); err != nil {
		t.Fatal(err)
	}
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
		if full := (*engine.LimitError)(nil); !errors.As(err, &full) {
			t.Fatal(err)
		}
		after := mustRead(t, s, begin, cfg, 0)
		if fmt.Sprint(after) != fmt.Sprint(before) || s.rows.Keys() != keys || s.rows.Size() != size {
			t.Fatalf("an append that failed left %+v of %+v, keys %d of %d, bytes %d of %d", after, before, s.rows.Keys(), keys, s.rows.Size(), size)
		}
	}
	if failed == 0 {
		t.Fatal("the write set was never full")
	}
	s.commit()
	mustAppend(t, s.log(begin), cfg, "c")
	s.commit()
	if n := s.stored(); n != 3 {
		t.Fatal(n, "rows are stored")
	}
}

func TestItemsKeepTheirOrderWhenTheClockIsSetBack(t *testing.T) {
	s, cfg := newStore(t), config(host.Stream{Age: time.Hour})
	mustAppend(t, s.log(begin), cfg, "a")
	mustAppend(t, s.log(begin.Add(-30*time.Minute)), cfg, "b")
	p := mustRead(t, s, begin.Add(59*time.Minute), cfg, 0)
	if !slices.Equal(values(p), []string{"a", "b"}) || p.Items[1].Time.Before(p.Items[0].Time) {
		t.Fatalf("%+v", p)
	}
}

func TestDamagedRowsAreErrorsAndNotLoops(t *testing.T) {
	s, cfg := newStore(t), config(host.Stream{})
	l := s.log(begin)
	mustAppend(t, l, cfg, "a", "b")
	s.rows.Delete(keyspace.StreamItem.Append(nil, "s", 1))
	if _, err := Read(s.rows, begin, cfg, "s", 0, 0, 0); !errors.Is(err, &engine.CorruptError{}) {
		t.Error(err)
	}
	bad := fresh()
	bad.First = 9
	if err := l.write("s", &bad); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(cfg, "s", items("c")); !errors.Is(err, &engine.CorruptError{}) {
		t.Error(err)
	}
}
