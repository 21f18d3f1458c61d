package supervisor

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
)

// Lookup implements host.Node. It reads the store and the directory of awake actors, and returns when what it read is
// durable. The error code is Unavailable if the disk failed and that is unknown.
func (s *Supervisor) Lookup(ctx context.Context, addr host.Address) (host.Status, error) {
	if _, err := s.storedTypeOf(addr); err != nil {
		return host.Status{}, err
	}
	st, err := s.status(addr)
	if perr := s.seen(ctx, addr); perr != nil {
		return host.Status{}, perr
	}
	return st, err
}

// status is Lookup without the wait: what it shows may be ahead of the disk by the commits under way.
func (s *Supervisor) status(addr host.Address) (host.Status, error) {
	st, err := StoredStatus(s.store, s.options.Namespace, addr)
	if err != nil {
		return host.Status{}, s.storeError(err)
	}
	s.present(&st)
	return st, nil
}

// present adds to a status what the actor does in memory.
func (s *Supervisor) present(st *host.Status) {
	addr := host.Address{Type: st.Type, Key: st.Key}
	a := s.find(addr)
	if a != nil {
		a.mu.Lock()
		if a.core != nil {
			st.State = host.Awake
		}
		st.Tasks = a.crew().size()
		a.mu.Unlock()
		st.Mailbox = int(a.waiting.Load())
	}
	for _, p := range s.parts {
		if p, ok := p.(presenter); ok {
			p.present(s, a, st)
		}
	}
	if p := s.pauses.at(addr); p != nil {
		st.State, st.Pause = host.Paused, p
	}
	if f := s.failures.of(addr); f != nil { // the worse of the two, as long as it lasts
		st.State, st.Failure = host.Failed, f
	}
}

// storeError makes the public error for a failed read, and logs its cause.
func (s *Supervisor) storeError(err error) error {
	e, id := publicError(err)
	if id != "" {
		s.logger.Error("read the store", "error_id", id, "error", err)
	}
	return e
}
