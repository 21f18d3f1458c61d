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

// A follower holds so many change sets that were not taken yet, with so many bytes of data that is
// passed on.
const (
	maxHeld      = 4096
	maxHeldBytes = 1 << 20
)

// Live passes change sets on to followers in memory. The zero Live has none. Safe for concurrent
// use.
type Live struct {
	following atomic.Int32
	mu        sync.RWMutex
	followers map[*follower]struct{}
}

// A follower holds change sets until they are taken.
type follower struct {
	q      changes.Query
	mu     sync.Mutex
	held   []*engine.ChangeSet
	bytes  int           // of their data
	missed uint64        // after those held: until they are taken nothing is added, so that the gap has one place
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
		if f.selects(set) {
			f.add(set)
		}
	}
}

// selects reports whether something in a change set is for the follower.
func (f *follower) selects(set *engine.ChangeSet) bool {
	id := &set.Identity
	return (f.q.Type == "" || id.Type == f.q.Type) && len(id.Key) >= len(f.q.Prefix) &&
		slices.Equal(id.Key[:len(f.q.Prefix)], f.q.Prefix) &&
		slices.ContainsFunc(set.Changes, f.wants)
}

func (f *follower) wants(c engine.Change) bool {
	return len(f.q.Kinds) == 0 || slices.Contains(f.q.Kinds, c.Kind.String())
}

// record returns the follower's record of a change set.
func (f *follower) record(set *engine.ChangeSet) *changes.Record {
	id := &set.Identity
	r := &changes.Record{Time: time.UnixMilli(set.TimeMS).UTC(), Type: id.Type, Key: id.Key,
		Version: uint64(set.Version)}
	if !set.ID.IsZero() {
		r.ActorID = set.ID.String()
	}
	for i := range set.Changes {
		c := &set.Changes[i]
		if !f.wants(*c) {
			continue
		}
		told := changes.Change{Kind: c.Kind.String(), Name: c.Name}
		if len(c.Data) <= changes.MaxData && json.Valid(c.Data) {
			told.Data = host.Raw(c.Data)
		} else {
			told.Size = len(c.Data)
		}
		r.Changes = append(r.Changes, told)
	}
	return r
}

func (f *follower) add(set *engine.ChangeSet) {
	n := 256
	for i := range set.Changes {
		n += 64 + len(set.Changes[i].Data)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.missed > 0 || len(f.held) == maxHeld || len(f.held) > 0 && f.bytes+n > maxHeldBytes {
		f.missed++
		return
	}
	f.held, f.bytes = append(f.held, set), f.bytes+n
	select {
	case f.some <- struct{}{}:
	default:
	}
}

// take returns the held change sets, and how many records are missing after them.
func (f *follower) take() (held []*engine.ChangeSet, missed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held, missed = f.held, f.missed
	f.held, f.bytes, f.missed = nil, 0, 0
	return held, missed
}

// Follow implements changes.Feed. It also returns when stop is closed.
func (l *Live) Follow(ctx context.Context, q changes.Query, stop <-chan struct{},
	visit func(*changes.Record) error) error {
	tell, err := l.Begin(q, stop)
	if err != nil {
		return err
	}
	return tell(ctx, visit)
}

// Begin begins to follow. The caller must call the result once: it does the rest of Follow.
func (l *Live) Begin(q changes.Query,
	stop <-chan struct{}) (tell func(ctx context.Context, visit func(*changes.Record) error) error, err error) {
	if fault := q.Check(); fault != nil {
		return nil, fault
	}
	f := &follower{q: q, some: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.followers == nil {
		l.followers = make(map[*follower]struct{})
	}
	l.followers[f] = struct{}{}
	l.following.Add(1)
	return func(ctx context.Context, visit func(*changes.Record) error) error {
		defer l.leave(f)
		return f.tell(ctx, stop, visit)
	}, nil
}

func (l *Live) leave(f *follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.followers, f)
	l.following.Add(-1)
}

// tell calls visit for the held records, and for those after them.
func (f *follower) tell(ctx context.Context, stop <-chan struct{}, visit func(*changes.Record) error) error {
	for {
		select {
		case <-f.some:
		case <-ctx.Done():
			return fault.Ended(ctx)
		case <-stop:
			return fault.Unavailable("the node is shutting down")
		}
		held, missed := f.take()
		for _, set := range held {
			if err := visit(f.record(set)); err != nil {
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
