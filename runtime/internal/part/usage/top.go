package usage

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/tally"
)

// Top implements usage.Meter.
func Top(s *kernel.Kernel, q usage.TopQuery) (usage.Top, error) {
	if !slices.Contains(usage.Measures(), q.By) {
		return usage.Top{},
			host.Errorf(host.InvalidArgument, "by is %.40q; it is turns, time, bytes or size",
				string(q.By)).With("field", "by")
	}
	most := cmp.Or(q.Limit, usage.DefaultTop)
	p := kernel.PartOf[*Part](s)
	if p == nil {
		return usage.Top{By: q.By, Actors: []usage.Actor{}}, nil
	}
	passed := min(s.Now()-time.Duration(p.began.Load()), time.Minute)
	h := &ranking{by: q.By}
	s.Each(func(a *kernel.Actor) {
		c := p.metered(a)
		if a.Left() || c == nil {
			return
		}
		r := row{Stored: a.Tally.Size()}.plus(p.lately(c, passed))
		w := r.work()
		n := q.By.Of(&w)
		if n == 0 || len(h.list) == most && n <= q.By.Of(&h.list[0].Work) {
			return
		}
		if len(h.list) == most {
			heap.Pop(h)
		}
		heap.Push(h, usage.Actor{Type: a.Address.Type, Key: a.Address.Key, Work: w})
	})
	slices.SortStableFunc(h.list, func(x, y usage.Actor) int {
		return cmp.Or(cmp.Compare(q.By.Of(&y.Work), q.By.Of(&x.Work)), cmp.Compare(x.Type, y.Type),
			slices.Compare(x.Key, y.Key))
	})
	return usage.Top{By: q.By, Actors: append([]usage.Actor{}, h.list...)}, nil
}

// lately returns the counts of about the last minute: all of this minute, of which passed is over,
// and a share of the minute before.
func (p *Part) lately(c *kernel.Core, passed time.Duration) tally.Totals {
	a := c.Actor
	s := p.shelf(a.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := a.Tally.Totals().Add(s.of(c))
	u := accountOf(a)
	if u == nil || u.last == nil {
		return now
	}
	part := func(n int64) int64 { return int64(float64(n) * (1 - passed.Minutes())) }
	old := *u.last
	return now.Add(tally.Totals{
		Calls: part(old.Calls), Turns: part(old.Turns), Time: time.Duration(part(int64(old.Time))), Written: part(old.Written), Sent: part(old.Sent),
	})
}

// A ranking is a heap of actors; the actor that did least is the first.
type ranking struct {
	by   usage.Measure
	list []usage.Actor
}

// Len implements heap.Interface.
func (h *ranking) Len() int { return len(h.list) }

// Less implements heap.Interface.
func (h *ranking) Less(i, j int) bool { return h.by.Of(&h.list[i].Work) < h.by.Of(&h.list[j].Work) }

// Swap implements heap.Interface.
func (h *ranking) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

// Push implements heap.Interface.
func (h *ranking) Push(x any) { h.list = append(h.list, x.(usage.Actor)) }

// Pop implements heap.Interface.
func (h *ranking) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}
