// Package usage counts what actors do: by day, in their keyspaces, and in the last minute, in
// memory.
package usage

import (
	"bytes"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/tally"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A Part writes the counts of the kernel's tallies.
//
//  1. What was counted is in one place: in the tally, on the shelf of the actor, or in the row of
//     the day. It moves from one to the other while the shelf is locked.
//  2. The rows are written every minute, and when the node stops in order; if many actors sleep,
//     their rows are written earlier. They are written aside: with a sync some seconds later, and
//     for no quota. So a crash loses the counts of the last minute or so.
//  3. Counts over midnight are of the day on which they are written.
type Part struct {
	// Off counts nothing.
	Off bool

	k       *kernel.Kernel
	meter   meter
	armed   atomic.Bool  // the next minute is scheduled
	began   atomic.Int64 // when this minute began, as Kernel.Now returned it
	seed    maphash.Seed
	shelves [64]shelf
}

// A shelf keeps the counts of some actors.
type shelf struct {
	mu     sync.Mutex
	writes int // how often rows were written
	// resting has the counts of sleeping actors that are in no row, by their keys. They stay if the
	// actor wakes. Of an awake actor it has the counts that could not be written.
	resting map[string]rest
	full    int // how many are too many
}

// A rest is the counts of a life of an actor until it fell asleep.
type rest struct {
	id keyspace.ActorID
	tally.Totals
}

// maxResting is of how many sleeping actors a shelf keeps counts that are in no row.
const maxResting = 128

var (
	_ kernel.Opener   = (*Part)(nil)
	_ kernel.Preparer = (*Part)(nil)
	_ kernel.Riser    = (*Part)(nil)
	_ kernel.Facet    = (*meter)(nil)
)

// Name implements kernel.Part.
func (*Part) Name() string { return "usage" }

// Open implements kernel.Opener.
func (p *Part) Open(k *kernel.Kernel) error {
	p.k, p.meter.p, p.seed = k, p, maphash.MakeSeed()
	return nil
}

// Close implements kernel.Opener.
func (p *Part) Close(*kernel.Kernel) error {
	p.writeResting()
	return nil
}

// Stale implements kernel.Preparer.
func (*Part) Stale(*kernel.Core) (bool, error) { return false, nil }

// Prepare implements kernel.Preparer: an actor is created.
func (p *Part) Prepare(t *kernel.Turn) error { return p.Risen(t.Core) }

// Risen implements kernel.Riser.
func (p *Part) Risen(c *kernel.Core) error {
	if p.Off {
		return nil
	}
	attach.Make(&c.Attached, func() *meter { return &p.meter })
	c.Actor.Tally.SetSize(c.Rows.Size())
	p.arm()
	return nil
}

// take removes and returns the kept counts of a core's life. Counts of a life before it are
// dropped: that life is destroyed.
//
// REQUIRES: s.mu
func (s *shelf) take(c *kernel.Core) tally.Totals {
	more := s.of(c)
	delete(s.resting, c.Actor.Key)
	return more
}

// keep keeps the counts of a core's life, in place of the kept ones.
//
// REQUIRES: s.mu
func (s *shelf) keep(c *kernel.Core, counted tally.Totals) {
	if s.resting == nil {
		s.resting, s.full = make(map[string]rest), maxResting
	}
	s.resting[c.Actor.Key] = rest{c.ID, counted}
}

// of returns the kept counts of a core's life.
//
// REQUIRES: s.mu
func (s *shelf) of(c *kernel.Core) tally.Totals {
	r := s.resting[c.Actor.Key]
	if r.id != c.ID {
		return tally.Totals{}
	}
	return r.Totals
}

// shelf returns the shelf of an actor's key.
func (p *Part) shelf(key string) *shelf {
	return &p.shelves[maphash.String(p.seed, key)%uint64(len(p.shelves))]
}

// arm begins a minute, if none has begun.
func (p *Part) arm() {
	if !p.armed.Load() && p.armed.CompareAndSwap(false, true) {
		p.began.Store(int64(p.k.Now()))
		p.k.Later(time.Minute, p.minute)
	}
}

// minute writes the counts of the last minute, and begins another one if actors are in memory.
func (p *Part) minute() {
	p.began.Store(int64(p.k.Now()))
	some := p.writeResting()
	p.k.Each(func(a *kernel.Actor) {
		if c := p.metered(a); c != nil {
			some = true
			p.turn(c)
		}
	})
	if !some {
		p.armed.Store(false)
		some = p.rests() // an actor that came, or fell asleep, after the look found it armed
		p.k.Each(func(a *kernel.Actor) { some = some || p.metered(a) != nil })
		if !some || !p.armed.CompareAndSwap(false, true) {
			return
		}
	}
	p.k.Later(time.Minute, p.minute)
}

// metered returns the core of an actor that is counted; nil if it is not awake, or not in memory.
func (p *Part) metered(a *kernel.Actor) *kernel.Core {
	if a == nil {
		return nil
	}
	c := a.Waking()
	if c == nil || attach.Get[*meter](&c.Attached) == nil {
		return nil
	}
	return c
}

// rests reports whether counts of sleeping actors are kept.
func (p *Part) rests() (some bool) {
	for i := range p.shelves {
		s := &p.shelves[i]
		s.mu.Lock()
		some = some || len(s.resting) > 0
		s.mu.Unlock()
	}
	return some
}

// writeResting writes the rows of sleeping actors. It reports whether something is left.
func (p *Part) writeResting() (left bool) {
	for i := range p.shelves {
		s := &p.shelves[i]
		s.mu.Lock()
		p.write(s)
		s.mu.Unlock()
	}
	return p.rests()
}

// write writes the rows of the actors on a shelf. Counts of an actor that is awake again stay.
// While the disk is full all counts stay, up to a bound. Other counts that cannot be written are
// lost, as are those of destroyed actors.
//
// REQUIRES: s.mu
func (p *Part) write(s *shelf) {
	if len(s.resting) == 0 {
		return
	}
	keys, ids := make([]string, 0, len(s.resting)), make([]keyspace.ActorID, 0, len(s.resting))
	for key, r := range s.resting {
		keys, ids = append(keys, key), append(ids, r.id)
	}
	s.writes++
	day := usage.DayOf(time.Now())
	open, err := p.k.Store.AsideOf(ids,
		func(i int, w *engine.Aside) error { return add(w, day, s.resting[keys[i]].Totals) })
	if errors.Is(err, engine.ErrDiskFull) && len(s.resting) < 8*maxResting {
		s.full = len(s.resting) + maxResting
		return
	}
	if err != nil && !expected(err) {
		p.k.Logger.Warn("usage was not stored", "actors", len(ids)-len(open), "error", err)
	}
	left := make(map[string]rest, len(open)) // a map does not shrink
	for _, i := range open {
		left[keys[i]] = s.resting[keys[i]]
	}
	s.resting, s.full = left, len(left)+maxResting
}

// expected reports whether an error need not be logged.
func expected(err error) bool {
	return errors.Is(err, engine.ErrDestroyed) || errors.Is(err, engine.ErrNotAside) ||
		errors.Is(err, engine.ErrClosed) ||
		errors.Is(err, engine.ErrFenced) || errors.Is(err, engine.ErrReadOnly) || errors.Is(err, engine.ErrDiskFull)
}

// A meter is the facet of the actors that are counted. One serves them all.
type meter struct{ p *Part }

// Forget implements kernel.Facet.
func (*meter) Forget(*kernel.Core, engine.Version) {}

// Close implements kernel.Facet: counts that are in no row wait for the end of the minute.
func (m *meter) Close(c *kernel.Core) {
	p, key := m.p, c.Actor.Key
	s := p.shelf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if more := c.Actor.Tally.Take(); more != (tally.Totals{}) {
		if s.keep(c, more.Add(s.of(c))); len(s.resting) >= s.full {
			p.write(s)
		}
		p.arm()
	}
}

// Abandon implements kernel.Facet. It comes before the core is fenced: the row is written at once,
// because the core may stay open.
func (m *meter) Abandon(c *kernel.Core) {
	s := m.p.shelf(c.Actor.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.p.flush(s, c)
}

// An account has the counts of an actor that was in memory when a minute ended. It is guarded by
// the actor's shelf.
type account struct {
	last *tally.Totals // the counts of the minute before this one; nil if there are none
}

// accountOf returns the account of an actor; nil if it has none.
func accountOf(a *kernel.Actor) *account {
	if a == nil {
		return nil
	}
	return attach.Get[*account](&a.Attached)
}

// A row is what an actor did on a day.
type row struct {
	_                                 struct{} `cbor:",toarray"`
	Calls, Turns, Time, Written, Sent int64
	// Stored is the size of its store when the row was written, and Before the size at the end of
	// the day before.
	Stored, Before int64
}

// plus returns the row with the counts since it was written.
func (r row) plus(t tally.Totals) row {
	r.Calls, r.Turns, r.Time, r.Written, r.Sent = r.Calls+t.Calls, r.Turns+t.Turns,
		r.Time+int64(t.Time), r.Written+t.Written, r.Sent+t.Sent
	return r
}

// turn begins a minute, unless the core is over: then its facet keeps the counts, and newer ones
// may be of a successor.
func (p *Part) turn(c *kernel.Core) {
	s := p.shelf(c.Actor.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.Attached.Ended.Load() {
		p.flush(s, c)
	}
}

// flush writes the row of the day if something was counted. If it cannot, it is tried again.
//
// REQUIRES: s.mu
func (p *Part) flush(s *shelf, c *kernel.Core) {
	now := c.Actor.Tally.Take().Add(s.take(c))
	if now == (tally.Totals{}) {
		if u := accountOf(c.Actor); u != nil {
			u.last = nil
		}
		return
	}
	attach.Make(&c.Actor.Attached, func() *account { return new(account) }).last = &now
	s.writes++
	err := c.Aside(func(w *engine.Aside) error { return add(w, usage.DayOf(time.Now()), now) })
	if err != nil && !errors.Is(err, engine.ErrDestroyed) { // a successor begins with nothing
		s.keep(c, now)
	}
}

// add adds to the row of a day.
func add(w *engine.Aside, day int64, more tally.Totals) error {
	next, err := begin(w, day)
	if err != nil {
		return err
	}
	next = next.plus(more)
	next.Stored, _ = w.Size()
	value, err := record.Encode(&next)
	if err != nil {
		return err
	}
	return w.Put(keyspace.Usage.Append(nil, uint64(day)), value)
}

// begin returns the stored row of a day. If there is none it removes the oldest rows, so that a new
// one exceeds no bound. It does not go by their days: a clock that is far ahead for a while would
// remove all.
func begin(w *engine.Aside, day int64) (row, error) {
	key := keyspace.Usage.Append(nil, uint64(day))
	if value, ok, err := w.AppendValue(nil, key); err != nil {
		return row{}, err
	} else if ok {
		var r row
		if record.Decode(value, &r) == nil {
			return r, nil
		} // else it is damaged, and written anew
	}
	size, created := w.Size()
	born := usage.DayOf(time.UnixMilli(created))
	if born == day { // there are no other rows
		return row{}, nil
	}
	var last row
	var keys [][]byte
	some := false
	start, _ := keyspace.Usage.Range()
	if err := w.Scan(start, key, func(k, value []byte) bool {
		keys = append(keys, bytes.Clone(k))
		some = record.Decode(value, &last) == nil || some
		return true
	}); err != nil {
		return row{}, err
	}
	r := row{Before: last.Stored}
	if !some && born < day {
		r.Before = size // it did nothing since it was counted
	}
	if len(keys) >= usage.Kept {
		return r, w.DeleteRange(start, keys[len(keys)-usage.Kept+1])
	}
	return r, nil
}
