// Package changes has the changes of a node's actors while they happen: their commits, and changes
// of state without a commit.
package changes

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// MaxData bounds the data of a change, in bytes. Longer data is left out except for its size.
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

// A Record has the changes of one turn of an actor, or is a gap.
type Record struct {
	Time time.Time `json:"time,omitzero"`
	Type string    `json:"type,omitempty"`
	Key  []string  `json:"key,omitempty"`
	// ActorID names the life of the actor, and Version the commit. Without a commit it is the
	// version of the last one.
	ActorID string   `json:"actor_id,omitempty"`
	Version uint64   `json:"version,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Gap is set if records are missing here, because the follower was too slow or the connection
	// was lost. Missed is their number, or 0 if it is not known. The record has nothing else.
	Gap    bool   `json:"gap,omitempty"`
	Missed uint64 `json:"missed,omitempty"`
}

// A Change is one change, as it is published over NATS.
type Change struct {
	// Kind is event, state, kv, alarm, life, queue, conn, sql, workflow or audit.
	Kind string `json:"kind"`
	// Name is the name of the event, alarm, queue or method, or the transition of a life.
	Name string   `json:"name,omitempty"`
	Data host.Raw `json:"data,omitempty"`
	// Size is the length of data that is left out: of more than MaxData bytes, or not JSON.
	Size int `json:"size,omitempty"`
}

// Kinds are the kinds of changes.
var Kinds = []string{"event", "state", "kv", "alarm", "life", "queue", "conn", "sql", "workflow", "audit"}

// A Feed is a node that publishes changes. Errors are *host.Error.
type Feed interface {
	// FollowChanges calls f for changes as they become durable, from the present on, in the order
	// of commits for each actor. If f is too slow, records are left out, and a gap is reported:
	// followers delay nothing. It returns when ctx ends, with the error of f, or when the node
	// stops. No actor is woken.
	FollowChanges(ctx context.Context, q Query, f func(*Record) error) error
}
