package kernel

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
)

// recover takes up what was under way when the store was last open, a few actors at a time: the rows of the wake index
// that are due at 0 say of whom.
func (s *Kernel) recover() {
	slots := make(chan struct{}, s.Options.AlarmConcurrency)
	var after []byte
	for {
		rows, err := s.Store.Wakes(after, 0, 256)
		if err != nil {
			s.Logger.Error("read what was under way", "error", err)
			return
		}
		for _, row := range rows {
			select {
			case slots <- struct{}{}:
			case <-s.Life.Done():
				return
			}
			s.recoverRow(row, func() { <-slots })
		}
		if len(rows) < 256 {
			return
		}
		after = rows[len(rows)-1].Row
	}
}

// recoverRow takes up what one row says. done is called when the next may be.
func (s *Kernel) recoverRow(row engine.Wake, done func()) {
	if p := s.recoverers[row.Kind]; p != nil {
		_, outlives := p.(Remainder)
		s.recoverOne(row, done, p.TakeUp, outlives)
		return
	}
	switch row.Kind {
	default:
		done() // who is paused was read before anything ran
	}
}

// RecoverActor has an actor that exists do some work. A row of one that is gone is dropped.
func (s *Kernel) RecoverActor(row engine.Wake, done func(), make func(*Actor) *Work) {
	s.recoverOne(row, done, make, false)
}

// recoverOne is recoverActor, also for what is left of a destroyed actor if the row outlives it.
func (s *Kernel) recoverOne(row engine.Wake, done func(), take func(*Actor) *Work, outlives bool) {
	done = sync.OnceFunc(done) // work that is tried again is finished more than once
	ident, _, ok, err := s.Store.Identity(row.ID)
	var remains keyspace.ActorID
	if err == nil && !ok && outlives {
		var dead engine.Tombstone
		if dead, ok, err = s.Store.Tombstone(row.ID); ok {
			ident, remains = dead.Identity, row.ID
		}
	}
	t := s.Types[ident.Type]
	switch {
	case err != nil:
		s.Logger.Error("recover an actor", "actor_id", row.ID.String(), "error", err)
	case !ok:
		if err := s.Store.DropWakes([][]byte{row.Row}); err != nil {
			s.Logger.Error("drop a leftover index row", "error", err)
		}
	case t == nil || t.Retired && remains.IsZero():
		s.Logger.Warn("work waits for an actor type that this node does not host", "actor_type", ident.Type, "work", row.Kind.String())
	default:
		if s.TakeUpOf(t, host.Address{Type: ident.Type, Key: ident.Key}, remains, func(a *Actor) *Work {
			w := take(a)
			finish := w.Finish
			w.Finish = func(w *Work) {
				done()
				finish(w)
			}
			return w
		}) {
			return
		}
	}
	done()
}

// TakeUpOf has an actor, or with an id what is left of a destroyed one, do the work that take makes for it. It returns false
// if the kernel has closed; then the next start finds the row at 0. It also returns false if take panics, and tries again
// after a while.
func (s *Kernel) TakeUpOf(t *Type, addr host.Address, remains keyspace.ActorID, take func(*Actor) *Work) bool {
	for {
		var a *Actor
		if remains.IsZero() {
			a = s.ActorAt(t, addr)
		} else {
			a = s.Memory.remainsOf(t, addr, remains)
		}
		if a == nil {
			return false
		}
		w, err := s.taken(a, take)
		if err != nil {
			a.resume() // leaves memory if it is there for this alone
			s.Later(clock.Rest, func() { s.TakeUpOf(t, addr, remains, take) })
			return false
		}
		err = a.Enqueue(w)
		if errors.Is(err, errGone) {
			continue // it left memory between the look-up and now
		}
		if err != nil {
			w.Fail(err)
		}
		return true
	}
}

// taken asks a part for the work that goes on with what was under way. A panic is an error.
func (s *Kernel) taken(a *Actor, take func(*Actor) *Work) (w *Work, err error) {
	defer s.contain(a.Address, "TakeUp", &err)
	return take(a), nil
}

// contain turns a panic of a part's hook into an error, and logs it. It is deferred.
func (s *Kernel) contain(addr host.Address, hook string, err *error) {
	if p := recover(); p != nil {
		id := NewErrorID()
		s.Logger.Error("part panicked", "actor_type", addr.Type, "actor_key", addr.Key, "hook", hook, "error_id", id,
			"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = host.Errorf(host.Internal, "a part of the node panicked (error %s)", id).With("error_id", id)
	}
}
