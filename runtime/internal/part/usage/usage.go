// Package usage counts what actors do: by day, in their keyspaces, and in the last minute, in memory.
package usage

import (
	"bytes"
	"errors"
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

// A Part writes what the kernel's tallies have counted.
//
//  1. Each actor in memory has an account, which remembers how much of its tally is in the row of the day.
//  2. The row is written every minute in which the actor did something, and before it leaves memory. It is written aside: with a
//     sync some seconds later, and for no quota. So a crash loses what was counted in the last minute or so.
//  3. What is counted over midnight is of the day on which it is written.
type Part struct {
	// Off counts nothing.
	Off bool

	k     *kernel.Kernel
	armed atomic.Bool  // the next minute will be told
	began atomic.Int64 // when this minute began, as Kernel.Now has it
}

var (
	_ kernel.Opener   = (*Part)(nil)
	_ kernel.Preparer = (*Part)(nil)
	_ kernel.Riser    = (*Part)(nil)
)

// Name implements kernel.Part.
func (*Part) Name() string { return "usage" }

// Open implements kernel.Opener.
func (p *Part) Open(k *kernel.Kernel) error {
	p.k = k
	return nil
}

// Close implements kernel.Opener.
func (*Part) Close(*kernel.Kernel) error { return nil }

// Stale implements kernel.Preparer.
func (*Part) Stale(*kernel.Core) (bool, error) { return false, nil }

// Prepare implements kernel.Preparer: an actor comes into being.
func (p *Part) Prepare(t *kernel.Turn) error { return p.Risen(t.Core) }

// Risen implements kernel.Riser.
func (p *Part) Risen(c *kernel.Core) error {
	if p.Off {
		return nil
	}
	a := attach.Make(&c.Actor.Attached, func() *account { return &account{p: p, a: c.Actor} })
	attach.Make(&c.Attached, func() *account { return a })
	c.Actor.Tally.SetSize(c.Rows.Size())
	if !p.armed.Load() && p.armed.CompareAndSwap(false, true) {
		p.began.Store(int64(p.k.Now()))
		p.k.Later(time.Minute, p.minute)
	}
	return nil
}

// minute writes what was counted in the last minute, and begins another one if actors are in memory.
func (p *Part) minute() {
	p.began.Store(int64(p.k.Now()))
	some := false
	p.k.Each(func(a *kernel.Actor) {
		if u := accountOf(a); u != nil {
			some = true
			u.turn()
			if c := a.Waking(); c != nil {
				u.save(c)
			}
		}
	})
	if !some {
		p.armed.Store(false)
		p.k.Each(func(a *kernel.Actor) { some = some || accountOf(a) != nil }) // one that came after the look, and found it armed
		if !some || !p.armed.CompareAndSwap(false, true) {
			return
		}
	}
	p.k.Later(time.Minute, p.minute)
}

// An account is what is remembered of an actor's tally. It is attached to the actor, and to its core as a facet.
type account struct {
	p *Part
	a *kernel.Actor

	mu     sync.Mutex
	writes int   // how often a row was written
	past   *past // nil at first, and so for an actor that is in memory for less than a minute
}

// past is what a tally was.
type past struct {
	saved        tally.Totals // which rows have
	last, before tally.Totals // until this minute began, and until the one before it did
}

// then returns what the tally was.
//
// REQUIRES: u.mu
func (u *account) then() past {
	if u.past == nil {
		return past{}
	}
	return *u.past
}

// keep sets what the tally was.
//
// REQUIRES: u.mu
func (u *account) keep(now past) {
	if u.past == nil {
		u.past = new(past)
	}
	*u.past = now
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
	// Stored is what it had stored when the row was written, and Before what it had at the end of the day before.
	Stored, Before int64
}

// plus returns the row with what was counted since it was written.
func (r row) plus(t tally.Totals) row {
	r.Calls, r.Turns, r.Time, r.Written, r.Sent = r.Calls+t.Calls, r.Turns+t.Turns, r.Time+int64(t.Time), r.Written+t.Written, r.Sent+t.Sent
	return r
}

// turn begins a minute.
func (u *account) turn() {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.then()
	was.last, was.before = u.a.Tally.Totals(), was.last
	u.keep(was)
}

// save writes the row of the day, if something was counted. If it cannot, it is tried again.
func (u *account) save(c *kernel.Core) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.a.Tally.Totals()
	more := now.Sub(u.then().saved)
	if more == (tally.Totals{}) {
		return nil
	}
	err := c.Aside(func(w *engine.Aside) (err error) {
		day := usage.DayOf(time.Now())
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
	})
	if err == nil || errors.Is(err, engine.ErrDestroyed) { // a successor begins with nothing
		was := u.then()
		was.saved = now
		u.keep(was)
		u.writes++
	}
	return err
}

// begin returns the row of a day, as it is stored. If there is none it removes the oldest rows, so that no more are left than are kept.
// It does not go by their days: a clock that is far ahead for a while would remove all.
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
	if size, created := w.Size(); !some && usage.DayOf(time.UnixMilli(created)) < day {
		r.Before = size // it did nothing since it is counted
	}
	if len(keys) >= usage.Kept {
		return r, w.DeleteRange(start, keys[len(keys)-usage.Kept+1])
	}
	return r, nil
}

// Forget implements kernel.Facet.
func (*account) Forget(*kernel.Core, engine.Version) {}

// Close implements kernel.Facet.
func (u *account) Close(c *kernel.Core) {
	err := u.save(c)
	switch {
	case err == nil, errors.Is(err, engine.ErrDestroyed), errors.Is(err, engine.ErrNotAside), errors.Is(err, engine.ErrClosed),
		errors.Is(err, engine.ErrFenced), errors.Is(err, engine.ErrReadOnly), errors.Is(err, engine.ErrDiskFull):
		return // there is nothing to keep, the next core keeps it, or it was logged
	}
	u.p.k.Logger.Warn("usage was not stored", "actor_type", u.a.Address.Type, "actor_key", u.a.Address.Key, "error", err)
}

// Abandon implements kernel.Facet. It comes before the core is fenced.
func (u *account) Abandon(c *kernel.Core) { u.Close(c) }
