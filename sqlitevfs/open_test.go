package sqlitevfs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func mustOpen(t *testing.T, s Store, ms []Migration) *DB {
	t.Helper()
	db, err := Open(t.Context(), s, ms, Options{})
	must(t, err)
	t.Cleanup(func() {
		check(t, db.Close())
	})
	return db
}

func runs(text string, args ...any) func(*sql.DB) error {
	return func(tx *sql.DB) error {
		_, err := tx.Exec(text, args...)
		return err
	}
}

func view(t *testing.T, db *DB, text string) (result string) {
	t.Helper()
	must(t, db.View(t.Context(), func(tx *sql.DB) error { return tx.QueryRow(text).Scan(&result) }), text)
	return result
}

// failing is a store whose commits fail after everything was put.
type failing struct {
	*mapStore
	fault error
}

func (f *failing) Update(ctx context.Context, g func(Writer) error) error {
	return f.mapStore.Update(ctx, func(w Writer) error { return errors.Join(g(w), f.fault) })
}

func TestCommitThatTheStoreRefusesLeavesNothingBehind(t *testing.T) {
	store := &failing{mapStore: newMapStore()}
	db := mustOpen(t, store, migrationsOf(`CREATE TABLE a (x)`))
	must(t, db.Update(t.Context(), runs(`INSERT INTO a VALUES (1)`)))
	store.fault = errors.New("no disk")
	for _, text := range []string{`INSERT INTO a VALUES (2)`, `CREATE TABLE b (x)`, `VACUUM`} {
		wantErr(t, db.Update(t.Context(), runs(text)), store.fault, text)
	}
	store.fault = nil
	must(t, db.Update(t.Context(), runs(`INSERT INTO a VALUES (3); CREATE TABLE b (x)`)))
	same(t, view(t, db, `SELECT group_concat(x) || ' ' || (SELECT * FROM pragma_integrity_check) FROM a`), "1,3 ok")
}

func TestUpdateThatFailsOrPanicsLeavesNothingBehind(t *testing.T) {
	db := mustOpen(t, newMapStore(), migrationsOf(`CREATE TABLE a (x); INSERT INTO a VALUES (1)`))
	fault := errors.New("fault")
	for name, end := range map[string]func() error{
		"error": func() error { return fault },
		"panic": func() error { panic(fault) },
	} {
		for _, text := range []string{`INSERT INTO a VALUES (2)`, `DELETE FROM a; CREATE TABLE b (x)`, `DELETE FROM a; VACUUM`} {
			func() {
				defer func() {
					p := recover()
					errorIf(t, (p != nil) != (name == "panic"), "%s: %s: panic %v", name, text, p)
				}()
				err := db.Update(t.Context(), func(tx *sql.DB) error {
					must(t, runs(text)(tx), name, text)
					return end()
				})
				errorIf(t, err != fault, "%s: %s: %v", name, text, err)
			}()
		}
	}
	same(t, view(t, db, `SELECT group_concat(x) || ' ' || (SELECT count(*) FROM sqlite_schema WHERE name = 'b') FROM a`), "1 0")
}

func TestViewReadsTheLastCommitAndCannotWrite(t *testing.T) {
	db := mustOpen(t, newMapStore(), migrationsOf(`CREATE TABLE a (x); INSERT INTO a VALUES (1)`))
	err := db.View(t.Context(), runs(`INSERT INTO a VALUES (2)`))
	errorIf(t, !errors.Is(err, ErrReadOnly), "write in a view: %v", err)
	err = db.View(t.Context(), func(before *sql.DB) error {
		err := db.Update(t.Context(), func(tx *sql.DB) error {
			if err := runs(`INSERT INTO a VALUES (2)`)(tx); err != nil {
				return err
			}
			same(t, view(t, db, `SELECT count(*) FROM a`), "1")
			return nil
		})
		if err != nil {
			return err
		}
		var n int
		err = before.QueryRow(`SELECT count(*) FROM a`).Scan(&n)
		errorIf(t, err != nil || n != 1, "a view from before a commit sees %d rows, %v", n, err)
		return nil
	})
	check(t, err)
	same(t, view(t, db, `SELECT count(*) FROM a`), "2")
}

func TestUpdatesTakeTurnsBesideViews(t *testing.T) {
	db := mustOpen(t, newMapStore(), migrationsOf(`CREATE TABLE a (n INTEGER, m INTEGER); INSERT INTO a VALUES (0, 0)`))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				err := db.Update(t.Context(), func(tx *sql.DB) error {
					var n int
					if err := tx.QueryRow(`SELECT n FROM a`).Scan(&n); err != nil {
						return err
					}
					return errors.Join(runs(`UPDATE a SET n = ?`, n+1)(tx), runs(`UPDATE a SET m = ?`, n+1)(tx))
				})
				check(t, err)
			}
		})
		wg.Go(func() {
			for range 25 {
				got := view(t, db, `SELECT CASE n WHEN m THEN 'same' ELSE n || ' and ' || m END FROM a`)
				errorIf(t, got != "same", "a view sees half of an update: %s", got)
			}
		})
	}
	wg.Wait()
	same(t, view(t, db, `SELECT n FROM a`), "100")
}

func TestUpdateWaitsNoLongerThanItsContext(t *testing.T) {
	db := mustOpen(t, newMapStore(), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	err := db.Update(t.Context(), func(*sql.DB) error {
		cancel(why)
		err := db.Update(ctx, func(*sql.DB) error { return nil })
		errorIf(t, !errors.Is(err, ErrInterrupted) || !errors.Is(err, why), "a waiting update: %v", err)
		return nil
	})
	check(t, err)
}

func TestCloseWaitsForWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), newMapStore(), migrationsOf(`CREATE TABLE a (x)`), Options{})
		must(t, err)
		release := make(chan struct{})
		var closed atomic.Bool
		go func() {
			err := db.View(t.Context(), func(tx *sql.DB) error {
				<-release
				errorIf(t, closed.Load(), "closed under a view")
				return runs(`SELECT * FROM a`)(tx)
			})
			check(t, err)
		}()
		synctest.Wait()
		go func() {
			check(t, db.Close())
			closed.Store(true)
		}()
		synctest.Wait()
		err = db.View(t.Context(), runs(`SELECT 1`))
		errorIf(t, !errors.Is(err, ErrClosed) || closed.Load(), "a view while it closes: %v; closed %v", err, closed.Load())
		close(release)
		synctest.Wait()
		errorIf(t, !closed.Load(), "not closed")
		wantErr(t, db.Update(t.Context(), runs(`SELECT 1`)), ErrClosed)
	})
}

func TestOpenAppliesMigrationsOnceAndFailsWithoutATrace(t *testing.T) {
	store := newMapStore()
	ms := migrationsOf(`CREATE TABLE a (x)`, `nonsense`)
	var fault *MigrationError
	_, err := Open(t.Context(), store, ms, Options{})
	errorIf(t, !errors.As(err, &fault) || fault.Name != "0002" || len(store.keys) > 0, "%v, %d keys", err, len(store.keys))
	mustOpen(t, store, ms[:1])
	before := store.keys
	mustOpen(t, store, ms[:1])
	mustOpen(t, store, nil)
	errorIf(t, len(before) != len(store.keys) || metadata(t, before) != metadata(t, store.keys),
		"opening it again wrote something")
	wantErr(t, errOf(Open(t.Context(), store, ms[:0], Options{})), ErrNewer)
	_, err = Open(t.Context(), store, nil, Options{MaxOpen: -1})
	errorIf(t, err == nil, "options with a fault were taken")
}

func TestImportThatTheStoreRefusesLeavesTheOldDatabase(t *testing.T) {
	from := mustOpen(t, newMapStore(), migrationsOf(`CREATE TABLE a (x); INSERT INTO a VALUES ('new')`))
	var file bytes.Buffer
	must(t, errOf(from.Export(t.Context(), &file)))
	store := &failing{mapStore: newMapStore()}
	db := mustOpen(t, store, migrationsOf(`CREATE TABLE a (x); INSERT INTO a VALUES ('old')`))
	store.fault = errors.New("no disk")
	wantErr(t, errOf(db.Import(t.Context(), bytes.NewReader(file.Bytes()), 1<<20)), store.fault)
	store.fault = nil
	must(t, db.Update(t.Context(), runs(`INSERT INTO a VALUES ('more')`)))
	same(t, view(t, db, `SELECT group_concat(x) FROM a`), "old,more")
	must(t, errOf(db.Import(t.Context(), &file, 1<<20)))
	must(t, db.Update(t.Context(), runs(`INSERT INTO a VALUES ('more')`)))
	same(t, view(t, db, `SELECT group_concat(x) FROM a`), "new,more")
}
