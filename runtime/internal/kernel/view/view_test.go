package view

import (
	"testing"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
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
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	x := &subject{t: t, store: s, id: s.NewActorID(engine.Identity{Namespace: "n", Type: "t", Key: []string{"k"}})}
	x.space, err = s.OpenSpace(x.id)
	must(t, err)
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
		must(x.t, rows.Put(key, []byte(value), engine.PutOptions{}))
		version, err := x.space.Commit(func(error) {})
		must(x.t, err)
		return &View{Version: version, Commit: n, ID: x.id, Store: x.store}, true
	})
}

// read returns the value that a view shows.
func (x *subject) read(v *View) string {
	x.t.Helper()
	snap, err := x.SnapshotOf(v)
	must(x.t, err)
	e, _, err := snap.Get(key)
	must(x.t, err)
	return string(e.Value)
}

func TestQueryReadsItsVersionThoughTheActorHasGoneOn(t *testing.T) {
	x := newSubject(t)
	x.put("one", true)
	v := x.AcquireView()
	x.put("two", true)
	got := x.read(v)
	errorIf(t, got != "one", "a query of the first commit reads %q", got)
	x.ReleaseView(v)
	errorIf(t, v.snapshot != nil, "a view that nobody holds keeps its snapshot")
	w := x.AcquireView()
	x.DropView()
	got = x.read(w)
	errorIf(t, got != "two", "after the actor was given up, a query of the second commit reads %q", got)
	x.ReleaseView(w)
}

func TestCommitThatIsNotMadeChangesNothing(t *testing.T) {
	x := newSubject(t)
	x.put("one", true)
	before := x.AcquireView()
	x.put("two", false)
	after := x.AcquireView()
	errorIf(t, before != after || x.Last() != 1 || x.read(after) != "one", "commit %d, %q", x.Last(), x.read(after))
	x.ReleaseView(before)
	x.ReleaseView(after)
	x.Apply(false, func(n uint64) (*View, bool) { return nil, true })
	errorIf(t, x.AcquireView() != before || x.Last() != 1, "a commit without changes has replaced the view")
}

func TestActorThatIsGivenUpHasNoView(t *testing.T) {
	x := newSubject(t)
	x.put("one", true)
	x.DropView()
	errorIf(t, x.AcquireView() != nil, "it has one")
	lost := &View{ID: x.id, Store: x.store}
	_, err := x.SnapshotOf(lost)
	errorIf(t, err == nil, "a view that is not current has got a snapshot of what is")
	x.EnsureView(lost)
	v := x.AcquireView()
	errorIf(t, v != lost || v.Commit != 1 || x.read(v) != "one", "%+v", v)
	x.EnsureView(&View{})
	errorIf(t, x.AcquireView() != lost, "a view that is there was replaced")
	x.ReleaseView(lost)
	x.ReleaseView(lost)
}

var must, errorIf = testutil.Must, testutil.ErrorIf
