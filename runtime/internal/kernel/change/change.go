// Package change publishes the changes of a node's actors: those of a commit, in an outbox that is
// written with it, and transitions that have no commit.
package change

import (
	"encoding/json"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A Sink publishes what actors' commits changed.
type Sink interface {
	// Committed hands over a change set that is durable and stands in the outbox under seq. It is
	// called in version order per actor and must not block.
	Committed(seq uint64, cs *engine.ChangeSet)
	// Life hands over a change that has no commit, best effort. It must not block.
	Life(cs *engine.ChangeSet)
	// Refuse returns an *host.Error while commits with durable events must be refused, else nil.
	Refuse() error
}

// A Feed passes changes to a Sink and to the followers. With a nil Sink it writes no outbox.
type Feed struct {
	Sink Sink
	Live Live
}

// Wanted reports whether a sink or a follower gets changes.
func (f *Feed) Wanted() bool { return f.Sink != nil || f.Live.following.Load() > 0 }

// Add appends a change to list. If it is not wanted, data is not called. Data that is no map
// becomes the member "data" of one; the version and the kind are added.
func (f *Feed) Add(list *[]engine.Change, kind engine.ChangeKind, name string,
	version engine.Version, data func() any) {
	if f.Wanted() {
		*list = append(*list, of(kind, name, version, data()))
	}
}

func of(kind engine.ChangeKind, name string, version engine.Version, data any) engine.Change {
	m, ok := data.(map[string]any)
	if !ok {
		m = map[string]any{"data": data}
	}
	m["version"], m["kind"] = version, kind.String()
	b, err := json.Marshal(m)
	if err != nil {
		b = []byte(`{}`) // the maps hold only strings, numbers, times and bytes
	}
	return engine.Change{Kind: kind, Name: name, Data: b}
}

// Transition is the data of a change of an actor's life.
func Transition(name string, generation engine.Generation, reason string) map[string]any {
	m := map[string]any{"transition": name, "generation": generation}
	if reason != "" {
		m["reason"] = reason
	}
	return m
}

// A Pending is a change set whose row in the outbox is not durable yet.
type Pending struct {
	seq uint64 // set by the commit
	set *engine.ChangeSet
}

// Write puts a change set into the outbox, if there is one.
func (f *Feed) Write(rows *engine.WriteSet, set *engine.ChangeSet) (p *Pending, err error) {
	p = &Pending{set: set}
	if f.Sink != nil {
		err = rows.Outbox(set.Append(nil), &p.seq)
	}
	return p, err
}

// Committed hands over change sets whose commit is durable.
func (f *Feed) Committed(list []*Pending) {
	for _, p := range list {
		if f.Sink != nil {
			f.Sink.Committed(p.seq, p.set)
		}
		f.Live.tell(p.set)
	}
}

// Life publishes a transition that has no commit. set names the actor and the version.
func (f *Feed) Life(set engine.ChangeSet, name, reason string) {
	f.life(set, name, Transition(name, set.Generation, reason))
}

// Failed publishes that an actor does not run.
func (f *Feed) Failed(id keyspace.ActorID, identity engine.Identity, of *host.Failure) {
	f.life(engine.ChangeSet{ID: id, Identity: identity}, "failed",
		map[string]any{"transition": "failed", "reason": of.Public, "retry_at": of.RetryAt})
}

func (f *Feed) life(set engine.ChangeSet, name string, data any) {
	f.Publish(set, engine.ChangeLife, name, data)
}

// Publish publishes a change that has no commit.
func (f *Feed) Publish(set engine.ChangeSet, kind engine.ChangeKind, name string, data any) {
	if !f.Wanted() {
		return
	}
	set.TimeMS, set.Changes = time.Now().UnixMilli(), []engine.Change{of(kind, name, set.Version, data)}
	if f.Sink != nil {
		f.Sink.Life(&set)
	}
	f.Live.tell(&set)
}
