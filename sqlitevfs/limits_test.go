package sqlitevfs

import (
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"
)

// A database has limits of its own, from its next session on, and an instance that it had served leaves none to the next.
func TestLimitsOfADatabaseAreItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	attempts := []struct{ what, statement, bound string }{
		{"a row", "INSERT INTO t VALUES (zeroblob(100000))", "65536"},
		{"a sort", "INSERT INTO t SELECT max(v) FROM (SELECT i, v FROM (SELECT value AS i, randomblob(1000) AS v FROM generate_series(1, 5000) ORDER BY i % 17, v) LIMIT 1 OFFSET 4900)",
			"temporary files of a large sort or VACUUM: 1114112 bytes are over the limit of 1048576"},
		{"a turn", "INSERT INTO t SELECT randomblob(1000) FROM generate_series(1, 3000)", "pages that the turn changes: 1052672 bytes are over the limit of 1048576"},
	}
	try := func(statement string) error {
		return r.try(t.Context(), func(db *sql.DB) error {
			_, err := db.Exec(statement)
			return err
		})
	}
	r.exec("CREATE TABLE t (v)")
	for _, huge := range []int{1 << 32, math.MaxInt} { // more than SQLite's own type of a length holds
		r.db.SetLimits(Limits{MaxLength: huge})
		if err := try("INSERT INTO t VALUES (zeroblob(100000))"); err != nil {
			t.Errorf("a row, with the limit %d: %v", huge, err)
		}
	}
	small := Limits{TurnBytes: 1 << 20, Temporary: 1 << 20, MaxLength: 64 << 10}
	for _, round := range []struct {
		limits Limits
		small  bool
	}{{Limits{}, false}, {small, true}, {Limits{}, false}} {
		r.db.SetLimits(round.limits)
		for _, a := range attempts {
			switch err := try(a.statement); {
			case round.small && (err == nil || !strings.Contains(err.Error(), a.bound)):
				t.Errorf("%s, with limits: %v", a.what, err)
			case !round.small && err != nil:
				t.Errorf("%s, without: %v", a.what, err)
			}
		}
	}
	r.db.SetLimits(small)
	if try(attempts[0].statement) == nil {
		t.Error("the limits are not set")
	}
	r.db.Close() // its instances serve the next database
	r.db = r.pool.Database("next")
	for _, a := range attempts {
		if err := try(a.statement); err != nil {
			t.Errorf("%s, in another database: %v", a.what, err)
		}
	}
}

func TestMemoryOfAConnectionIsALimitOfItsDatabase(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (v)")
	long := func() error {
		return r.try(t.Context(), func(db *sql.DB) error {
			_, err := db.Exec("INSERT INTO t VALUES (length(hex(zeroblob(3000000))))")
			return err
		})
	}
	if err := long(); err != nil {
		t.Fatal(err)
	}
	r.db.Discard() // the connection has grown
	r.db.SetLimits(Limits{ConnMemory: 2 << 20})
	var limit *LimitError
	if err := long(); !errors.As(err, &limit) || !errors.Is(err, ErrMemory) || limit.Limit != 2<<20 {
		t.Errorf("with 2 MiB: %v", err)
	}
	r.db.SetLimits(Limits{ConnMemory: 1 << 40}) // the pool's is the most
	if err := long(); err != nil {
		t.Errorf("with the pool's: %v", err)
	}
}
