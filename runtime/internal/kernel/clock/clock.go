// Package clock fires the rows of the node's wake index when they are due.
package clock

import (
	"bytes"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
)

// A Clock fires the due rows of the wake index, with one goroutine and one timer for any number of
// rows. Rows due at 0 are for the start of the node only, and it leaves them alone.
//
// Invariants:
//  1. A row on its way through a mailbox is in flight, so it fires once at a time. How many may be
//     in flight is bounded, which paces the wake-ups after a restart.
//  2. A row stands until a turn of its work clears it. One whose actor cannot run is put off, and
//     tried again when the actor may run.
type Clock struct {
	o    Options
	wake chan struct{}
	quit chan struct{}
	once sync.Once

	mu       sync.Mutex
	next     int64                // when the timer is set to fire; 0 for never
	floor    []byte               // no row stands before it, except rows at 0; nil before the first look
	inFlight map[string]time.Time // row -> when to try again; zero while its handler runs
	running  int
}

// Options configure a clock.
type Options struct {
	// Index lists rows of the wake index after a place, up to a time in Unix milliseconds.
	Index interface {
		Wakes(after []byte, until int64, limit int) ([]engine.Wake, error)
	}
	// Post starts the work of a due row. It returns the address of a paused actor, for which the
	// row must wait. If it has posted the row, Done or Paused of the firing is called once;
	// otherwise neither is. The row may have left the index since the clock read it.
	Post func(*Firing) (posted bool, paused *host.Address, err error)
	// Paused keeps the rows of paused actors.
	Paused *park.Lot
	// Most bounds how many rows are in flight.
	Most int
	// Logger takes the errors of the index.
	Logger *slog.Logger
}

// A Firing is a row in flight.
type Firing struct {
	Row   engine.Wake
	clock *Clock
}

// New makes a clock. Run runs it.
func New(o Options) *Clock {
	return &Clock{o: o, wake: make(chan struct{}, 1), quit: make(chan struct{}), inFlight: make(map[string]time.Time)}
}

// Poke notifies the clock of a row that is due at ms.
func (k *Clock) Poke(ms int64) {
	k.mu.Lock()
	sooner := k.next == 0 || ms < k.next
	k.lower(keyspace.AppendWakeTime(nil, max(ms, 1)))
	k.mu.Unlock()
	if sooner {
		k.again()
	}
}

// again makes Run look at the index.
func (k *Clock) again() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Stop ends Run. It may be called more than once.
func (k *Clock) Stop() { k.once.Do(func() { close(k.quit) }) }

// maxWait is how late rows fire after the wall clock jumped ahead or the machine was suspended.
const maxWait = 5 * time.Minute

// Run fires rows until Stop is called.
func (k *Clock) Run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, err := k.fire()
		if err != nil {
			k.o.Logger.Error("read the wake index", "error", err)
			next = time.Now().Add(time.Second)
		}
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(min(time.Until(next), maxWait))
			due = timer.C
		}
		select {
		case <-due:
		case <-k.wake:
		case <-k.quit:
			return
		}
	}
}

// fire posts due rows, as far as there is room, and returns when to look again; zero means when
// poked.
func (k *Clock) fire() (time.Time, error) {
	// Until the scan is over, every poke counts: next stands at "never".
	k.mu.Lock()
	k.next = 0
	now := time.Now()
	// Rows that have fired leave tombstones until the store compacts them: the scan begins where
	// there may be rows.
	floor := k.floor
	if floor == nil {
		floor = keyspace.AppendWakeTime(nil, 1)
	}
	k.floor = keyspace.AppendWakeTime(nil, now.UnixMilli())
	for id, at := range k.inFlight {
		if !at.IsZero() && !at.After(now) {
			delete(k.inFlight, id) // it may be tried again, if the row still stands
		}
	}
	k.mu.Unlock()
	var again time.Time
	after := floor
	for first := true; ; first = false {
		rows, err := k.o.Index.Wakes(after, now.UnixMilli(), 256)
		if first {
			k.mu.Lock()
			switch {
			case err != nil:
				k.lower(floor)
			case len(rows) > 0:
				k.lower(before(rows[0].Row))
			}
			k.mu.Unlock()
		}
		if err != nil {
			return time.Time{}, err
		}
		for _, row := range rows {
			if k.full() {
				return again, nil // a finished one pokes
			}
			if at := k.start(row, now); !at.IsZero() && (again.IsZero() || at.Before(again)) {
				again = at
			}
		}
		if len(rows) < 256 {
			break
		}
		after = rows[len(rows)-1].Row
	}
	next, err := k.o.Index.Wakes(keyspace.AppendWakeTime(nil, now.UnixMilli()+1), keyspace.PausedRunsDue-1, 1)
	if err != nil {
		return time.Time{}, err
	}
	at := again
	if len(next) > 0 {
		if due := time.UnixMilli(next[0].Due); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	if !at.IsZero() {
		k.mu.Lock()
		k.next = at.UnixMilli()
		k.mu.Unlock()
	}
	return at, nil
}

// lower records that there may be a row at a place in the index.
//
// REQUIRES: k.mu
func (k *Clock) lower(place []byte) {
	if k.floor != nil && bytes.Compare(place, k.floor) < 0 {
		k.floor = place
	}
}

// before returns the place after which a scan begins with a row: the row without the zero byte that
// ends it.
func before(row []byte) []byte { return bytes.TrimSuffix(row, []byte{0}) }

func (k *Clock) full() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.running >= k.o.Most
}

// start posts one due row, unless it is in flight; it returns when to try the row again, if that is
// known.
func (k *Clock) start(row engine.Wake, now time.Time) time.Time {
	id := string(row.Row)
	k.mu.Lock()
	if at, ok := k.inFlight[id]; ok && (at.IsZero() || at.After(now)) {
		k.mu.Unlock()
		return at
	}
	k.inFlight[id] = time.Time{}
	k.running++
	k.mu.Unlock()
	f := &Firing{Row: row, clock: k}
	if posted, paused, err := k.o.Post(f); paused != nil {
		return f.putOff(*paused)
	} else if !posted {
		return f.finish(err)
	}
	return time.Time{}
}

// Done takes the row out of flight. After an error it is put off: until the time that the error
// names, if the actor has failed, or else for a while.
func (f *Firing) Done(err error) {
	f.finish(err)
	f.clock.again()
}

// Paused puts the row off until its actor is resumed.
func (f *Firing) Paused(addr host.Address) {
	f.putOff(addr)
	f.clock.again()
}

// pausedRow is how long the rows of a paused actor are left alone if it is neither resumed nor
// destroyed.
const pausedRow = 24 * time.Hour

// putOff takes the row out of flight until its actor is resumed, and returns when to try it again.
func (f *Firing) putOff(addr host.Address) time.Time {
	k, id, at := f.clock, string(f.Row.Row), time.Now().Add(pausedRow)
	k.mu.Lock()
	k.running--
	k.inFlight[id] = at
	k.mu.Unlock()
	if !k.o.Paused.Park(addr, "row "+id, func() { k.release(id) }) {
		k.release(id) // resumed meanwhile
		return time.Now()
	}
	return at
}

// release makes a row that was put off due at once.
func (k *Clock) release(id string) {
	k.mu.Lock()
	if at, ok := k.inFlight[id]; ok && !at.IsZero() {
		delete(k.inFlight, id)
	}
	k.mu.Unlock()
	k.again()
}

// Retry makes the rows of an actor that were put off due at once.
func (k *Clock) Retry(actor keyspace.ActorID) {
	k.mu.Lock()
	for id, at := range k.inFlight {
		if at.IsZero() {
			continue
		}
		if row, err := keyspace.ParseWakeRow([]byte(id)); err != nil || row.ID == actor {
			delete(k.inFlight, id)
		}
	}
	k.mu.Unlock()
	k.again()
}

// Rest is how long the work of actors that cannot run now is left alone.
const Rest = 10 * time.Second

// finish takes the row out of flight, or puts it off if it could not run.
func (f *Firing) finish(err error) time.Time {
	k, id := f.clock, string(f.Row.Row)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running--
	if err == nil {
		delete(k.inFlight, id)
		return time.Time{}
	}
	at := time.Now().Add(Rest)
	if e, ok := err.(*host.Error); ok && e.Code == host.ActorFailed {
		if named, ok := retry.At(e); ok {
			at = named
		}
	}
	k.inFlight[id] = at
	return at
}

// TimeMS returns the time of ms Unix milliseconds; 0 is the zero time.
func TimeMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
