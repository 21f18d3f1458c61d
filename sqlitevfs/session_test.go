package sqlitevfs

import (
	"errors"
	"maps"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

// blobs is a statement that inserts n rows of 3,000 bytes into the table big.
func blobs(n string) string {
	return "INSERT INTO big SELECT randomblob(3000) FROM generate_series(1, " + n + ")"
}

func TestPagesReachTheWriterAtCommitOnly(t *testing.T) {
	r := newRig(t, Options{CacheBytes: 16 * PageSize}, "CREATE TABLE big (v BLOB); INSERT INTO big VALUES (1)")
	for range 5 {
		x := r.write()
		x.run(blobs("300") + "; CREATE INDEX x ON big (v)")
		fatalIf(t, len(x.conn.file.overlay) == 0, "the transaction was to be larger than the cache")
		fatalIf(t, x.Rollback() || x.w.puts != 0, "%d pages were put", x.w.puts)
		r.exec(blobs("20")) // the connection is kept, and continues with the old length
		r.sound()
	}
	x := r.write()
	x.run(blobs("500"))
	fatalIf(t, x.w.puts != 0, "%d pages were put before the commit", x.w.puts)
	must(t, x.commit())
	fatalIf(t, x.w.puts < 500, "%d pages were put", x.w.puts)
	r.sound("SELECT count(*) FROM big", "601")
}

func TestVacuumShrinksTheDatabase(t *testing.T) {
	for mode, vacuum := range map[string]string{"NONE": "VACUUM", "FULL": "", "INCREMENTAL": "PRAGMA incremental_vacuum"} {
		r := newRig(t, Options{CacheBytes: 16 * PageSize}, "PRAGMA auto_vacuum = "+mode, faultSchema, manyRows(1, 300))
		before := r.meta()
		r.turn(func(db handle) {
			db.run("DELETE FROM t WHERE id > 9")
			db.run(vacuum)
			db.run("INSERT INTO t VALUES (1000, 'after', 1)")
		})
		after := r.meta()
		fatalIf(t, after.Pages*3 > before.Pages || len(r.store.keys) != int(after.Pages)+1,
			"%s: %d pages, %d keys, and %d pages before", mode, after.Pages, len(r.store.keys), before.Pages)
		r.sound()
		r.exec(manyRows(400, 500))
		r.sound("SELECT count(*) FROM t", "111")
	}
}

func TestDamagedKeysAreCorruption(t *testing.T) {
	r := newRig(t, Options{}, faultSchema, manyRows(1, 50), "INSERT INTO t VALUES (51, NULL, 1)")
	meta := string(keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteMain))
	fatalIf(t, r.store.keys[meta][0] != formatPatched, "there is no patch in %x", r.store.keys[meta])
	refuses := func(says, key string, value []byte) {
		t.Helper()
		w := r.store.writer()
		if w.keys[key] = value; value == nil {
			delete(w.keys, key)
		}
		next := r.on(w)
		for _, x := range []*turn{next.read(), next.writeTo(w)} {
			_, err := answer(x.handle, "SELECT count(v), sum(length(v)), (SELECT max(w) FROM t), (SELECT n FROM total) FROM t")
			wantError(t, err, ErrCorrupt, says)
			x.Rollback()
		}
		next.db.Close()
	}
	for n := range r.meta().Pages {
		key := string(keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, n))
		for _, broken := range [][]byte{nil, make([]byte, PageSize-1), {}} {
			refuses("", key, broken)
		}
	}
	refuses("patch", meta, r.store.keys[meta][:len(r.store.keys[meta])-1])
	refuses("", meta, []byte{2, 0, 0})
	refuses("journal", string(keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteJournal)), []byte{1})
	damaged := maps.Clone(r.store.keys)
	damaged[meta] = damaged[meta][:len(damaged[meta])-1]
	wantErr(t, errOf(Export(t.Context(), nil, damaged)), ErrCorrupt)
}

func TestAShutSessionRefusesAllButItsEnd(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (a)")
	for _, open := range []bool{true, false} {
		x := r.write()
		x.run("INSERT INTO t VALUES (1)")
		tx, err := x.Begin()
		must(t, err)
		if !open {
			must(t, tx.Commit())
		}
		x.Shut()
		x.Wait()
		x.fails(ErrClosed, "", "INSERT INTO t VALUES (2)")
		if !open {
			must(t, x.commit())
			continue
		}
		wantErr(t, tx.Rollback(), ErrClosed)
		wantErr(t, x.commit(), ErrOpenTransaction)
	}
	r.sound("SELECT a FROM t", "1")
}

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
	// Each text undoes its changes, except the last.
	for name, texts := range map[string][]string{
		"by a savepoint": {"BEGIN; UPDATE t SET n = n + 1, v = randomblob(1900)", "ROLLBACK"},
		"by a savepoint after another change": {"UPDATE t SET n = n + 5, v = randomblob(1900)",
			"UPDATE t SET n = n - 5, v = randomblob(1900)",
			"BEGIN; UPDATE t SET n = n + 1, v = randomblob(1900) WHERE id > 10; DELETE FROM t WHERE id < 1000", "ROLLBACK"},
		"by a statement that fails": {"CREATE UNIQUE INDEX only ON t (n) WHERE n > 1",
			"UPDATE t SET v = randomblob(1900), n = CASE WHEN id > 1297 THEN 9 ELSE 1 END"},
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
