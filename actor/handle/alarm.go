package handle

import "time"

// An Armed describes an alarm that will ring.
type Armed[T any] struct {
	// Instance is "" unless the alarm was set through actor.Alarm.Named.
	Instance string
	Due      time.Time
	Payload  T
	// Attempts counts how often its handler has failed.
	Attempts int
}
