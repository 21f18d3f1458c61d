package change

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// What a follower holds that was not taken yet: so many change sets, with so many bytes of data that is passed on.
const (
	maxHeld      = 4096
	maxHeldBytes = 1 << 20
)

// Live passes change sets on to followers in memory. The zero Live has none. Safe for concurrent use.
type Live struct {
	following atomic.Int32
	mu        sync.RWMutex
	followers map[*follower]struct{}
}

// A follower holds what was not taken yet.
type follower struct {
	q      changes.Query
	mu     sync.Mutex
	held   []*changes.Record
	bytes  int
	missed uint64
	some   chan struct{} // has a value after something was added
}

// tell hands a change set to the followers. It does not block.
func (l *Live) tell(set *engine.ChangeSet) {
	if l.following.Load() == 0 {
		return
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for f := range l.followers {
		if r := f.record(set); r != nil {
			f.add(r)
		}
	}
}

// record returns what the follower is told of a change set; nil if that is nothing.
func (f *follower) record(set *engine.ChangeSet) *changes.Record {
	id := &set.Identity
	if f.q.Type != "" && id.Type != f.q.Type || len(id.Key) < len(f.q.Prefix) || !slices.Equal(id.Key[:len(f.q.Prefix)], f.q.Prefix) {
		return nil
	}
	r := &changes.Record{Time: time.UnixMilli(set.TimeMS).UTC(), Type: id.Type, Key: id.Key, Version: uint64(set.Version)}
	if !set.ID.IsZero() {
		r.ActorID = set.ID.String()
	}
	for i := range set.Changes {
		c := &set.Changes[i]
		if kind := c.Kind.String(); len(f.q.Kinds) == 0 || slices.Contains(f.q.Kinds, kind) {
			told := changes.Change{Kind: kind, Name: c.Name}
			if len(c.Data) <= changes.MaxData && json.Valid(c.Data) {
				told.Data = host.Raw(c.Data)
			} else {
				told.Size = len(c.Data)
			}
			r.Changes = append(r.Changes, told)
		}
	}
	if len(r.Changes) == 0 {
		return nil
	}
	return r
}

func (f *follower) add(r *changes.Record) {
	n := 256
	for i := range r.Changes {
		n += 64 + len(r.Changes[i].Data)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held) == maxHeld || len(f.held) > 0 && f.bytes+n > maxHeldBytes {
		f.missed++
		return
	}
	f.held, f.bytes = append(f.held, r), f.bytes+n
	select {
	case f.some <- struct{}{}:
	default:
	}
}

// take returns what is held, and how many records are missing after it.
func (f *follower) take() (held []*changes.Record, missed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held, missed = f.held, f.missed
	f.held, f.bytes, f.missed = nil, 0, 0
	return held, missed
}

// Follow implements changes.Feed. It also returns when stop is closed.
func (l *Live) Follow(ctx context.Context, q changes.Query, stop <-chan struct{}, visit func(*changes.Record) error) error {
	if fault := q.Check(); fault != nil {
		return fault
	}
	f := &follower{q: q, some: make(chan struct{}, 1)}
	l.mu.Lock()
	if l.followers == nil {
		l.followers = make(map[*follower]struct{})
	}
	l.followers[f] = struct{}{}
	l.following.Add(1)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.followers, f)
		l.following.Add(-1)
	}()
	for {
		select {
		case <-f.some:
		case <-ctx.Done():
			return fault.Ended(ctx)
		case <-stop:
			return fault.Unavailable("the node is shutting down")
		}
		held, missed := f.take()
		for _, r := range held {
			if err := visit(r); err != nil {
				return err
			}
		}
		if missed > 0 {
			if err := visit(&changes.Record{Gap: true, Missed: missed}); err != nil {
				return err
			}
		}
	}
}
