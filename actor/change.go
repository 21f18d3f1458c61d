package actor

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A MapChange is a change of an entry of a map.
type MapChange[K, V any] struct {
	// Sequence is the position of the change in the log of the actor, and Version that of the
	// commit.
	Sequence, Version uint64
	Time              time.Time
	Key               K
	// Value is what was put, and Expire when it ceases to exist; zero for never. A Removed entry
	// has none.
	Value   V
	Expire  time.Time
	Removed bool
	// Expired: the entry was removed because it had expired.
	Expired bool
	// Err says that the key or the value is none of the map's, which then is zero: the entry was
	// not stored through the map.
	Err error
	// Missed counts changes before this one that the log no longer had, of all entries that are
	// logged; see [MapConfig].
	Missed uint64
}

// OnChange binds the changes of a map with a log to a method of the state: OnChange(Books,
// (*Shelf).changed). The handler runs after the commit of the change, in a turn of its own, and in
// the order of the commits. It is handed each change once, whatever made it, also a removal by
// prefix and an expiry. Its commit has how far it is: so a change is handled exactly once.
//
// The handler may change entries, of its own map too, and is handed these changes later. If it
// fails or panics, nothing of it remains, and it is tried again, after 1 s, doubling up to 5
// minutes, for as long as it takes. Later changes of the map wait for it. A handler that is new is
// handed the changes from its first turn on.
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
