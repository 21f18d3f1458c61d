package sqlitevfs

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
)

func TestFullNamesTheBoundThatIsReached(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Temporary: 1 << 20, TurnBytes: 1 << 20, CacheBytes: 16 * PageSize})
	for _, c := range []struct{ what, statement, bound string }{
		{"a large sort", "SELECT i FROM (SELECT value AS i, randomblob(1000) AS v FROM generate_series(1, 20000) ORDER BY i % 17, v) LIMIT 1 OFFSET 19000",
			"temporary files, of large sorts and VACUUM, take more than 1048576 bytes"},
		{"a large change", "CREATE TABLE t (v); INSERT INTO t SELECT randomblob(1000) FROM generate_series(1, 20000)", "a turn may change 1048576 bytes of pages"},
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
