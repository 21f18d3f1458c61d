package actor

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A MapChange is a change of an entry of a map.
type MapChange[K, V any] struct {
	// Sequence is the position of the change in the log of the actor. Version is the version of the
	// commit.
	Sequence, Version uint64
	Time              time.Time
	Key               K
	// Value is the new value, and Expire the time at which it expires, zero for never. A Removed
	// entry has neither.
	Value   V
	Expire  time.Time
	Removed bool
	// Expired is set if the entry was removed because it had expired.
	Expired bool
	// Err is set if the key or the value does not decode: the entry was not stored through the map.
	// Key and Value are then zero.
	Err error
	// Missed counts earlier changes that the log no longer had, of all logged entries; see
	// [MapConfig].
	Missed uint64
}

// OnChange binds the changes of a map with a log to a method of the state: OnChange(Books,
// (*Shelf).changed). The handler runs after the commit of the change, in its own turn, in the order
// of the commits. It handles each change exactly once, including removals by prefix and expiries,
// because its commit also stores its position in the log.
//
// The handler may change entries, even of its own map, and gets these changes later. If it fails or
// panics, nothing of it remains. It is tried again after 1 s, doubling up to 5 minutes, for ever.
// Later changes of the map wait for it. A new handler gets changes from its first turn on.
func OnChange[S, K, V any](m *Map[K, V], handler func(*S, *Context, MapChange[K, V]) error) Binding[S] {
	if m == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: m.decl, handler: funcName(handler),
		call: func(s any, ctx *Context, in any) (any, error) {
			c := in.(*host.KVChange)
			arg := MapChange[K, V]{
				Sequence: c.Sequence, Version: c.Version, Time: c.Time, Expire: c.Expire, Missed: c.Missed,
				Removed: c.Cause != "set", Expired: c.Cause == "expired",
			}
			// later changes must not wait for it
			if err := m.read(c.Key, c.Value, arg.Removed, &arg.Key, &arg.Value); err != nil {
				arg.Key, arg.Value, arg.Err = *new(K), *new(V), err
			}
			return nil, handler(s.(*S), ctx, arg)
		}}}
}
