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
	// Before selects the versions before this one: it is the Next of an earlier answer.
	Before uint64 `json:"before,omitempty"`
	// Limit bounds the versions; absent means DefaultPage.
	Limit int `json:"limit,omitempty" range:"1,1000"`
}

// A Version is the state of an entry from one commit until the commit of its next version.
type Version struct {
	Version uint64 `json:"version"`
	// Op is put, or delete or expire if the entry was removed.
	Op   string    `json:"op"`
	Time time.Time `json:"time"`
	// Value and the like are set for a put.
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

// PinInput keeps the present version readable.
type PinInput struct {
	// TTLMS is for how long; absent means DefaultPin.
	TTLMS int64 `json:"ttl_ms,omitempty" range:"1,86400000"`
}

// PinOutput names a version, for the member at of reading methods, until it expires.
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
