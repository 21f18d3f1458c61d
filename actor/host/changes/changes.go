// Package changes has what a node tells of its actors while it happens: their commits, and what
// they are through without one.
package changes

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// MaxData bounds the data of a change, in bytes; of longer ones only the size is told.
const MaxData = 4096

// A Query selects changes.
type Query struct {
	// Type selects the changes of the actors of a type, and Prefix those whose keys begin with it.
	Type   string
	Prefix []string
	// Kinds selects kinds of changes; without any, all.
	Kinds []string
}

// Check returns the fault of a query.
func (q *Query) Check() *host.Error {
	if len(q.Prefix) > 0 && q.Type == "" {
		return host.Errorf(host.InvalidArgument, "a prefix of keys needs a type").With("field", "prefix")
	}
	for _, kind := range q.Kinds {
		if !slices.Contains(Kinds, kind) {
			return host.Errorf(host.InvalidArgument,
				"there is no kind %.40q of changes; the kinds are %s", kind, strings.Join(Kinds,
					", ")).With("field", "kinds")
		}
	}
	return nil
}

// A Record is what one turn of an actor changed, or a gap.
type Record struct {
	Time time.Time `json:"time,omitzero"`
	Type string    `json:"type,omitempty"`
	Key  []string  `json:"key,omitempty"`
	// ActorID names the life of the actor, and Version the commit. What has no commit has the
	// version of the last one.
	ActorID string   `json:"actor_id,omitempty"`
	Version uint64   `json:"version,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Gap: records are missing here, because the follower was too slow or the connection was lost.
	// Missed is how many, or 0 if that is not known. The record has nothing else.
	Gap    bool   `json:"gap,omitempty"`
	Missed uint64 `json:"missed,omitempty"`
}

// A Change is one change, as it is published over NATS.
type Change struct {
	// Kind is event, state, kv, alarm, life, queue, conn, sql, workflow or audit.
	Kind string `json:"kind"`
	// Name is that of the event, alarm, queue or method, or the transition of a life.
	Name string   `json:"name,omitempty"`
	Data host.Raw `json:"data,omitempty"`
	// Size is the length of data that has more than MaxData bytes, or is no JSON, and is left out.
	Size int `json:"size,omitempty"`
}

// Kinds are the kinds of changes.
var Kinds = []string{"event", "state", "kv", "alarm", "life", "queue", "conn", "sql", "workflow", "audit"}

// A Feed is a node that tells of changes. Errors are *host.Error.
type Feed interface {
	// FollowChanges calls f for changes as they become durable, from the present on, in the order
	// of commits for each actor. What f is too slow for is left out, and a gap says so: followers
	// hold nothing up. It returns when ctx ends, with the error of f, or when the node stops. No
	// actor is woken.
	FollowChanges(ctx context.Context, q Query, f func(*Record) error) error
}
