package sqlitevfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hasty makes a pool stop calls soon after the end of their context.
func hasty(p *Pool) { p.lookAfter, p.stopAfter = 5*time.Millisecond, 20*time.Millisecond }

// endless is a call of a function that takes hours: it multiplies two numbers of a million digits.
const endless = `SELECT decimal_mul(printf('%.*c', 1000000, '7'), printf('%.*c', 1000000, '3'))`

func needStop(t *testing.T) {
	if !canProtect {
		t.Skip("calls cannot be stopped on this system")
	}
}

func TestCallOfAFunctionThatDoesNotEndIsStopped(t *testing.T) {
	needStop(t)
	r := newRig(t, Options{}, "CREATE TABLE t (v); INSERT INTO t VALUES (1)")
	hasty(r.pool)
	why := errors.New("the turn took too long")
	// stopped makes a call whose deadline passes while it runs. On a slow machine the deadline may
	// pass before the call begins; then it tries again with a later one.
	stopped := func(what string, call func(ctx context.Context) (began bool, err error)) {
		t.Helper()
		for d := 10 * time.Millisecond; ; d *= 2 {
			ctx, cancel := context.WithTimeoutCause(t.Context(), d, why)
			began, err := call(ctx)
			cancel()
			if began || d > time.Minute {
				wantErr(t, err, ErrInterrupted, what)
				return
			}
		}
	}
	stopped("in a turn", func(ctx context.Context) (began bool, err error) {
		err = r.try(ctx, func(db handle) error {
			if err := errOf(db.Exec("INSERT INTO t VALUES (2)")); err != nil {
				return err
			}
			began = true
			db.fails(ErrInterrupted, why.Error(), endless)
			db.fails(nil, "", "SELECT 1") // the instance was stopped
			return nil
		})
		if err == nil { // the turn was committed if its deadline passed between the two
			r.exec("DELETE FROM t WHERE v = 2")
		}
		return began && err != nil, err
	})
	stopped("in a query", func(ctx context.Context) (bool, error) {
		x := r.session(r.db.Read(ctx, r.store.snapshot()), nil)
		defer x.Rollback()
		err := errOf(x.Exec(endless))
		return errors.Is(x.poisoned, why), err
	})
	stopped("by the context of a statement", func(ctx context.Context) (bool, error) {
		x := r.read()
		defer x.Rollback()
		err := errOf(x.QueryContext(ctx, endless))
		return err != context.DeadlineExceeded, err
	})
	x := r.read()
	left := make(chan error) // by a handler
	go func() { left <- errOf(x.Query(endless)) }()
	for !x.Used() {
		runtime.Gosched()
	}
	x.Rollback()
	wantErr(t, <-left, ErrInterrupted, "in a goroutine that the handler left")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	migration := r.session(r.db.Write(ctx, r.store.writer()), nil)
	wantErr(t, errOf(migration.Migrate(migrationsOf(endless))), ErrInterrupted, "in a migration")
	migration.Rollback()
	// The next session has another instance, and the database is unchanged.
	r.exec("INSERT INTO t VALUES (3)")
	r.sound("SELECT v FROM t", "1,3")
	same(t, r.pool.Stats().InUse, 0)
}

// TestEveryFunctionEndsWithItsContext calls each function of the library with large arguments. The
// test would not end if a call could not be stopped.
func TestEveryFunctionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	needStop(t)
	r := newRig(t, Options{Logger: slog.New(slog.DiscardHandler)})
	hasty(r.pool)
	var calls []string
	r.view(func(db handle) {
		// Each extension is registered once a statement has used one of its functions.
		for _, text := range []string{"SELECT fts5_source_id()", "SELECT rtreedepth(x'00000000')", "SELECT vec1_version()"} {
			answer(db, text)
		}
		// The function of a JSON operator has another name. A negative number of arguments means
		// any number.
		list := db.ask(`SELECT DISTINCT '"' || name || '"(' || substr('a, b, c, d, e', 1, max(0, 3 * iif(narg < 0, 2, min(narg, 5)) - 2)) || ')' || iif(type = 'w', ' OVER ()', '')
			FROM pragma_function_list WHERE name NOT LIKE '->%' ORDER BY 1`)
		for call := range strings.SplitSeq(strings.ReplaceAll(list, "),", ")\n"), "\n") {
			calls = append(calls, "SELECT length("+call+") FROM large")
		}
	})
	fatalIf(t, len(calls) < 150, "there are %d functions; want more", len(calls))
	const size = 1_000_000
	digits, pattern := strings.Repeat("7", size), strings.Repeat("a%", 400)+"b"
	members := make([]string, 60_000)
	for i := range members {
		members[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	object := "{" + strings.Join(members, ",") + "}"
	large := [][5]any{
		{digits, digits, digits, digits, digits},
		{object, object, object, object, object},
		{pattern, strings.Repeat("a", size), pattern, pattern, pattern},
		{int64(1) << 40, int64(1) << 40, int64(1) << 40, int64(1) << 40, int64(1) << 40},
		{strings.Repeat("00", size/2), strings.Repeat("-", size), []byte(digits), []byte(digits), []byte(digits)},
	}
	const parts = 10 // the short form makes one part of the calls
	chosen := rand.IntN(parts)
	for i, values := range large {
		for j, call := range calls {
			if (i*len(calls)+j)%parts != chosen && os.Getenv("CAIRN_LONG") == "" {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			s := r.db.Read(context.Background(), r.store.snapshot())
			rows, err := s.DB().QueryContext(ctx, "WITH large (a, b, c, d, e) AS (VALUES (?, ?, ?, ?, ?)) "+call, values[:]...)
			if err == nil {
				for rows.Next() {
				}
				err = rows.Err()
				rows.Close()
			}
			cancel()
			s.Rollback()
			_, ok := errors.AsType[*Error](err)
			errorIf(t, err != nil && !ok && !errors.Is(err, context.DeadlineExceeded), "%s: %v", call, err)
		}
	}
	same(t, r.pool.Stats().InUse, 0)
}

func TestDecimalsAreRefusedUnlessTheDatabaseHasThem(t *testing.T) {
	r := newRig(t, Options{})
	without := r.session(r.pool.Database("without").Read(t.Context(), r.store.snapshot()), nil)
	for _, call := range []string{"decimal('1')", "decimal_mul('2', '3')", "decimal_sum('1')", "decimal_pow2(3)"} {
		without.fails(ErrRefused, "decimals are not enabled", "SELECT "+call)
	}
	r.sound("SELECT decimal_mul('2', '3')", "6")
}

func TestCheckOfAnImportThatDoesNotEndIsStopped(t *testing.T) {
	needStop(t)
	r := newRig(t, Options{},
		`CREATE TABLE t (v); CREATE INDEX i ON t (substr(v, 1,  0)); INSERT INTO t VALUES (printf('%.*c', 1000000, '7'))`)
	hasty(r.pool)
	hostile := bytes.ReplaceAll(r.export(), []byte("substr(v, 1,  0)"), []byte("decimal_mul(v,v)"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	wantError(t, errOf(r.pool.Database("other").Import(ctx, r.store.writer(), bytes.NewReader(hostile), 1<<30)), ErrInterrupted, "")
}
