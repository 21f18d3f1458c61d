package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/keyspace"
)

// audited is the identity of an actor of the tests.
func audited(key ...string) Identity { return Identity{"ns", "cart", key} }

// auditOf reads the log as texts.
func auditOf(t testing.TB, s *Store, q AuditQuery) (all []string) {
	t.Helper()
	last := uint64(0)
	must(t, s.Audit(q, func(r *AuditRecord) bool {
		errorIf(t, last != 0 && (r.Seq > last) == q.Newest, "record %d comes after %d", r.Seq, last)
		last = r.Seq
		all = append(all, strings.Join(r.Of.Key, "/")+" "+string(r.Record))
		return true
	}))
	return all
}

func TestAuditLogIsReadByTimeAndByActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		spaces := [2]*Space{r.sp, openSpace(t, r.Store, 2)}
		began := uint64(time.Now().UnixMicro())
		for i, of := range []Identity{audited("a"), audited("a", "b"), audited("a"), audited()} {
			sp := spaces[i%2]
			w := sp.Writes()
			before := w.Savepoint()
			must(t, w.Audit(of, []byte("undone")))
			errorIf(t, !w.Changed(&before), "a record is no change")
			w.Rollback(before)
			must(t, w.Audit(of, fmt.Append(nil, i)))
			commit(t, sp)
			time.Sleep(time.Second)
		}
		must(t, r.Store.AppendAudit(audited("a"), []byte("4")))
		want := []string{"a 0", "a/b 1", "a 2", " 3", "a 4"}
		check := func(q AuditQuery, want ...string) {
			t.Helper()
			got := auditOf(t, r.Store, q)
			errorIf(t, !slices.Equal(got, want), "%+v: %q, want %q", q, got, want)
		}
		check(AuditQuery{}, want...)
		a, none := audited("a"), audited("b")
		check(AuditQuery{Of: &a}, want[0], want[2], want[4])
		check(AuditQuery{Of: &a, Newest: true}, want[4], want[2], want[0])
		check(AuditQuery{Of: &none})
		second := began + 1e6
		check(AuditQuery{After: second - 1, Before: second + 1e6}, want[1])
		check(AuditQuery{After: second}, want[2:]...)
		check(AuditQuery{Of: &a, After: second, Newest: true}, want[4], want[2])
		r.again()
		check(AuditQuery{}, want...)
		returns(t, 2)(r.Store.PurgeAudit(time.UnixMicro(int64(second + 1))))
		check(AuditQuery{}, want[2:]...)
		check(AuditQuery{Of: &a}, want[2], want[4])
		must(t, errOf(r.Store.PurgeAudit(time.Now().Add(time.Hour))))
		check(AuditQuery{})
		prefix := auditBounds(0, 0).LowerBound[:5]
		same(t, countRows(t, r.Store, prefix, keyspace.Successor(prefix)), 0)
	})
}

// lived calls f for a store on a disk, some time after the start of virtual time. That start is
// before the end of the previous life.
func lived(t *testing.T, disk *Disk, later time.Duration, f func(t *testing.T, s *Store)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(later)
		s := mustOpen(t, Options{Disk: disk})
		f(t, s)
		must(t, s.Close())
	})
}

func TestNumbersOfTheAuditLogGrowThoughTheClockIsSetBack(t *testing.T) {
	const year = 365 * 24 * time.Hour
	last := uint64(0)
	note := func(t *testing.T, s *Store, text string) {
		t.Helper()
		must(t, s.AppendAudit(audited("a"), []byte(text)))
		must(t, s.Audit(AuditQuery{Newest: true}, func(r *AuditRecord) bool {
			errorIf(t, r.Seq <= last, "%s has the number %d, after %d", text, r.Seq, last)
			last = r.Seq
			return false
		}))
	}
	since := func(t *testing.T, s *Store, ago time.Duration, want string) {
		t.Helper()
		same(t, strings.Join(auditOf(t, s, AuditQuery{After: s.AuditPlace(time.Now().Add(-ago)) - 1}), ", "), want, ago)
	}
	purged := func(t *testing.T, s *Store, age time.Duration, want int) {
		t.Helper()
		returns(t, want)(s.PurgeAudit(time.Now().Add(-age)))
	}
	disk := NewDisk()
	lived(t, disk, 50*year, func(t *testing.T, s *Store) { note(t, s, "ahead") })
	lived(t, disk, time.Hour, func(t *testing.T, s *Store) {
		purged(t, s, time.Hour, 0)
		since(t, s, 0, "")
		note(t, s, "1")
		time.Sleep(time.Hour)
		note(t, s, "2")
		since(t, s, 0, "a 2")
		since(t, s, time.Minute, "a 2")
		since(t, s, time.Hour, "a 1, a 2")
		since(t, s, 2*time.Hour, "a ahead, a 1, a 2")
		purged(t, s, time.Minute, 2)
		purged(t, s, 0, 0)
		note(t, s, "3")
		time.Sleep(100 * year) // after the first
		note(t, s, "4")
		since(t, s, time.Minute, "a 4")
	})
	lived(t, disk, 3*time.Hour, func(t *testing.T, s *Store) {
		since(t, s, 2*time.Hour, "a 2, a 3, a 4")
		time.Sleep(year)
		purged(t, s, year/2, 3) // all
	})
	lived(t, disk, 0, func(t *testing.T, s *Store) { note(t, s, "5") })
}

// TestCloseWaitsForARecordAtTheGate: a record that waits for its sync holds no lock that Close and
// the calls behind it wait for.
func TestCloseWaitsForARecordAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		goOn := make(chan struct{})
		r.o.Disk.Fail(func(op, _ string) error {
			if op == "sync" {
				<-goOn
			}
			return nil
		})
		appended, closed := make(chan error, 1), make(chan error, 1)
		go func() { appended <- r.Store.AppendAudit(audited("a"), []byte("1")) }()
		synctest.Wait()
		if free := r.life.TryLock(); !free {
			close(goOn)
			t.Fatal("a record that waits for its sync holds the store")
		}
		r.life.Unlock()
		errorIf(t, len(auditOf(t, r.Store, AuditQuery{})) != 0, "the record is shown before it is durable")
		go func() { closed <- r.Close() }()
		synctest.Wait()
		wantErr(t, r.Writable(), ErrClosed)
		errorIf(t, len(appended)+len(closed) != 0, "somebody does not wait for the sync")
		close(goOn)
		must(t, <-appended)
		must(t, <-closed)
		r.o.Disk.Fail(nil)
		r.start()
		same(t, len(auditOf(t, r.Store, AuditQuery{})), 1)
	})
}

func TestDamagedAuditRecordIsNamed(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 3 {
		must(t, r.Store.AppendAudit(audited("a"), fmt.Append(nil, i)))
	}
	var seqs []uint64
	must(t, r.Store.Audit(AuditQuery{}, func(r *AuditRecord) bool { seqs = append(seqs, r.Seq); return true }))
	must(t, databaseOf(r.Store).Set(keyspace.AppendAuditRow(nil, seqs[1]), []byte{0xFF}, nil))
	a := audited("a")
	for _, q := range []AuditQuery{{}, {Of: &a}, {Of: &a, Newest: true}} {
		damaged := 0
		got := auditOf(t, r.Store, q)
		must(t, r.Store.Audit(q, func(r *AuditRecord) bool {
			if r.Damaged {
				damaged++
				errorIf(t, r.Seq != seqs[1] || len(r.Record) > 0 || (q.Of != nil) != (len(r.Of.Key) == 1), "%+v", r)
			}
			return true
		}))
		errorIf(t, len(got) != 3 || damaged != 1, "%+v: %q, of which %d are damaged", q, got, damaged)
	}
	same(t, len(auditOf(t, r.crashed(1, 0).Store, AuditQuery{})), 3) // each was durable
	returns(t, 3)(r.Store.PurgeAudit(time.Now().Add(time.Hour)))
}
