package kernel

import (
	"errors"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
)

// TakeUpOf posts the work that take makes to an actor; with an id, to the remains of a destroyed
// actor. It returns false if the kernel has closed; then the next start finds the row at 0. It also
// returns false if take panics, and tries again after a while.
func (s *Kernel) TakeUpOf(t *Type, addr host.Address, remains keyspace.ActorID, take func(*Actor) *Work) bool {
	for {
		var a *Actor
		if remains.IsZero() {
			a = s.ActorAt(t, addr)
		} else {
			a = s.remainsOf(t, addr, remains)
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

// taken returns a part's work that continues what was under way. A panic becomes an error.
func (s *Kernel) taken(a *Actor, take func(*Actor) *Work) (w *Work, err error) {
	defer s.Contain(a.Address, "TakeUp", nil, &err)
	return take(a), nil
}
