package host

import (
	"context"
	"time"
)

// An EmittedEvent is an event that an actor emitted in a turn that is durable.
type EmittedEvent struct {
	// Sequence counts the events of one life of the actor, from 1, without gaps.
	Sequence uint64 `json:"sequence"`
	// Life is the id of that life.
	Life    string    `json:"life,omitempty"`
	Version uint64    `json:"version"`
	Name    string    `json:"name"`
	Time    time.Time `json:"time"`
	// Data is JSON.
	Data []byte `json:"-"`
	// To names the only connection that gets the event; Except names connections that do not.
	// Neither reaches clients.
	To     string   `json:"-"`
	Except []string `json:"-"`
	// Shared holds encoded forms for many receivers; it may be nil.
	Shared *SharedFrames `json:"-"`
}

// A Subscription selects events of one actor.
type Subscription struct {
	// Names selects events by name; empty selects all.
	Names []string
	// Resume asks for the events after sequence After, as far as they are kept; otherwise the
	// subscription starts with the next event.
	Resume bool
	After  uint64
	// Life is the id of the actor's life that After counts in, or "" for the present one: see
	// Position.
	Life string
}

// A Delivery has the next events of a subscription in order, after a gap if Missed is not 0.
type Delivery struct {
	// Missed counts the events between the requested position and the first of Events that are no
	// longer kept.
	Missed uint64
	// Reset is set if the requested position belongs to another life of the actor, which was
	// destroyed and created again, or restored. The subscription begins anew, and Missed counts
	// from the first event of this life.
	Reset  bool
	Events []EmittedEvent
}

// An EventStream delivers the events of one subscription. It is used by one goroutine at a time.
type EventStream interface {
	// Next waits for events. The error is an *Error: code Canceled when ctx ends, Unavailable when
	// the node shuts down, Destroyed when the actor was destroyed and the events at hand were
	// delivered, or when there is no actor and the subscription has a life. A reader that falls
	// behind gets the events still kept, after a Delivery that counts the missed ones. Events of
	// two lives never follow each other without a Reset between them.
	Next(ctx context.Context) (Delivery, error)
	// Close ends the subscription.
	Close()
}

// An EventSource subscribes clients to the events of actors. Subscribing neither wakes nor creates
// an actor.
type EventSource interface {
	Subscribe(ctx context.Context, a Address, s Subscription) (EventStream, error)
}

// A StoredKey is one logical key of an actor's keyspace, for inspection.
type StoredKey struct {
	Key []byte `json:"key"`
	// Text is the key in readable form.
	Text    string    `json:"text"`
	Size    int       `json:"size"`
	Version uint64    `json:"version"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Value is the stored value, cut after the number of bytes that the caller asked for.
	Value []byte `json:"value,omitempty"`
}

// An InspectQuery pages through an actor's raw keyspace.
type InspectQuery struct {
	// After continues after this key; nil starts at the beginning.
	After []byte
	// Limit is 1 to 1,000 keys; 0 means 100.
	Limit int
	// ValueBytes is how much of each value to return; 0 returns none.
	ValueBytes int
}

// An InspectPage is a page of an actor's raw keyspace. Next is nil at the end.
type InspectPage struct {
	Keys []StoredKey `json:"keys"`
	Next []byte      `json:"next,omitempty"`
}

// An Inspector reads actors' raw keyspaces without waking them.
type Inspector interface {
	Inspect(ctx context.Context, a Address, q InspectQuery) (InspectPage, error)
}
