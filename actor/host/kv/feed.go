package kv

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// FeedInput asks for events of the log: the changes of entries in scopes with log in their policy,
// in the order of the commits.
type FeedInput struct {
	// Prefixes, up to MaxWatchedPrefixes, select the entries whose keys begin with their parts.
	// Absent means all.
	Prefixes []Key `json:"prefixes,omitempty" max:"16"`
	// After is the sequence of the last event that the caller has; 0 is the beginning. If absent,
	// the answer has no events, and the present position.
	After *uint64 `json:"after,omitempty"`
	// Life is the Life of the answer that had After; absent means the present one.
	Life string `json:"life,omitempty"`
	// Limit bounds the events; absent means DefaultPage.
	Limit int `json:"limit,omitempty" range:"1,1000"`
	// WaitMS is how long to wait for an event, up to one minute; absent does not wait.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// FeedOutput has the events after a position. It may have none before the wait is over, if entries
// that the caller does not follow have changed.
type FeedOutput struct {
	// Gap is set if events are missing between the position and the first of Events.
	Gap    *Gap    `json:"gap,omitempty"`
	Events []Event `json:"events"`
	// Next is the position to continue from, and Life the id of the actor's life that it counts in.
	Next uint64 `json:"next"`
	Life string `json:"life"`
}

// A Gap is a part of the log that is no longer kept, or another log.
type Gap struct {
	// First is the sequence of the first kept event. Missed counts the events before it that the
	// caller lacks.
	First  uint64 `json:"first"`
	Missed uint64 `json:"missed,omitempty"`
	// Reset is set if the position belongs to another life of the actor, or is beyond the last
	// event, as after a restore. The events begin anew. A restored log that has reached the
	// position again is not detected.
	Reset bool `json:"reset,omitempty"`
}

// An Event is the change of an entry.
type Event struct {
	// Sequence is the position in the log. It counts all events from 1, including those of entries
	// that the caller does not follow.
	Sequence uint64 `json:"sequence"`
	// Version is the version of the commit. A commit may have several events.
	Version uint64    `json:"version"`
	Time    time.Time `json:"time"`
	// Op is put or delete, and Cause is set, delete, delete_range or expired. A delete_range with a
	// filter becomes several delete events.
	Op    string `json:"op"`
	Cause string `json:"cause"`
	Key   Key    `json:"key"`
	// Value is the value of a put, and Encoding its encoding, as in an Entry.
	Value    host.Raw `json:"value,omitempty"`
	Encoding string   `json:"encoding,omitempty"`
	// Expires is when a put entry expires; absent for never.
	Expires *time.Time `json:"expires,omitempty"`
	// Range is the selection of a delete_range; {} is all.
	Range *Selection `json:"range,omitempty"`
}

// The operations and causes of events.
const (
	OpPut            = "put"
	OpDelete         = "delete"
	CauseSet         = "set"
	CauseDelete      = "delete"
	CauseDeleteRange = "delete_range"
	CauseExpired     = "expired"
)
