package usage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/tally"
	"github.com/cairn-run/cairn/runtime/internal/record"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Methods implements call.Server.
func (p *Part) Methods() []*call.Method { return []*call.Method{call.Serve(method.UsageGet, get)} }

// get implements usage.get.
func get(s *kernel.Kernel, ctx context.Context, on kernel.Target, in *usage.GetInput) (usage.GetOutput, error) {
	today := usage.DayOf(time.Now())
	from, to, err := days(in, today)
	if err != nil {
		return usage.GetOutput{}, err
	}
	l, err := open(s, on.Addr, func() (*engine.Snapshot, error) {
		snap, _, err := s.Durable(ctx, on.Addr)
		return snap, err
	})
	if err != nil {
		return usage.GetOutput{}, err
	}
	out := usage.GetOutput{Days: []usage.Day{}}
	for day := max(from, l.born); day <= to; day++ {
		out.Days = append(out.Days, usage.Day{Day: usage.FormatDay(day), Work: l.work(day, today)})
	}
	return out, nil
}

// days returns the first and the last day of an input.
func days(in *usage.GetInput, today int64) (from, to int64, err error) {
	from, to = today-usage.Kept+1, today
	if in.From != "" {
		first, err := day(in.From, "from", today)
		if err != nil {
			return 0, 0, err
		}
		from = max(from, first)
	}
	if in.To != "" {
		if to, err = day(in.To, "to", today); err != nil {
			return 0, 0, err
		}
	}
	if in.From != "" && in.To != "" && in.To < in.From {
		return 0, 0, host.Errorf(host.InvalidArgument, "the last day is before the first").With("field", "to")
	}
	return from, to, nil
}

// day reads a day that is not in the future.
func day(text, field string, today int64) (int64, error) {
	n, err := usage.ParseDay(text)
	if err != nil {
		return 0, host.Errorf(host.InvalidArgument, "%s is %.40q; it is a day such as 2026-11-27",
			field, text).With("field", field)
	}
	if n > today {
		return 0, host.Errorf(host.InvalidArgument, "the day %s is to come", text).With("field", field)
	}
	return n, nil
}

// A sight is the counts of an actor that the store may not have.
type sight struct {
	core   *kernel.Core // nil if it is not awake and counted
	writes int          // of the shelf
	more   tally.Totals // counts that are in no row
}

// look returns the counts of an actor that are in no row.
func (p *Part) look(addr host.Address) sight {
	key := string(address.Append(nil, addr))
	s := p.shelf(key)
	a := p.k.Find(addr)
	c := p.metered(a) // which locks the actor: that comes before the shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	for now := p.k.Find(addr); now != a; now = p.k.Find(addr) { // it left memory, or came, and took the counts with it
		a = now
		s.mu.Unlock()
		c = p.metered(a)
		s.mu.Lock()
	}
	more := s.resting[key].Totals
	if c != nil {
		more = s.of(c)
	}
	if a != nil && !p.Off { // the counts of a core that is about to close are still in the tally
		more = more.Add(a.Tally.Totals())
	}
	return sight{c, s.writes, more}
}

// goesWith reports whether none of the rows of a snapshot, taken since a look, has the counts of
// that look.
func (v sight) goesWith(p *Part, addr host.Address) bool {
	now := p.look(addr)
	return now.writes == v.writes && now.core == v.core
}

// A ledger is the counts of an actor: its rows, and the counts that are in no row.
type ledger struct {
	days         []int64
	rows         []row
	born, stored int64 // the day of its creation, and its present size
	more         tally.Totals
}

// maxTries is how often a ledger is read again because it was written meanwhile.
const maxTries = 10

// open reads the ledger of an actor from a snapshot, and its counts in memory.
func open(s *kernel.Kernel, addr host.Address, snapshot func() (*engine.Snapshot, error)) (l ledger, err error) {
	p := kernel.PartOf[*Part](s)
	for range maxTries {
		live := p.look(addr) // before the snapshot
		snap, err := snapshot()
		if err != nil {
			return ledger{}, err
		}
		l, err := read(snap)
		snap.Close()
		if err != nil {
			return ledger{}, s.StoreError(err)
		}
		if live.goesWith(p, addr) {
			l.more = live.more
			return l, nil
		}
	}
	return ledger{}, host.Errorf(host.Unavailable, "the usage of the actor is being written").Retry()
}

// read reads the rows of an actor. It leaves out a damaged row, and one of a future day: the clock
// was ahead when that was written.
func read(r *engine.Snapshot) (l ledger, err error) {
	head, err := r.Head()
	if err != nil {
		return l, err
	}
	today := usage.DayOf(time.Now())
	l.born, l.stored = min(usage.DayOf(time.UnixMilli(head.Created)), today), head.Bytes
	start, _ := keyspace.Usage.Range()
	err = r.Scan(start, keyspace.Usage.Append(nil, uint64(today+1)), func(key, value []byte) bool {
		var one row
		if day, err := keyspace.Usage.Parse(key); err == nil && record.Decode(value, &one) == nil {
			l.days, l.rows = append(l.days, int64(day)), append(l.rows, one)
		}
		return true
	})
	return l, err
}

// work returns the usage of an actor on a day. On a day without a row it did nothing, and its size
// is that before the next row or after the last one.
func (l *ledger) work(day, today int64) usage.Work {
	r := row{Stored: l.stored}
	switch i, found := slices.BinarySearch(l.days, day); {
	case found:
		r = l.rows[i]
	case i < len(l.days):
		r.Stored = l.rows[i].Before
	case i > 0:
		r.Stored = l.rows[i-1].Stored
	}
	if day == today {
		r = r.plus(l.more)
		r.Stored = l.stored
	}
	return r.work()
}

func (r *row) work() usage.Work {
	return usage.Work{
		Calls: r.Calls, Turns: r.Turns, HandlerUS: r.Time / int64(time.Microsecond), BytesWritten: r.Written, BytesSent: r.Sent, BytesStored: r.Stored,
	}
}

// Usage implements usage.Meter.
func Usage(s *kernel.Kernel, ctx context.Context, q usage.Query) (usage.Page, error) {
	today := usage.DayOf(time.Now())
	on := today
	of, cursor, pages := strings.Cut(q.Cursor, ".")
	switch {
	case !pages && q.Cursor != "", q.Day != "" && pages && q.Day != of:
		return usage.Page{},
			host.Errorf(host.InvalidArgument, "the cursor is not of an earlier page of this day").
				With("field", "cursor")
	case pages: // even if the day is over by now
		q.Day = of
	}
	if q.Day != "" {
		var err error
		if on, err = day(q.Day, "day", today); err != nil {
			return usage.Page{}, err
		}
		if on <= today-usage.Kept {
			return usage.Page{},
				host.Errorf(host.InvalidArgument, "the day %s is no longer kept; %d days are",
					q.Day, usage.Kept).With("field", "day")
		}
	}
	page, err := survey.List(s, ctx,
		host.ListQuery{Type: q.Type, Prefix: q.Prefix, Limit: cmp.Or(q.Limit, usage.DefaultPage),
			Cursor: cursor, Brief: true})
	if err != nil {
		return usage.Page{}, err
	}
	out := usage.Page{Day: usage.FormatDay(on), Actors: []usage.Actor{}, Uncertain: page.Uncertain}
	if page.Cursor != "" {
		out.Cursor = out.Day + "." + page.Cursor
	}
	for i := range page.Actors {
		if ctx.Err() != nil {
			return usage.Page{}, fault.Ended(ctx)
		}
		addr := host.Address{Type: page.Actors[i].Type, Key: page.Actors[i].Key}
		l, err := open(s, addr, func() (*engine.Snapshot, error) {
			id, ok, err := s.Store.Lookup(s.Identity(addr))
			if err != nil {
				return nil, s.StoreError(err)
			}
			if !ok {
				return nil, fault.NotFound(addr)
			}
			return s.Store.Snapshot(id), nil
		})
		switch {
		case host.CodeOf(err) == host.NotFound: // destroyed meanwhile
		case err != nil:
			return usage.Page{}, err
		case l.born <= on:
			out.Actors = append(out.Actors, usage.Actor{Type: addr.Type, Key: addr.Key, Work: l.work(on, today)})
		}
	}
	return out, nil
}
