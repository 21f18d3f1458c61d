package sqlitevfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// A faultKind says how the calls of a Reader or Writer fail.
type faultKind struct {
	name   string
	err    error
	sticky bool
}

var faultKinds = []faultKind{
	{"full", fmt.Errorf("the quota of 10 bytes is used up: %w", ErrFull), false},
	{"io error once", sqlite3.IOERR_READ, false},
	{"io error from then on", errors.New("the disk is gone"), true},
	{"busy", sqlite3.BUSY, false},
	{"plain", errPlain, false},
}

// arm makes the n-th call fail, counted from 1, and counts the calls.
func (k faultKind) arm(w *mapWriter, n int) *armed {
	a := new(armed)
	w.fault = func(call string, _ []byte) error {
		a.calls++
		if a.calls == n {
			a.at = call
		}
		if a.calls == n || k.sticky && a.calls > n {
			return fmt.Errorf("%s: %w", call, k.err)
		}
		return nil
	}
	return a
}

type armed struct {
	calls int
	at    string // the call that failed
}

// The counts of rows in total must always agree with the table.
const faultSchema = `CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB, w INT);
CREATE INDEX by_w ON t (w);
CREATE TABLE total (n INT); INSERT INTO total VALUES (0);
CREATE TRIGGER plus AFTER INSERT ON t BEGIN UPDATE total SET n = n+1; END;
CREATE TRIGGER minus AFTER DELETE ON t BEGIN UPDATE total SET n = n-1; END;`

const faultDigest = "SELECT count(*) = (SELECT n FROM total), count(*), sum(id * 31 + w), sum(length(v)) FROM t"

func manyRows(from, to int) string {
	return fmt.Sprintf("INSERT INTO t SELECT value, zeroblob(1500 + value), value * 7 %% 101 FROM generate_series(%d, %d);", from, to)
}

// faultTurn has the statements of a turn, in order.
var faultTurn = []string{
	"UPDATE t SET w = w + 1 WHERE id % 3 = 0",
	manyRows(1000, 1060), // more than the cache holds, so pages are written early
	"SAVEPOINT a",
	"DELETE FROM t WHERE id > 20",
	manyRows(2000, 2030),
	"ROLLBACK TO a; RELEASE a",
	"DELETE FROM t WHERE id BETWEEN 5 AND 30",
	"CREATE TABLE other (v); INSERT INTO other VALUES (zeroblob(20000)); DROP TABLE other",
}

// digest returns a digest of a database's rows, after a check that it is sound.
func (r *rig) digest() string {
	r.t.Helper()
	r.sound()
	return r.ask(faultDigest)
}

// TestFaultAtAnyCallLeavesTheOldOrTheNewState refuses each call of a turn in turn. The first
// refusal is the error. After a failed publish the session neither reads nor writes: the Writer's
// pages have partly changed.
func TestFaultAtAnyCallLeavesTheOldOrTheNewState(t *testing.T) {
	t.Parallel()
	for i, kind := range faultKinds {
		for j, how := range []string{"small", "vacuum", "more pages than are remembered"} {
			if RaceDetector && (i+j)%2 > 0 { // the other kinds of faults without it
				continue
			}
			t.Run(kind.name+", "+how, func(t *testing.T) {
				t.Parallel()
				texts, first, step := faultTurn, 1, 1
				var r *rig
				switch how {
				case "vacuum":
					texts = append(slices.Clip(texts), "VACUUM")
					fallthrough
				case "small":
					r = newRig(t, Options{CacheBytes: 16 * PageSize}, faultSchema, manyRows(1, 60))
				default:
					r = newRig(t, Options{}, faultSchema, manyRows(1, 300), "UPDATE t SET v = randomblob(3500)")
					texts = []string{"UPDATE t SET v = randomblob(3000) WHERE id <= 270; DELETE FROM t WHERE id > 270"}
					first, step = 1+i, len(faultKinds) // each kind at some of the calls
				}
				if RaceDetector {
					first, step = 1+i*13, 67 // some calls of each kind
				}
				old := r.digest()
				work := func(w *mapWriter) (*turn, error) {
					x := r.writeTo(w)
					for _, text := range texts {
						if _, err := x.Exec(text); err != nil {
							return x, err
						}
					}
					return x, nil
				}
				whole := func() string {
					w := r.store.writer()
					x, err := work(w)
					must(t, err)
					must(t, errOf(x.Session.Commit()))
					r.db.Discard() // the writer is dropped
					next := r.on(w)
					defer next.db.Close()
					return next.digest()
				}
				next, failed := whole(), 0
				for n := first; ; n += step {
					w := r.store.writer()
					fault := kind.arm(w, n)
					x, err := work(w)
					changed := false
					if err == nil {
						changed, err = x.Session.Commit()
					}
					changed = x.Rollback() || changed
					if err == nil && fault.at == "" {
						break
					}
					failed++
					wantErr(t, err, kind.err, "call", n) // the cause is not lost
					fatalIf(t, errors.Is(kind.err, ErrFull) && !errors.Is(err, ErrFull), "call %d: %v is not ErrFull", n, err)
					if fault.at == "Put" || fault.at == "DeleteRange" {
						fatalIf(t, !changed ||
							fault.calls > n, "call %d failed in a publish: changed %v, %d calls after that", n, changed, fault.calls-n)
					}
					same(t, r.ask(faultDigest), old, n)
					if failed%10 == 2 { // the next turn continues from there, regardless of the connection's state
						same(t, whole(), next, n)
					}
				}
				fatalIf(t, failed < max(1, 60/step), "only %d calls failed", failed)
				r.sound()
			})
		}
	}
}

// TestTurnsThatIgnoreFaultsStayConsistent continues after failed statements, as a handler may, and
// commits.
func TestTurnsThatIgnoreFaultsStayConsistent(t *testing.T) {
	t.Parallel()
	for _, kind := range faultKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{CacheBytes: 16 * PageSize}, faultSchema, manyRows(1, 40))
			rnd := rand.New(rand.NewPCG(1, uint64(len(kind.name))))
			committed, refused, turns := 0, 0, 120
			if RaceDetector {
				turns = 30
			}
			for turn := range turns {
				before := r.ask(faultDigest)
				x := r.write()
				if rnd.IntN(3) == 0 {
					kind.arm(x.w, 1+rnd.IntN(120))
				}
				for range 1 + rnd.IntN(4) {
					id := rnd.IntN(200)
					x.Exec([]string{
						fmt.Sprintf("DELETE FROM t WHERE id BETWEEN %d AND %d", id, id+rnd.IntN(40)),
						strings.Replace(manyRows(id, id+rnd.IntN(40)), "INSERT", "INSERT OR IGNORE", 1),
						fmt.Sprintf("UPDATE t SET v = zeroblob(%d) WHERE id %% 7 = %d", rnd.IntN(9000), rnd.IntN(7)),
						fmt.Sprintf("SAVEPOINT s; DELETE FROM t WHERE id > %d; ROLLBACK TO s; RELEASE s", id),
						fmt.Sprintf("INSERT OR IGNORE INTO t VALUES (%d, zeroblob(%d), %d)", id, rnd.IntN(3000), rnd.IntN(100)),
						fmt.Sprintf("INSERT OR IGNORE INTO t VALUES (%d, zeroblob(%d), %d)", id, rnd.IntN(3000), rnd.IntN(100)),
					}[rnd.IntN(6)])
				}
				err := x.commit()
				x.Rollback()
				got := r.digest()
				if err == nil {
					committed++
				} else {
					refused++
					same(t, got, before, turn, err)
				}
				fatalIf(t, !strings.HasPrefix(got, "1|"), "turn %d: %s", turn, got)
			}
			fatalIf(t, committed < turns/4 || refused < turns/20, "%d turns were committed and %d refused", committed, refused)
		})
	}
}

func TestReadSessionsSurviveFaults(t *testing.T) {
	r := newRig(t, Options{CacheBytes: 16 * PageSize}, faultSchema, manyRows(1, 100))
	want := r.digest()
	calls := 60
	if RaceDetector {
		calls = 12
	}
	for n := 1; n < calls; n++ {
		r.db.Close()
		r.open("test") // first a new connection, then the same one
		for range 2 {
			from, calls := r.store.snapshot(), 0
			from.fault = func(string, []byte) error {
				if calls++; calls == n {
					return errPlain
				}
				return nil
			}
			x := r.readFrom(from)
			got, err := answer(x.handle, faultDigest)
			fatalIf(t, (calls >= n) != errors.Is(err, errPlain) || calls < n && got != want, "call %d: %q, %v", n, got, err)
			x.Rollback()
			same(t, r.ask(faultDigest), want, n)
		}
	}
	same(t, r.pool.Stats().InUse, 0)
}

// TestSessionGoesOnAfterAVacuumThatFailed makes VACUUM fail at each of its calls. It has no journal
// then, so either the session is over, or its database is sound.
func TestSessionGoesOnAfterAVacuumThatFailed(t *testing.T) {
	r := newRig(t, Options{}, faultSchema, manyRows(1, 60))
	poisoned, went := 0, 0
	for n := 1; ; n++ {
		if RaceDetector && n%5 != 0 {
			n++
		}
		r.db.Discard()
		x := r.write()
		x.run("DELETE FROM t WHERE id > 20")
		fault := faultKind{err: errPlain}.arm(x.w, n)
		_, err := x.Exec("VACUUM")
		x.w.fault = nil
		if err == nil {
			fatalIf(t, fault.at != "", "call %d failed, and nobody noticed", n)
			x.Rollback()
			break
		}
		if _, err := x.Exec("INSERT INTO t VALUES (100, 'x', 1)"); err != nil {
			poisoned++
			changed, err := x.Session.Commit()
			fatalIf(t, err == nil, "call %d: Commit = %v, %v", n, changed, err)
			continue
		}
		went++
		must(t, errOf(x.Session.Commit()), n)
		after := r.on(x.w)
		after.sound("SELECT count(*), (SELECT n FROM total) FROM t", "21|21")
		// And that connection is sound, too.
		next := r.writeTo(after.store.writer())
		next.run("DELETE FROM t WHERE id % 2 = 0;" + manyRows(300, 340))
		must(t, errOf(next.Session.Commit()))
		r.on(next.w).sound("SELECT count(*) = (SELECT n FROM total) FROM t", "1")
	}
	fatalIf(t, poisoned == 0, "no fault cost the session")
	t.Logf("%d faults cost the session, after %d it went on", poisoned, went)
}
