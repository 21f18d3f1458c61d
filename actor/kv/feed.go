package kv

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Position is a place in the log of an actor. The zero value is the beginning.
type Position struct {
	// After is the sequence of the last event that the reader has; 0 for none.
	After uint64
	// Life is the id of the actor's life that After counts in; "" is the present one.
	Life string
}

// A FeedConfig selects the events that [Store.Feed] reads. The zero value reads all kept events.
type FeedConfig struct {
	// Prefixes, up to 16, select the entries whose keys begin with their parts. nil selects all.
	Prefixes []Key
	// From is where the feed begins.
	From Position
	// New begins with the next event instead.
	New bool
}

// An Event is the change of an entry.
type Event struct {
	// Sequence counts all events of the log from 1, without gaps, in one life of the actor. Life is
	// the id of that life.
	Sequence uint64
	Life     string
	// Version is the version of the commit. A commit may have several events.
	Version uint64
	Time    time.Time
	// Op is "put" or "delete", and Cause is "set", "delete", "delete_range" or "expired".
	Op, Cause string
	Key       Key
	// Value is the value of a put, and Expires when it expires; zero for never.
	Value   Value
	Expires time.Time
	// Range is the selection of a "delete_range", the zero one for all. It is nil for other events.
	Range *Selection
}

// Position returns the position of a reader that has the event.
func (e Event) Position() Position { return Position{After: e.Sequence, Life: e.Life} }

// A GapError says that events after a reader's position are no longer kept.
type GapError struct {
	// First is the sequence of the first kept event. Missed counts the events before it that the
	// reader lacks.
	First, Missed uint64
	// Reset is set if the position belongs to another life of the actor, or is beyond the last
	// event, as after a restore. The events begin anew. A restored log that has reached the
	// position again is not detected.
	Reset bool
}

// Error says how many events are missing.
func (e *GapError) Error() string {
	if e.Reset {
		return fmt.Sprintf("the position belongs to another log; the events begin anew, with %d no longer kept", e.Missed)
	}
	return fmt.Sprintf("%d events are no longer kept", e.Missed)
}

// LastPosition returns the position after the last event so far. The error code is NotFound if
// there is no actor, and FailedPrecondition if no scope has a log.
func (s Store) LastPosition(ctx context.Context) (Position, error) {
	out, err := site.Ask(ctx, &s.site, method.KVFeed, &hostkv.FeedInput{})
	return Position{After: out.Next, Life: out.Life}, err
}

// Feed ranges over the changes of entries after a position, each once and in the order of the
// commits, and waits for new ones. It covers scopes with a log ([Policy].Log, actor.MapConfig). The
// changes are durable. A slow loop delays no writer; events wait for it as long as they are kept.
// Feed neither wakes the actor nor keeps it awake.
//
// Feed continues after temporary errors, such as a restart of the node, until ctx ends. It stays in
// one life of the actor. A [*GapError], once for each gap, does not end the loop. Any other error
// is an [*host.Error] and ends it: Destroyed when the actor is destroyed, NotFound if there is
// none, FailedPrecondition if no scope has a log, Canceled or DeadlineExceeded when ctx ends.
func (s Store) Feed(ctx context.Context, c FeedConfig) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := hostkv.FeedInput{Prefixes: c.Prefixes, After: &c.From.After, Life: c.From.Life,
			WaitMS: site.Millis(site.WaitSlice)}
		if c.New {
			in.After, in.Life = nil, ""
		}
		var pause site.Pacer
		for begun := false; ; {
			start := time.Now()
			out, err := site.Ask(ctx, &s.site, method.KVFeed, &in)
			if err == nil && begun && out.Life != in.Life {
				err = host.Errorf(host.Destroyed, "the actor was destroyed, and created again")
			}
			switch {
			case err == nil:
				if !told(&out, yield) {
					return
				}
				pause.Waited(ctx, start, in.After != nil && out.Next == *in.After && out.Gap == nil)
				in.After, in.Life, begun = &out.Next, out.Life, true
			case ctx.Err() == nil && site.Again(err):
				pause.Pause(ctx)
			case ctx.Err() == nil:
				yield(Event{}, err)
				return
			}
			if ctx.Err() != nil {
				yield(Event{}, site.ContextError(ctx, "following a key-value store"))
				return
			}
		}
	}
}

// told yields the gap and the events of a reply, and reports whether the loop goes on.
func told(out *hostkv.FeedOutput, yield func(Event, error) bool) bool {
	if g := out.Gap; g != nil && !yield(Event{}, &GapError{First: g.First, Missed: g.Missed, Reset: g.Reset}) {
		return false
	}
	for i := range out.Events {
		e := &out.Events[i]
		shown := Event{
			Sequence: e.Sequence, Life: out.Life, Version: e.Version, Time: e.Time, Op: e.Op, Cause: e.Cause, Key: e.Key, Range: e.Range,
		}
		if e.Expires != nil {
			shown.Expires = *e.Expires
		}
		var err error
		if e.Op == hostkv.OpPut {
			shown.Value, err = valueOf(e.Value, e.Encoding)
		}
		if !yield(shown, err) {
			return false
		}
	}
	return true
}
