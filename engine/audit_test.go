package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// audited is the identity of an actor of the tests.
func audited(key ...string) Identity { return Identity{"ns", "cart", key} }

// auditOf reads the log as texts.
func auditOf(t testing.TB, s *Store, q AuditQuery) (all []string) {
	t.Helper()
	last := uint64(0)
	must(t, s.Audit(q, func(r *AuditRecord) bool {
		if last != 0 && (r.Seq > last) == q.Newest {
			t.Errorf("record %d comes after %d", r.Seq, last)
		}
		last = r.Seq
		all = append(all, strings.Join(r.Of.Key, "/")+" "+string(r.Record))
		return true
	}))
	return all
}

func TestAuditLogIsReadByTimeAndByActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		sp, other := r.sp, openSpace(t, r.Store, 2)
		began := uint64(time.Now().UnixMicro())
		for i, of := range []Identity{audited("a"), audited("a", "b"), audited("a"), audited()} {
			w, space := &sp.set, sp
			if i == 1 {
				w, space = &other.set, other
			}
			before := w.Savepoint()
			must(t, w.Audit(of, []byte("undone")))
			errorIf(t, !w.Changed(&before), "a record is no change")
			w.Rollback(before)
			must(t, w.Audit(of, fmt.Append(nil, i)))
			must(t, errOf(commitWait(space)))
			time.Sleep(time.Second)
		}
		must(t, r.Store.AppendAudit(audited("a"), []byte("4")))
		want := []string{"a 0", "a/b 1", "a 2", " 3", "a 4"}
		check := func(q AuditQuery, want ...string) {
			t.Helper()
			if got := auditOf(t, r.Store, q); !slices.Equal(got, want) {
				t.Errorf("%+v: %q, want %q", q, got, want)
			}
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
		n, err := r.Store.PurgeAudit(second + 1)
		errorIf(t, n != 2 || err != nil, "%d are removed, %v", n, err)
		check(AuditQuery{}, want[2:]...)
		check(AuditQuery{Of: &a}, want[2], want[4])
		_, err = r.Store.PurgeAudit(1 << 63)
		must(t, err)
		check(AuditQuery{})
		for _, prefix := range [][]byte{auditBounds(0, 0).LowerBound[:5]} {
			if n := countRows(t, r.Store, prefix, append(slices.Clone(prefix), 0xFF)); n != 0 {
				t.Errorf("%d rows are left", n)
			}
		}
	})
}

// TestAuditRecordIsInItsCommit cuts the power after commits that write a key and a record each, and looks if both are there or neither.
func TestAuditRecordIsInItsCommit(t *testing.T) {
	for seed := range uint64(8) {
		r := newRig(t, Options{})
		for i := range 20 {
			w := r.w
			w.Advance(int64(i + 1))
			put(t, w, kv(fmt.Sprint(i)), "v")
			must(t, w.Audit(audited("a"), fmt.Append(nil, i)))
			if i == 10 {
				must(t, r.Store.AppendAudit(audited("b"), []byte("aside")))
			}
			_, err := r.sp.Commit(nil)
			must(t, err)
		}
		left := r.crashed(seed, 50)
		a, b := audited("a"), audited("b")
		records := auditOf(t, left.Store, AuditQuery{Of: &a})
		for i := range 20 {
			_, there, err := left.w.Get(kv(fmt.Sprint(i)))
			must(t, err)
			if has := slices.Contains(records, fmt.Sprint("a ", i)); has != there {
				t.Errorf("seed %d: commit %d: the key is there: %v; the record: %v", seed, i, there, has)
			}
		}
		if len(auditOf(t, left.Store, AuditQuery{Of: &b})) != 1 {
			t.Errorf("seed %d: a durable record is lost", seed)
		}
	}
}
