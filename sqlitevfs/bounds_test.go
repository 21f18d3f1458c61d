package sqlitevfs

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestFullNamesTheBoundThatIsReached(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Temporary: 1 << 20, TurnBytes: 1 << 20, CacheBytes: 16 * PageSize})
	for _, c := range []struct{ what, statement, bound string }{
		{"a large sort", "SELECT i FROM (SELECT value AS i, randomblob(1000) AS v FROM generate_series(1, 20000) ORDER BY i % 17, v) LIMIT 1 OFFSET 19000",
			"temporary files of a large sort or VACUUM: 1114112 bytes are over the limit of 1048576"},
		{"a large change", "CREATE TABLE t (v); INSERT INTO t SELECT randomblob(1000) FROM generate_series(1, 20000)", "pages that the turn changes: 1052672 bytes are over the limit of 1048576"},
	} {
		err := r.try(t.Context(), func(db *sql.DB) error {
			rows, err := db.Query(c.statement)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
			}
			return rows.Err()
		})
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), c.bound) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestABlobOfTheDocumentedSizeFitsTheDefaults(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	blob := make([]byte, DefaultMaxLength-64) // less the rest of its row
	for i := range blob {
		blob[i] = byte(i * 7)
	}
	r.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
	r.turn(func(db *sql.DB) { run(t, db, "INSERT INTO t VALUES (1, ?)", blob) })
	r.turn(func(db *sql.DB) { run(t, db, "UPDATE t SET v = ?", blob) })
	r.turn(func(db *sql.DB) { // each statement leaves holes in the heap
		run(t, db, "INSERT INTO t VALUES (2, ?)", blob)
		run(t, db, "INSERT INTO t VALUES (1, ?) ON CONFLICT DO UPDATE SET v = excluded.v", blob)
		wantText(t, ask(t, db, "UPDATE t SET v = ? WHERE id = 2 RETURNING length(v)", blob), fmt.Sprint(len(blob)))
		run(t, db, "DELETE FROM t WHERE id = 2")
	})
	r.view(func(db *sql.DB) {
		var got []byte
		if err := db.QueryRow("SELECT v FROM t").Scan(&got); err != nil || !bytes.Equal(got, blob) {
			t.Errorf("%d bytes come back: %v", len(got), err)
		}
	})
}
