package sqlitevfs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
func (k faultKind) arm(w *mapWriter, n int) (calls *int) {
	calls = new(int)
	w.fault = func(call string, _ []byte) error {
		*calls++
		if *calls == n || k.sticky && *calls > n {
			return fmt.Errorf("%s: %w", call, k.err)
		}
		return nil
	}
	return calls
}

// The counts of rows in total have to agree with the table at all times.
const faultSchema = `CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB, w INT);
CREATE INDEX by_w ON t (w);
CREATE TABLE total (n INT); INSERT INTO total VALUES (0);
CREATE TRIGGER plus AFTER INSERT ON t BEGIN UPDATE total SET n = n+1; END;
CREATE TRIGGER minus AFTER DELETE ON t BEGIN UPDATE total SET n = n-1; END;`

const faultDigest = "SELECT count(*) = (SELECT n FROM total), count(*), sum(id * 31 + w), sum(length(v)) FROM t"

func manyRows(from, to int) string {
	return fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i+1 FROM n WHERE i < %d) INSERT INTO t SELECT i, zeroblob(1500 + i), i * 7 %% 101 FROM n;", from, to)
}

// faultTurn is what a turn does, one statement after the other.
var faultTurn = []string{
	"UPDATE t SET w = w + 1 WHERE id % 3 = 0",
	manyRows(1000, 1060), // more than the cache, so that pages are written early
	"SAVEPOINT a",
	"DELETE FROM t WHERE id > 20",
	manyRows(2000, 2030),
	"ROLLBACK TO a; RELEASE a",
	"DELETE FROM t WHERE id BETWEEN 5 AND 30",
	"CREATE TABLE other (v); INSERT INTO other VALUES (zeroblob(20000)); DROP TABLE other",
}

func TestFaultAtAnyCallLeavesTheOldOrTheNewState(t *testing.T) {
	t.Parallel()
	for i, kind := range faultKinds {
		for _, vacuum := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, vacuum %v", kind.name, vacuum), func(t *testing.T) {
				t.Parallel()
				p := newTestPool(t, Options{CacheBytes: 16 * PageSize})
				m, d := newMapStore(), p.Database("test")
				writeStore(t, m, d, faultSchema, manyRows(1, 60))
				old := readStore(t, m, d, faultDigest)

				turn := func(w *mapWriter) error {
					s := d.Write(context.Background(), w)
					defer s.Rollback()
					for _, q := range faultTurn {
						if err := execNative(s, q); err != nil {
							return err
						}
					}
					if vacuum {
						if err := vacuumNative(s); err != nil {
							return err
						}
					}
					_, err := s.Commit()
					return err
				}
				w := m.writer()
				must(t, turn(w))
				after := newMapStore()
				after.commit(w)
				next := readStore(t, after, p.Database("after"), faultDigest)
				d.Discard() // the writer is dropped

				first, step := 1, 1
				if RaceDetector {
					first, step = 1+i*7, 37 // some calls of each kind
				}
				failed := 0
				for n := first; ; n += step {
					w := m.writer()
					calls := kind.arm(w, n)
					err := turn(w)
					if err == nil && *calls < n {
						break
					}
					fatalIf(t, err == nil, "call %d failed, and nobody noticed", n)
					failed++
					fatalIf(t, !errors.Is(err, kind.err), "call %d: the cause is lost in %v", n, err)
					fatalIf(t, errors.Is(kind.err, ErrFull) && !errors.Is(err, ErrFull),
						"call %d: %v is not ErrFull", n, err)
					same(t, readStore(t, m, d, faultDigest), old, n)
					// The next turn goes on from there, whatever happened to the connection.
					if failed%10 == 5 {
						w := m.writer()
						must(t, turn(w), n)
						after := newMapStore()
						after.commit(w)
						same(t, readStore(t, after, p.Database("after"), faultDigest+"; PRAGMA integrity_check"), next+",ok", n, next)
						d.Discard()
					}
				}
				fatalIf(t, failed < 100/step, "only %d calls failed", failed)
				checkStore(t, m, d)
			})
		}
	}
}

// TestTurnsThatIgnoreFaultsStayConsistent goes on after statements that failed, as a handler may, and commits.
func TestTurnsThatIgnoreFaultsStayConsistent(t *testing.T) {
	t.Parallel()
	for _, kind := range faultKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			p := newTestPool(t, Options{CacheBytes: 16 * PageSize})
			m, d := newMapStore(), p.Database("test")
			writeStore(t, m, d, faultSchema, manyRows(1, 40))
			rnd := rand.New(rand.NewPCG(1, uint64(len(kind.name))))
			committed, refused, turns := 0, 0, 120
			if RaceDetector {
				turns = 30
			}
			for turn := range turns {
				before := readStore(t, m, d, faultDigest)
				w := m.writer()
				if rnd.IntN(3) == 0 {
					kind.arm(w, 1+rnd.IntN(120))
				}
				s := d.Write(context.Background(), w)
				for range 1 + rnd.IntN(4) {
					id := rnd.IntN(200)
					var q string
					switch rnd.IntN(6) {
					case 0:
						q = fmt.Sprintf("DELETE FROM t WHERE id BETWEEN %d AND %d", id, id+rnd.IntN(40))
					case 1:
						q = strings.Replace(manyRows(id, id+rnd.IntN(40)), "INSERT", "INSERT OR IGNORE", 1)
					case 2:
						q = fmt.Sprintf("UPDATE t SET v = zeroblob(%d) WHERE id %% 7 = %d", rnd.IntN(9000), rnd.IntN(7))
					case 3:
						q = fmt.Sprintf("SAVEPOINT s; DELETE FROM t WHERE id > %d; ROLLBACK TO s; RELEASE s", id)
					default:
						q = fmt.Sprintf("INSERT OR IGNORE INTO t VALUES (%d, zeroblob(%d), %d)", id, rnd.IntN(3000), rnd.IntN(100))
					}
					_ = execNative(s, q)
				}
				_, err := s.Commit()
				s.Rollback()
				if err == nil {
					m.commit(w)
					committed++
				} else {
					refused++
					same(t, readStore(t, m, d, faultDigest), before, turn, err)
				}
				got := readStore(t, m, d, faultDigest+"; PRAGMA integrity_check")
				fatalIf(t, !strings.HasPrefix(got, "1|") || !strings.HasSuffix(got, ",ok"), "turn %d: %s", turn, got)
			}
			fatalIf(t, committed < turns/4 || refused < turns/20,
				"%d turns were committed and %d refused", committed, refused)
		})
	}
}

func TestReadSessionsSurviveFaults(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{CacheBytes: 16 * PageSize}).Database("test")
	writeStore(t, m, d, faultSchema, manyRows(1, 100))
	want := readStore(t, m, d, faultDigest)
	d.Discard()
	calls := 60
	if RaceDetector {
		calls = 12
	}
	for n := 1; n < calls; n++ {
		for _, fresh := range []bool{true, false} {
			if fresh {
				d = d.pool.Database("test") // a connection of its own
			}
			r, calls := m.snapshot(), 0
			r.fault = func(string, []byte) error {
				if calls++; calls == n {
					return errPlain
				}
				return nil
			}
			got, err := readFrom(r, d, faultDigest)
			switch {
			case err == nil && calls < n:
			case err == nil || !errors.Is(err, errPlain):
				t.Fatalf("call %d: %q, %v", n, got, err)
			}
			same(t, readStore(t, m, d, faultDigest), want, n)
		}
		d.Close()
	}
	same(t, d.pool.Stats().InUse, 0)
}

// TestSessionGoesOnAfterAVacuumThatFailed makes VACUUM fail at each of its calls. It has no journal then, so either the
// session is over, or what it goes on with is sound.
func TestSessionGoesOnAfterAVacuumThatFailed(t *testing.T) {
	p := newTestPool(t, Options{})
	m, d := newMapStore(), p.Database("test")
	writeStore(t, m, d, faultSchema, manyRows(1, 60))
	poisoned, went := 0, 0
	for n := 1; ; n++ {
		if RaceDetector && n%5 != 0 {
			n++
		}
		d.Discard()
		w := m.writer()
		s := d.Write(context.Background(), w)
		mustExec(t, s, "DELETE FROM t WHERE id > 20")
		calls := 0
		w.fault = func(string, []byte) error {
			if calls++; calls == n {
				return errPlain
			}
			return nil
		}
		err := vacuumNative(s)
		w.fault = nil
		if err == nil {
			fatalIf(t, calls >= n, "call %d failed, and nobody noticed", n)
			s.Rollback()
			break
		}
		if err := execNative(s, "INSERT INTO t VALUES (100, 'x', 1)"); err != nil {
			poisoned++
			changed, err := s.Commit()
			fatalIf(t, err == nil, "call %d: Commit = %v, %v", n, changed, err)
			continue
		}
		went++
		must(t, errOf(s.Commit()), n)
		after := newMapStore()
		after.commit(w)
		same(t, readStore(t, after, p.Database("after"), "SELECT count(*), (SELECT n FROM total) FROM t; PRAGMA integrity_check"), "21|21,ok", n)
		// And the connection that did that is sound, too.
		w = after.writer()
		s = d.Write(context.Background(), w)
		mustExec(t, s, "DELETE FROM t WHERE id % 2 = 0;"+manyRows(300, 340))
		must(t, errOf(s.Commit()))
		after.commit(w)
		same(t, readStore(t, after, p.Database("after"), "SELECT count(*) = (SELECT n FROM total) FROM t; PRAGMA integrity_check"), "1,ok", n)
	}
	fatalIf(t, poisoned == 0, "no fault cost the session")
	t.Logf("%d faults cost the session, after %d it went on", poisoned, went)
}

// TestFirstFaultOfAPublishIsTheError refuses each call of a publish of more pages than the journal keeps. The rollback after it
// reads nothing of what was put, which is no longer what it was.
func TestFirstFaultOfAPublishIsTheError(t *testing.T) {
	p := newTestPool(t, Options{})
	m, d := newMapStore(), p.Database("test")
	writeStore(t, m, d, "CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 300) INSERT INTO t SELECT i, randomblob(3500) FROM n")
	old := readStore(t, m, d, "SELECT count(*), min(v), max(v) FROM t")
	first, step := 1, 1
	if RaceDetector {
		first, step = 290, 7
	}
	for n := first; ; n += step {
		w := m.writer()
		s := d.Write(context.Background(), w)
		mustExec(t, s, "UPDATE t SET v = randomblob(3000) WHERE id <= 270; DELETE FROM t WHERE id > 270; DROP TABLE IF EXISTS other")
		puts, after := 0, 0
		w.fault = func(call string, _ []byte) error {
			switch {
			case puts >= n:
				after++
			case call == "Put" || call == "DeleteRange":
				if puts++; puts == n {
					return errPlain
				}
			}
			return nil
		}
		changed, err := s.Commit()
		if err == nil {
			fatalIf(t, puts >= n || n < 270, "the publish has %d calls, and call %d did not fail it", puts, n)
			break
		}
		fatalIf(t, !errors.Is(err, errPlain) || !changed || after != 0,
			"call %d: Commit = %v, %v; %d calls of the writer after that", n, changed, err, after)
		if n%30 == 0 {
			same(t, readStore(t, m, d, "SELECT count(*), min(v), max(v) FROM t"), old, n)
		}
	}
	checkStore(t, m, d)
}
