package sqlitevfs

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
)

// rewritten makes a database of about 8 MiB for connections whose heap has 3 MiB.
func rewritten(t *testing.T) *rig {
	r := newRig(t, Options{ConnMemory: 3 << 20, CacheBytes: 1 << 20, TurnBytes: 24 << 20})
	r.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, n, v)")
	r.exec("INSERT INTO t SELECT value, 0, randomblob(1900) FROM generate_series(1, 4000)")
	return r
}

const checkRewritten = "SELECT count(*), sum(n), sum(length(v)) FROM t"

func TestATurnRewritesMoreThanTheHeapOfAConnection(t *testing.T) {
	t.Parallel()
	r := rewritten(t)
	r.exec("UPDATE t SET n = n + 1, v = randomblob(1900)")
	r.view(func(db *sql.DB) {
		wantText(t, ask(t, db, checkRewritten), "4000|4000|7600000")
		wantText(t, ask(t, db, "PRAGMA integrity_check"), "ok")
	})
	r.exec("DELETE FROM t WHERE id % 2 = 0")
	r.view(func(db *sql.DB) {
		wantText(t, ask(t, db, checkRewritten), "2000|2000|3800000")
		wantText(t, ask(t, db, "PRAGMA integrity_check"), "ok")
	})
}

func TestWhatATurnRewroteIsUndone(t *testing.T) {
	for name, undone := range map[string]func(t *testing.T, db *sql.DB){
		"by a savepoint": func(t *testing.T, db *sql.DB) {
			tx, err := db.Begin()
			must(t, err)
			run(t, tx, "UPDATE t SET n = n + 1, v = randomblob(1900)")
			must(t, tx.Rollback())
		},
		"by a savepoint after another change": func(t *testing.T, db *sql.DB) {
			run(t, db, "UPDATE t SET n = n + 5, v = randomblob(1900)")
			run(t, db, "UPDATE t SET n = n - 5, v = randomblob(1900)")
			tx, err := db.Begin()
			must(t, err)
			run(t, tx, "UPDATE t SET n = n + 1, v = randomblob(1900) WHERE id > 10; DELETE FROM t WHERE id < 1000")
			must(t, tx.Rollback())
		},
		"by a statement that fails": func(t *testing.T, db *sql.DB) {
			run(t, db, "CREATE UNIQUE INDEX only ON t (n) WHERE n > 1")
			wantError(t, errOf(db.Exec("UPDATE t SET v = randomblob(1900), n = CASE WHEN id > 3997 THEN 9 ELSE 1 END")), ErrUnique, "")
		},
		"by the end of the session": func(t *testing.T, db *sql.DB) {
			run(t, db, "UPDATE t SET n = n + 1, v = randomblob(1900)")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rewritten(t)
			enough := errors.New("enough")
			for range 2 { // the second time with the connection of the first
				err := r.try(t.Context(), func(db *sql.DB) error {
					undone(t, db)
					if name != "by the end of the session" {
						wantText(t, ask(t, db, checkRewritten), "4000|0|7600000")
						wantText(t, ask(t, db, "PRAGMA integrity_check"), "ok")
					}
					return enough
				})
				fatalIf(t, !errors.Is(err, enough), "%v", err)
			}
			r.turn(func(db *sql.DB) {
				wantText(t, ask(t, db, checkRewritten), "4000|0|7600000")
				wantText(t, ask(t, db, "PRAGMA integrity_check"), "ok")
				run(t, db, "UPDATE t SET n = 7 WHERE id = 1")
			})
			r.view(func(db *sql.DB) { wantText(t, ask(t, db, checkRewritten), fmt.Sprintf("4000|7|%d", 7600000)) })
		})
	}
}

func TestAnIdleConnectionKeepsNothingToUndo(t *testing.T) {
	t.Parallel()
	r := rewritten(t)
	for range 2 { // the second time with the connection of the first
		r.turn(func(db *sql.DB) {
			run(t, db, "UPDATE t SET n = 0, v = randomblob(1900)")
			wantError(t, errOf(db.Exec("UPDATE t SET n = CASE WHEN id > 3997 THEN abs(-9223372036854775808) ELSE 1 END")), nil, "integer overflow")
			if used := r.pool.temporary.used.Load(); used < 4<<20 {
				t.Errorf("the turn can undo %d bytes", used)
			}
			wantText(t, ask(t, db, checkRewritten), "4000|0|7600000")
		})
		same(t, r.pool.temporary.used.Load(), 0)
	}
	got := r.pool.Stats()
	errorIf(t, got.Closed != 0, "%d connections were closed", got.Closed)
}
