package sqlitevfs

import (
	"errors"
	"testing"
)

// rewritten makes a database of about 2.6 MiB for connections whose heap has 2 MiB.
func rewritten(t *testing.T) *rig {
	t.Parallel()
	return newRig(t, Options{ConnMemory: 2 << 20, CacheBytes: 512 << 10, TurnBytes: 12 << 20},
		"CREATE TABLE t (id INTEGER PRIMARY KEY, n, v); INSERT INTO t SELECT value, 0, randomblob(1900) FROM generate_series(1, 1300)")
}

const checkRewritten = "SELECT count(*), sum(n), sum(length(v)) FROM t"

func TestATurnRewritesMoreThanTheHeapOfAConnection(t *testing.T) {
	r := rewritten(t)
	r.exec("UPDATE t SET n = n + 1, v = randomblob(1900)")
	r.sound(checkRewritten, "1300|1300|2470000")
	r.exec("DELETE FROM t WHERE id % 2 = 0")
	r.sound(checkRewritten, "650|650|1235000")
}

func TestWhatATurnRewroteIsUndone(t *testing.T) {
	// Each text but the last undoes what it did.
	for name, texts := range map[string][]string{
		"by a savepoint": {"BEGIN; UPDATE t SET n = n + 1, v = randomblob(1900)", "ROLLBACK"},
		"by a savepoint after another change": {"UPDATE t SET n = n + 5, v = randomblob(1900)", "UPDATE t SET n = n - 5, v = randomblob(1900)",
			"BEGIN; UPDATE t SET n = n + 1, v = randomblob(1900) WHERE id > 10; DELETE FROM t WHERE id < 1000", "ROLLBACK"},
		"by a statement that fails": {"CREATE UNIQUE INDEX only ON t (n) WHERE n > 1", "UPDATE t SET v = randomblob(1900), n = CASE WHEN id > 1297 THEN 9 ELSE 1 END"},
		"by the end of the session": {"UPDATE t SET n = n + 1, v = randomblob(1900)"},
	} {
		t.Run(name, func(t *testing.T) {
			r, enough := rewritten(t), errors.New("enough")
			for range 2 { // the second time with the connection of the first
				wantErr(t, r.try(t.Context(), func(db handle) error {
					for _, text := range texts {
						err := errOf(db.Exec(text))
						errorIf(t, err != nil && !errors.Is(err, ErrUnique), "%s: %v", text, err)
					}
					if name != "by the end of the session" {
						db.sound(checkRewritten, "1300|0|2470000")
					}
					return enough
				}), enough)
			}
			r.turn(func(db handle) {
				db.sound(checkRewritten, "1300|0|2470000")
				db.run("UPDATE t SET n = 7 WHERE id = 1")
			})
			r.sound(checkRewritten, "1300|7|2470000")
		})
	}
}

func TestAnIdleConnectionKeepsNothingToUndo(t *testing.T) {
	r := rewritten(t)
	for range 2 { // the second time with the connection of the first
		r.turn(func(db handle) {
			db.run("UPDATE t SET n = 0, v = randomblob(1900)")
			db.fails(nil, "integer overflow", "UPDATE t SET n = CASE WHEN id > 1297 THEN abs(-9223372036854775808) ELSE 1 END")
			used := r.pool.temporary.used.Load()
			errorIf(t, used < 2<<20, "the turn can undo %d bytes", used)
			db.want(checkRewritten, "1300|0|2470000")
		})
		same(t, r.pool.temporary.used.Load(), 0)
	}
	same(t, r.pool.Stats().Closed, 0)
}
