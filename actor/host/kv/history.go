package kv

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// The bounds of pins.
const (
	DefaultPin = 60_000     // milliseconds, unless the caller names another time
	MaxPin     = 86_400_000 // milliseconds: a day
	MaxPins    = 100        // of an actor
)

// HistoryInput asks for versions of an entry, from the newest to the oldest.
type HistoryInput struct {
	// Branch is the name of a branch, whose own versions are listed; absent means the store itself.
	Branch string `json:"branch,omitempty"`
	Key    Key    `json:"key"`
	// Before leaves out the versions from this one on: it is the Next of an earlier answer.
	Before uint64 `json:"before,omitempty"`
	// Limit is how many versions there are at most; absent means DefaultPage.
	Limit int `json:"limit,omitempty" range:"1,1000"`
}

// A Version is what an entry was from a commit on, until that of the next version.
type Version struct {
	Version uint64 `json:"version"`
	// Op says what made it: put, or what removed the entry: delete or expire.
	Op   string    `json:"op"`
	Time time.Time `json:"time"`
	// Value and the like are of a put.
	Value    host.Raw   `json:"value,omitempty"`
	Encoding string     `json:"encoding,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"`
}

// HistoryOutput has versions of an entry. Next is absent at the end.
type HistoryOutput struct {
	Versions []Version `json:"versions"`
	Next     uint64    `json:"next,omitempty"`
	// Floor is a version before which nothing is known of the entry; absent if all is known.
	Floor uint64 `json:"floor,omitempty"`
}

// PinInput asks for a version that stays readable.
type PinInput struct {
	// TTLMS is for how long; absent means DefaultPin.
	TTLMS int64 `json:"ttl_ms,omitempty" range:"1,86400000"`
}

// PinOutput names a version, for the member at of what reads, until it expires.
type PinOutput struct {
	Version uint64    `json:"version"`
	Expires time.Time `json:"expires"`
}

// UnpinInput names a version that no reader needs.
type UnpinInput struct {
	Version uint64 `json:"version"`
}

// UnpinOutput reports whether it was pinned.
type UnpinOutput struct {
	Removed bool `json:"removed"`
}
