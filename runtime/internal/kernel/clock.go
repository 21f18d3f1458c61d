package kernel

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// An alarmClock fires what is due in the node's wake index: one goroutine, one timer, whatever the number of alarms.
//
// Rows on their way through a mailbox are kept in flight, so that a row fires once at a time; how many may be in flight is
// bounded, which paces the wake-ups after a restart. A row whose actor cannot run stays in the index and is tried again
// when the actor may be.
type alarmClock struct {
	s    *Kernel
	wake chan struct{}
	quit chan struct{}
	once sync.Once

	mu       sync.Mutex
	next     int64                // when the timer is set to fire; 0 for never
	floor    []byte               // no row stands before it, but those at 0; nil before the first look
	inFlight map[string]time.Time // row -> when to try again; zero while its handler runs
	running  int
}

func (k *alarmClock) init(s *Kernel) {
	k.s, k.wake, k.quit, k.inFlight = s, make(chan struct{}, 1), make(chan struct{}), make(map[string]time.Time)
}

// poke tells the clock that a row is due at ms.
func (k *alarmClock) poke(ms int64) {
	k.mu.Lock()
	sooner := k.next == 0 || ms < k.next
	k.lower(keyspace.AppendWakeTime(nil, max(ms, 1))) // rows due at 0 are for the start only
	k.mu.Unlock()
	if sooner {
		k.again()
	}
}

func (k *alarmClock) again() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *alarmClock) stop() { k.once.Do(func() { close(k.quit) }) }

func (k *alarmClock) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, err := k.fire()
		if err != nil {
			k.s.Logger.Error("read the wake index", "error", err)
			next = time.Now().Add(time.Second)
		}
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
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

// fire posts what is due, as far as there is room, and returns when to look again; zero means when poked.
func (k *alarmClock) fire() (time.Time, error) {
	// Until the scan is over, every poke is heard: next stands at "never".
	k.mu.Lock()
	k.next = 0
	now := time.Now()
	// Rows that have fired leave tombstones until the store compacts them: the scan begins where there may be rows.
	floor := k.floor
	if floor == nil {
		floor = keyspace.AppendWakeTime(nil, 1) // rows due at 0 are for the start only
	}
	k.floor = keyspace.AppendWakeTime(nil, now.UnixMilli())
	for id, at := range k.inFlight {
		if !at.IsZero() && !at.After(now) {
			delete(k.inFlight, id) // it may be tried again, if the row still stands
		}
	}
	k.mu.Unlock()
	var retry time.Time
	after := floor
	for first := true; ; first = false {
		rows, err := k.s.Store.Wakes(after, now.UnixMilli(), 256)
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
				return retry, nil // a finished one pokes
			}
			if at := k.start(row, now); !at.IsZero() && (retry.IsZero() || at.Before(retry)) {
				retry = at
			}
		}
		if len(rows) < 256 {
			break
		}
		after = rows[len(rows)-1].Row
	}
	next, err := k.s.Store.Wakes(keyspace.AppendWakeTime(nil, now.UnixMilli()+1), keyspace.PausedRunsDue-1, 1)
	if err != nil {
		return time.Time{}, err
	}
	at := retry
	if len(next) > 0 && (at.IsZero() || TimeMS(next[0].Due).Before(at)) {
		at = TimeMS(next[0].Due)
	}
	if !at.IsZero() {
		k.mu.Lock()
		k.next = at.UnixMilli()
		k.mu.Unlock()
	}
	return at, nil
}

// lower notes that there may be a row at a place in the index.
//
// REQUIRES: k.mu
func (k *alarmClock) lower(place []byte) {
	if k.floor != nil && bytes.Compare(place, k.floor) < 0 {
		k.floor = place
	}
}

// before returns what a scan is to begin after so that it begins with a row: the row without the zero byte that ends it.
func before(row []byte) []byte { return bytes.TrimSuffix(row, []byte{0}) }

func (k *alarmClock) full() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.running >= k.s.Options.AlarmConcurrency
}

// start posts one due row, unless it is in flight; it returns when to try the row again, if that is known.
func (k *alarmClock) start(row engine.Wake, now time.Time) time.Time {
	id := string(row.Row)
	k.mu.Lock()
	if at, ok := k.inFlight[id]; ok && (at.IsZero() || at.After(now)) {
		k.mu.Unlock()
		return at
	}
	k.inFlight[id] = time.Time{}
	k.running++
	k.mu.Unlock()
	if posted, paused, err := k.Post(row); paused != nil {
		return k.putOff(id, *paused)
	} else if !posted {
		return k.finished(id, err)
	}
	return time.Time{}
}

// Post puts a due row into its actor's mailbox, or drops a row whose actor is gone. It returns the address of an actor
// that is paused, for which the row must wait.
func (k *alarmClock) Post(row engine.Wake) (posted bool, paused *host.Address, err error) {
	ident, _, ok, err := k.s.Store.Identity(row.ID)
	if err != nil {
		return false, nil, err
	}
	if !ok {
		return false, nil, k.s.Store.DropWakes([][]byte{row.Row})
	}
	t := k.s.hosted(ident.Type)
	if t == nil || ident.Namespace != k.s.Options.Namespace {
		return false, nil, unknownType(ident.Type)
	}
	if p := k.s.wakers[row.Kind]; p != nil {
		return k.hand(p, t, row, ident)
	}
	id, addr := string(row.Row), host.Address{Type: ident.Type, Key: ident.Key}
	w := &Work{Existing: true, Finish: func(w *Work) {
		if w.Paused {
			k.putOff(id, addr)
		} else {
			k.finished(id, w.Err)
		}
		k.again()
	}}
	switch row.Kind {
	case keyspace.WakeExpiry:
		w.Job = (*purge)(&row)
	default:
		return false, nil, fmt.Errorf("kernel: no part has rows of the kind %s", row.Kind)
	}
	_, err = k.s.Post(t, addr, w, nil)
	return err == nil, nil, err
}

// hand has a part make the work for a due row, and puts that into the actor's mailbox. A row of an actor that is paused waits.
func (k *alarmClock) hand(p Waker, t *Type, row engine.Wake, ident engine.Identity) (posted bool, paused *host.Address, err error) {
	id, addr := string(row.Row), host.Address{Type: ident.Type, Key: ident.Key}
	if k.s.Pauses.At(addr) != nil {
		return false, &addr, nil
	}
	done := func(w *Work) {
		if w.Paused {
			k.putOff(id, addr)
		} else {
			k.finished(id, w.Err)
		}
		k.again()
	}
	w, err := k.due(p, t, addr, &row, done)
	if err != nil {
		return false, nil, err
	}
	w.Existing = true
	if w.Finish == nil {
		w.Finish = done
	}
	_, err = k.s.Post(t, addr, w, nil)
	return err == nil, nil, err
}

// due asks a part for the work for a row. A panic is an error, after which the row is tried again.
func (k *alarmClock) due(p Waker, t *Type, addr host.Address, row *engine.Wake, done func(*Work)) (w *Work, err error) {
	defer k.s.Contain(addr, "Due", &err)
	return p.Due(k.s, t, addr, row, done), nil
}

// pausedRow is how long the rows of a paused actor are left alone if it is neither resumed nor destroyed.
const pausedRow = 24 * time.Hour

// putOff takes a row out of flight until its actor is resumed.
func (k *alarmClock) putOff(id string, addr host.Address) time.Time {
	at := time.Now().Add(pausedRow)
	k.mu.Lock()
	k.running--
	k.inFlight[id] = at
	k.mu.Unlock()
	if !k.s.Pauses.Park(addr, "row "+id, func() { k.release(id) }) {
		k.release(id) // resumed meanwhile
		return time.Now()
	}
	return at
}

// release lets a row that was put off be tried at once.
func (k *alarmClock) release(id string) {
	k.mu.Lock()
	if at, ok := k.inFlight[id]; ok && !at.IsZero() {
		delete(k.inFlight, id)
	}
	k.mu.Unlock()
	k.again()
}

// Retry lets the rows of an actor that were put off be tried at once.
func (k *alarmClock) Retry(actor keyspace.ActorID) {
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

// unhosted is how long the rows of actors that cannot run now are left alone.
const unhosted = 10 * time.Second

// finished takes a row out of flight, or puts it off if it could not run.
func (k *alarmClock) finished(id string, err error) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running--
	if err == nil {
		delete(k.inFlight, id)
		return time.Time{}
	}
	at := time.Now().Add(unhosted)
	if e, ok := err.(*host.Error); ok && e.Code == host.ActorFailed {
		if t, perr := time.Parse(time.RFC3339Nano, e.Metadata["retry_at"]); perr == nil {
			at = t
		}
	}
	k.inFlight[id] = at
	return at
}
