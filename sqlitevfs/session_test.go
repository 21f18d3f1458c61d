package sqlitevfs

import (
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
		r.exec(blobs("20")) // the connection is kept, and goes on from the old length
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
