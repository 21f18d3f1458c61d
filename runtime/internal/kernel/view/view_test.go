package view

import (
	"testing"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A subject is an actor with one key, and its box.
type subject struct {
	Box
	t     *testing.T
	store *engine.Store
	space *engine.Space
	id    keyspace.ActorID
}

func newSubject(t *testing.T) *subject {
	s, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	x := &subject{t: t, store: s, id: s.NewActorID(engine.Identity{Namespace: "n", Type: "t", Key: []string{"k"}})}
	if x.space, err = s.OpenSpace(x.id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.space.Close)
	return x
}

var key = keyspace.Persisted.Append(nil)

// put commits a value, unless made is false, and publishes its view.
func (x *subject) put(value string, made bool) {
	x.t.Helper()
	x.Apply(true, func(n uint64) (*View, bool) {
		if !made {
			return nil, false
		}
		rows := x.space.Writes()
		rows.Advance(1)
		if err := rows.Put(key, []byte(value), engine.PutOptions{}); err != nil {
			x.t.Fatal(err)
		}
		version, err := x.space.Commit(func(error) {})
		if err != nil {
			x.t.Fatal(err)
		}
		return &View{Version: version, Commit: n, ID: x.id, Store: x.store}, true
	})
}

// read returns the value that a view shows.
func (x *subject) read(v *View) string {
	x.t.Helper()
	snap, err := x.SnapshotOf(v)
	if err != nil {
		x.t.Fatal(err)
	}
	e, _, err := snap.Get(key)
	if err != nil {
		x.t.Fatal(err)
	}
	return string(e.Value)
}

func TestQueryReadsItsVersionThoughTheActorHasGoneOn(t *testing.T) {
	x := newSubject(t)
	x.put("one", true)
	v := x.AcquireView()
	x.put("two", true)
	if got := x.read(v); got != "one" {
		t.Errorf("a query of the first commit reads %q", got)
	}
	x.ReleaseView(v)
	if v.snapshot != nil {
		t.Error("a view that nobody holds keeps its snapshot")
	}
	w := x.AcquireView()
	x.DropView()
	if got := x.read(w); got != "two" {
		t.Errorf("after the actor was given up, a query of the second commit reads %q", got)
	}
	x.ReleaseView(w)
}

func TestCommitThatIsNotMadeChangesNothing(t *testing.T) {
	x := newSubject(t)
	x.put("one", true)
	before := x.AcquireView()
	x.put("two", false)
	after := x.AcquireView()
	if before != after || x.Last() != 1 || x.read(after) != "one" {
		t.Errorf("commit %d, %q", x.Last(), x.read(after))
	}
	x.ReleaseView(before)
	x.ReleaseView(after)
	x.Apply(false, func(n uint64) (*View, bool) { return nil, true })
	if x.AcquireView() != before || x.Last() != 1 {
		t.Error("a commit without changes has replaced the view")
	}
}

func TestActorThatIsGivenUpHasNoView(t *testing.T) {
	x := newSubject(t)
	x.put("one", true)
	x.DropView()
	if x.AcquireView() != nil {
		t.Error("it has one")
	}
	lost := &View{ID: x.id, Store: x.store}
	if _, err := x.SnapshotOf(lost); err == nil {
		t.Error("a view that is not current has got a snapshot of what is")
	}
	x.EnsureView(lost)
	if v := x.AcquireView(); v != lost || v.Commit != 1 || x.read(v) != "one" {
		t.Errorf("%+v", v)
	}
	x.EnsureView(&View{})
	if x.AcquireView() != lost {
		t.Error("a view that is there was replaced")
	}
	x.ReleaseView(lost)
	x.ReleaseView(lost)
}
