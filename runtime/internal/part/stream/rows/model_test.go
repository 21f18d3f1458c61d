package streamrows

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

var rounds = flag.Uint64("rounds", 20, "how often the random test runs, each time with another seed")

// model is one stream as a slice, with which the rows must agree.
type model struct {
	items         []modelItem // kept
	next          uint64
	last, updated time.Time
	closed        bool
	listed        bool  // it was appended to or closed, and not deleted since
	wake          int64 // when its row of the wake index is due; 0 for none
}

type modelItem struct {
	seq  uint64
	time time.Time
	data string
}

func (m *model) clone() *model {
	c := *m
	c.items = slices.Clone(m.items)
	return &c
}

func (m *model) bytes() (n int64) {
	for _, it := range m.items {
		n += int64(len(it.data))
	}
	return n
}

// live is the model as of now, without items that are too old.
func (m *model) live(cfg *host.Stream, now time.Time) *model {
	c := m.clone()
	for cfg.Age > 0 && len(c.items) > 0 && !c.items[0].time.Add(cfg.Age).After(now) {
		c.items = c.items[1:]
	}
	return c
}

func (m *model) append(cfg *host.Stream, now time.Time, values []string) {
	if now.After(m.last) {
		m.last = now
	}
	for _, v := range values {
		m.items = append(m.items, modelItem{m.next, m.last, v})
		m.next++
	}
	m.cut(cfg, now)
	if m.listed, m.updated = true, now; m.wake == 0 {
		m.arm(cfg)
	}
}

// arm wakes the actor at the end of the hour in which its oldest item becomes too old.
func (m *model) arm(cfg *host.Stream) {
	if m.wake = 0; cfg.Age > 0 && len(m.items) > 0 {
		m.wake = m.items[0].time.Add(cfg.Age).Truncate(time.Hour).Add(time.Hour).UnixMilli()
	}
}

// cut drops items that the limits do not allow.
func (m *model) cut(cfg *host.Stream, now time.Time) {
	m.items = m.live(cfg, now).items
	for len(m.items) > cfg.Items || m.bytes() > cfg.Bytes {
		m.items = m.items[1:]
	}
}

// check compares what can be read: from every position if all is set, and else from those where
// something begins or ends, and from some others, because reading from each takes the square of the
// stream's length. At the end of a round, all is read.
func (m *model) check(t *testing.T, rows engine.Reader, now time.Time, cfg *host.Stream, r *rand.Rand, all bool) {
	t.Helper()
	live := m.live(cfg, now)
	first := m.next
	if len(live.items) > 0 {
		first = live.items[0].seq
	}
	want := host.StreamInfo{Stream: "s", First: first, Last: m.next - 1, Bytes: live.bytes(), Closed: m.closed, Updated: m.updated}
	info, err := Info(rows, now, cfg, "s")
	fatalIf(t, err != nil || info != want, "%+v, %v, the model says %+v", info, err, want)
	infos, err := List(rows, now, func(string) *host.Stream { return cfg })
	fatalIf(t, err != nil || (len(infos) > 0) != m.listed || m.listed && infos[0] != want,
		"listed are %+v, %v, the model says %v, %+v", infos, err, m.listed, want)
	near := func(after, edge uint64) bool { return after+1 >= edge && after <= edge+1 }
	pages := []struct{ limit, bytes int }{{}, {limit: 3}, {bytes: 1}} // one byte is one item: a page is never empty
	for after := range m.next + 3 {
		if !all && !near(after, 0) && !near(after, first) && !near(after, m.next) && r.Uint64N(m.next) >= 2 {
			continue
		}
		if after == m.next+2 {
			after = math.MaxUint64
		}
		for i, page := range pages {
			if !all && i != r.IntN(3) {
				continue
			}
			p, err := Read(rows, now, cfg, "s", after, page.limit, page.bytes)
			must(t, err)
			at := after
			if at >= m.next {
				at = 0
			}
			missed := max(first, at+1) - 1 - at
			want := slices.Clone(live.items)
			want = slices.DeleteFunc(want, func(it modelItem) bool { return it.seq <= at })
			if most := max(page.limit, page.bytes); most > 0 && len(want) > most {
				want = want[:most]
			}
			next := at + missed + uint64(len(want))
			same := slices.EqualFunc(p.Items, want, func(a host.StreamItem, b modelItem) bool {
				return a.Sequence == b.seq && string(a.Data) == b.data && a.Time.Equal(b.time)
			})
			fatalIf(t, !same || p.Missed != missed || p.Next != next || p.Closed != (m.closed && next == m.next-1) ||
				p.Reset != (after >= m.next),
				"after %d, %+v: %+v, the model says %v, missed %d, next %d", after, page, p, want, missed, next)
		}
	}
}

// TestStreamAgreesWithASlice does random things to a stream and to a slice, with turns that are
// rolled back, power cuts and limits that change, and compares everything that can be read.
func TestStreamAgreesWithASlice(t *testing.T) {
	for seed := range *rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { modelRun(t, seed) })
	}
}

func modelRun(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	configs := []*host.Stream{
		config(host.Stream{}), config(host.Stream{Items: 7}), config(host.Stream{Bytes: 40, ItemBytes: 30}),
		config(host.Stream{Age: time.Minute}), config(host.Stream{Items: 20, Bytes: 100, ItemBytes: 30, Age: 3 * time.Minute}),
	}
	cfg := configs[r.IntN(len(configs))]
	s := open(t, engine.NewDisk())
	defer func() { s.store.Close() }()
	m := &model{next: 1}
	durable, now := m.clone(), begin
	sample, long := rand.New(rand.NewPCG(seed, 2)), os.Getenv("CAIRN_LONG") != ""
	for range 150 {
		switch r.IntN(12) {
		case 0:
			now = now.Add(time.Duration(r.IntN(90)-10) * time.Second)
		case 1:
			now = now.Add(time.Duration(r.IntN(3)) * time.Hour)
		case 2:
			cfg = configs[r.IntN(len(configs))]
		case 3: // a turn that fails
			at := s.rows.Savepoint()
			l := s.log(now)
			l.Append(cfg, "s", items("x", "y"))
			if r.IntN(2) == 0 {
				l.Delete("s")
			} else {
				l.Close("s")
			}
			s.rows.Rollback(at)
		case 4:
			s.commit()
			durable = m.clone()
		case 5: // a power cut
			left := s.disk.Crash(r.Uint64(), 0)
			s.store.Close()
			s, m = open(t, left), durable.clone()
		case 6:
			if r.IntN(4) == 0 {
				ok, err := s.log(now).Close("s")
				fatalIf(t, err != nil || ok == m.closed, "%v %v", ok, err)
				if !m.closed {
					m.closed, m.listed, m.updated = true, true, now
				}
			}
		case 7:
			if r.IntN(4) == 0 {
				n, err := s.log(now).Delete("s")
				fatalIf(t, err != nil || n != int64(len(m.items)), "%v %v %v", n, len(m.items), err)
				if m.items, m.closed = nil, false; m.listed {
					m.listed, m.updated = false, now
				}
			}
		case 8: // due work; a purge cuts items that the limits no longer allow
			s.commit()
			for _, w := range s.wakes() {
				if w.Due <= now.UnixMilli() {
					must(t, s.log(now).Purge(cfg, w.Name, w.Due))
					m.cut(cfg, now)
					m.arm(cfg)
				}
			}
			s.commit()
			durable = m.clone()
			w := s.wakes()
			fatalIf(t, (len(w) > 0) != (m.wake != 0) || len(w) > 0 && (w[0].Due != m.wake || w[0].Name != "s" || len(w) > 1),
				"%+v, the model says %d", w, m.wake)
		default:
			var values []string
			for range 1 + r.IntN(5) {
				values = append(values, strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(25)))
			}
			last, err := s.log(now).Append(cfg, "s", items(values...))
			if m.closed {
				fatalIf(t, host.CodeOf(err) != host.FailedPrecondition, "%v", err)
				continue
			}
			m.append(cfg, now, values)
			fatalIf(t, err != nil || last != m.next-1, "%v %v", last, err)
		}
		m.check(t, s.rows, now, cfg, sample, long)
		if n := s.stored(); n != len(m.items) {
			t.Fatalf("%d rows of items, the model has %d", n, len(m.items))
		}
	}
	s.commit()
	snap := s.store.Snapshot(actorID)
	m.check(t, snap, now, cfg, sample, true)
	snap.Close()
}
