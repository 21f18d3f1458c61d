package sqlitevfs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// failing is a store whose commits fail after everything was put.
type failing struct {
	*mapStore
	fault error
}

func (f *failing) Update(ctx context.Context, g func(Writer) error) error {
	return f.mapStore.Update(ctx, func(w Writer) error { return errors.Join(g(w), f.fault) })
}

// A desk is an open database in a store whose commits can be made to fail.
type desk struct {
	*DB
	t     *testing.T
	store *failing
}

func newDesk(t *testing.T, texts ...string) desk {
	t.Helper()
	store := &failing{mapStore: &mapStore{keys: keys{}}}
	db, err := Open(t.Context(), store, migrationsOf(texts...), Options{})
	must(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	return desk{db, t, store}
}

func runs(text string, args ...any) func(*sql.DB) error {
	return func(tx *sql.DB) error { return errOf(tx.Exec(text, args...)) }
}

func (d desk) run(text string) {
	d.t.Helper()
	must(d.t, d.Update(d.t.Context(), runs(text)), text)
}

func (d desk) want(text, want string) {
	d.t.Helper()
	must(d.t, d.View(d.t.Context(), func(tx *sql.DB) error { same(d.t, ask(d.t, tx, text), want, text); return nil }))
}

func TestUpdateThatFailsLeavesNothingBehind(t *testing.T) {
	fault := errors.New("fault")
	db := newDesk(t, `CREATE TABLE a (x); INSERT INTO a VALUES (1)`)
	for name, end := range map[string]func() error{
		"error":     func() error { return fault },
		"panic":     func() error { panic(fault) },
		"the store": func() error { db.store.fault = fault; return nil },
	} {
		for _, text := range []string{`INSERT INTO a VALUES (2)`, `DELETE FROM a; CREATE TABLE b (x)`, `DELETE FROM a; VACUUM`} {
			func() {
				defer func() {
					p := recover()
					errorIf(t, (p != nil) != (name == "panic"), "%s: %s: panic %v", name, text, p)
				}()
				wantErr(t, db.Update(t.Context(), func(tx *sql.DB) error {
					must(t, runs(text)(tx), name, text)
					return end()
				}), fault, name, text)
			}()
			db.store.fault = nil
			db.want(`SELECT group_concat(x), (SELECT count(*) FROM sqlite_schema WHERE name = 'b') FROM a`, "1|0")
		}
	}
	db.run(`INSERT INTO a VALUES (3); CREATE TABLE b (x)`)
	db.want(`SELECT group_concat(x), (SELECT * FROM pragma_integrity_check) FROM a`, "1,3|ok")
}

func TestViewReadsTheLastCommitAndCannotWrite(t *testing.T) {
	db := newDesk(t, `CREATE TABLE a (x); INSERT INTO a VALUES (1)`)
	wantErr(t, db.View(t.Context(), runs(`INSERT INTO a VALUES (2)`)), ErrReadOnly)
	must(t, db.View(t.Context(), func(before *sql.DB) error {
		must(t, db.Update(t.Context(), func(tx *sql.DB) error {
			must(t, runs(`INSERT INTO a VALUES (2)`)(tx))
			db.want(`SELECT count(*) FROM a`, "1")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errPlain)
			err := db.Update(ctx, runs(``)) // waits for its turn only as long as its context
			errorIf(t, !errors.Is(err, ErrInterrupted) || !errors.Is(err, errPlain), "a waiting update: %v", err)
			return nil
		}))
		same(t, ask(t, before, `SELECT count(*) FROM a`), "1", "in a view from before the commit")
		return nil
	}))
	db.want(`SELECT count(*) FROM a`, "2")
}

func TestUpdatesTakeTurnsBesideViews(t *testing.T) {
	db := newDesk(t, `CREATE TABLE a (n INTEGER, m INTEGER); INSERT INTO a VALUES (0, 0)`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				check(t, db.Update(t.Context(), func(tx *sql.DB) error {
					var n int
					if err := tx.QueryRow(`SELECT n FROM a`).Scan(&n); err != nil {
						return err
					}
					return errors.Join(runs(`UPDATE a SET n = ?`, n+1)(tx), runs(`UPDATE a SET m = ?`, n+1)(tx))
				}))
			}
		})
		wg.Go(func() {
			for range 25 {
				var whole bool
				check(t, db.View(t.Context(), func(tx *sql.DB) error { return tx.QueryRow(`SELECT n = m FROM a`).Scan(&whole) }))
				errorIf(t, !whole, "a view sees half of an update")
			}
		})
	}
	wg.Wait()
	db.want(`SELECT n FROM a`, "100")
}

func TestCloseWaitsForWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDesk(t, `CREATE TABLE a (x)`)
		release := make(chan struct{})
		var closed atomic.Bool
		go func() {
			check(t, db.View(t.Context(), func(tx *sql.DB) error {
				<-release
				errorIf(t, closed.Load(), "closed under a view")
				return runs(`SELECT * FROM a`)(tx)
			}))
		}()
		synctest.Wait()
		go func() {
			check(t, db.Close())
			closed.Store(true)
		}()
		synctest.Wait()
		err := db.View(t.Context(), runs(`SELECT 1`))
		errorIf(t, !errors.Is(err, ErrClosed) || closed.Load(), "a view while it closes: %v; closed %v", err, closed.Load())
		close(release)
		synctest.Wait()
		errorIf(t, !closed.Load(), "not closed")
		wantErr(t, db.Update(t.Context(), runs(`SELECT 1`)), ErrClosed)
	})
}

func TestOpenAppliesMigrationsOnceAndFailsWithoutATrace(t *testing.T) {
	store := &mapStore{keys: keys{}}
	ms := migrationsOf(`CREATE TABLE a (x)`, `nonsense`)
	err := errOf(Open(t.Context(), store, ms, Options{}))
	fault, ok := errors.AsType[*MigrationError](err)
	errorIf(t, !ok || fault.Name != "0002" || len(store.keys) > 0, "%v, %d keys", err, len(store.keys))
	var before string
	for _, ms := range [][]Migration{ms[:1], ms[:1], nil} {
		db, err := Open(t.Context(), store, ms, Options{})
		must(t, err)
		must(t, db.Close())
		if before == "" {
			before = fmt.Sprint(store.keys)
		}
		errorIf(t, fmt.Sprint(store.keys) != before, "opening it again wrote something")
	}
	wantErr(t, errOf(Open(t.Context(), store, ms[:0], Options{})), ErrNewer)
	wantError(t, errOf(Open(t.Context(), store, nil, Options{MaxOpen: -1})), nil, "MaxOpen")
}

func TestImportThatTheStoreRefusesLeavesTheOldDatabase(t *testing.T) {
	// Both have the same schema cookie.
	from := newDesk(t, `CREATE TABLE pad (x)`, `CREATE TABLE b (name TEXT); INSERT INTO b VALUES ('new')`)
	db := newDesk(t, `CREATE TABLE a (x); INSERT INTO a VALUES ('old')`, `CREATE TABLE a2 (x)`)
	var file bytes.Buffer
	must(t, errOf(from.Export(t.Context(), &file)))
	db.want(`SELECT x FROM a`, "old")
	db.store.fault = errors.New("no disk")
	wantErr(t, errOf(db.Import(t.Context(), bytes.NewReader(file.Bytes()), 1<<20)), db.store.fault)
	db.store.fault = nil
	db.run(`INSERT INTO a VALUES ('more')`)
	db.want(`SELECT group_concat(x) FROM a`, "old,more")
	must(t, errOf(db.Import(t.Context(), &file, 1<<20)))
	db.want(`SELECT name FROM b`, "new") // on a connection with the old schema
	err := db.View(t.Context(), runs(`SELECT x FROM a2`))
	wantError(t, err, nil, "no such table")
	db.run(`INSERT INTO b VALUES ('more')`)
	db.want(`SELECT group_concat(name) FROM b`, "new,more")
}
