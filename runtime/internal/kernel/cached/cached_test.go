package cached

import (
	"errors"
	"testing"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestValueIsReadOnceUntilItIsForgotten(t *testing.T) {
	s, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
	must(t, err)
	defer s.Close()
	id := s.NewActorID(engine.Identity{Namespace: "n", Type: "t", Key: []string{"k"}})
	space, err := s.OpenSpace(id)
	must(t, err)
	defer space.Close()
	rows := space.Writes()
	var v Value[int]
	reads := 0
	get := func() int {
		t.Helper()
		n, err := v.Get(rows, func() (int, error) { reads++; return 10 * reads, nil })
		must(t, err)
		return n
	}
	for range 2 {
		errorIf(t, get() != 10, "read again")
	}
	before := rows.Savepoint()
	at := rows.Version()
	rows.Advance(1)
	must(t, rows.Put(keyspace.Persisted.Append(nil), []byte("x"), engine.PutOptions{}))
	v.Set(rows, 5)
	errorIf(t, get() != 5, "not what was set")
	rows.Rollback(before)
	v.Forget(at)
	errorIf(t, get() != 20, "what was rolled back is remembered")
	v.Forget(rows.Version())
	errorIf(t, get() != 20, "what still holds was forgotten")
	var none Value[int]
	_, err = none.Get(rows, func() (int, error) { return 0, errors.New("no") })
	errorIf(t, err == nil || none.Known, "a failed read is remembered")
}

var must, errorIf = testutil.Must, testutil.ErrorIf
