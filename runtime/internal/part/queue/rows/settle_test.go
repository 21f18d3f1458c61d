package queuerows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

func TestAFailingMessageIsTriedAgainAndThenADeadLetter(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	key, _ := tuple.Tuple{"lost", int64(7)}.Pack()
	e := host.Enqueue{Body: []byte("bad"), KeysIfUndelivered: [][]byte{key}, WantReply: true, DedupID: "once"}
	id := w.send("jobs", e)[0].ID
	for attempt, pause := range host.DefaultQueueBackoff() {
		if m := w.fail("jobs", "no luck"); m.Attempt != attempt+1 || m.ID != id || !m.WantReply || m.DedupID != "once" {
			t.Fatalf("attempt %d: %+v", attempt, m)
		}
		l := w.peek("jobs")[0]
		if l.Attempts != attempt+1 || l.Error != "no luck" || !l.Tried.Equal(w.now) || !l.Due.Equal(w.now.Add(pause)) {
			t.Fatalf("listed %+v", l)
		}
		w.now = w.now.Add(pause - time.Millisecond)
		w.must(func(s *Set) error {
			if m, ok, err := s.Next("jobs"); ok || err != nil {
				return fmt.Errorf("too early: %v %w", m, err)
			}
			return nil
		})
		w.now = w.now.Add(time.Millisecond)
	}
	if res, known, err := ResultOf(w.space.Writes(), "jobs", id, w.now); res.Done || !known || err != nil {
		t.Fatalf("result %+v %v %v", res, known, err)
	}
	w.fail("jobs", "never")
	w.verify()
	if w.last.Dead != 1 || !slices.Equal(w.last.Replied, []uint64{id}) {
		t.Fatalf("effects %+v", w.last)
	}
	l := w.dead("jobs")[0]
	if l.ID != id || l.State != "dead" || l.Attempts != 4 || l.Error != "never" {
		t.Fatalf("dead letter %+v", l)
	}
	if !l.Died.Equal(w.now) || !l.Tried.Equal(w.now) || !l.Sent.Equal(start) {
		t.Fatalf("dead letter %+v", l)
	}
	if e, ok, err := w.space.Writes().Get(append([]byte{4}, key...)); !ok || err != nil || string(e.Value) != "bad" {
		t.Fatalf("key: %q %v %v", e.Value, ok, err)
	}
	res, known, err := ResultOf(w.space.Writes(), "jobs", id, w.now)
	if !res.Done || !known || err != nil || res.Err.Code != host.FailedPrecondition || res.Err.Message != "never" {
		t.Fatalf("result %+v %v %v", res, known, err)
	}
	if st := w.stats("jobs"); st.Dead != 1 || st.Failed != 1 || st.Pending+st.Delayed != 0 || st.Bytes != 0 {
		t.Fatalf("stats %+v", st)
	}
	// Again, from the beginning.
	w.must(func(s *Set) error {
		n, err := s.RequeueDead("jobs", []uint64{id, 99}, false)
		if n != 1 {
			return fmt.Errorf("requeued %d: %w", n, err)
		}
		return err
	})
	w.verify()
	if res, known, _ := ResultOf(w.space.Writes(), "jobs", id, w.now); res.Done || !known {
		t.Fatalf("result %+v %v", res, known)
	}
	if m := w.fail("jobs", "no"); m.ID != id || m.Attempt != 1 {
		t.Fatalf("requeued %+v", m)
	}
}

func TestAMessageHasPausesOfItsOwn(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	w.send("jobs", host.Enqueue{Backoff: []time.Duration{0}}, host.Enqueue{Backoff: []time.Duration{}})
	w.fail("jobs", "a")
	if !slices.Equal(w.last.Ready, []string{"jobs"}) { // no pause
		t.Fatalf("ready %q", w.last.Ready)
	}
	w.fail("jobs", "b")
	w.fail("jobs", "c")
	if d := w.dead("jobs"); len(d) != 2 || d[0].Attempts != 2 || d[1].Attempts != 1 {
		t.Fatalf("dead %+v", d)
	}
	w.verify()
}

func TestAnExpiredLockCountsAsAnAttemptAndWaitsForNoBackoff(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Lock: time.Second, Backoff: []time.Duration{2 * time.Second}})
	w.send("jobs", body("x"))
	first := w.receive("jobs", 1)[0]
	if first.Attempt != 1 || !first.LockedUntil.Equal(w.now.Add(time.Second)) {
		t.Fatalf("%+v", first)
	}
	w.now = w.now.Add(time.Second)
	w.must(func(s *Set) error { // though it was not taken back yet
		if n, lost, err := s.Ack("jobs", []string{first.Receipt}, nil); n != 0 || len(lost) != 1 || err != nil {
			t.Fatalf("late ack: %d %v %v", n, lost, err)
		}
		return nil
	})
	w.due("jobs")
	if !slices.Equal(w.last.Settled, []string{"jobs"}) || w.stats("jobs").Pending != 1 {
		t.Fatalf("settled %q, stats %+v", w.last.Settled, w.stats("jobs"))
	}
	second := w.receive("jobs", 1)[0]
	if second.Attempt != 2 || second.Receipt == first.Receipt {
		t.Fatalf("%+v", second)
	}
	held, err := Held(w.space.Writes(), "jobs", []string{first.Receipt, second.Receipt})
	if err != nil || !slices.Equal(held, []string{second.Receipt}) {
		t.Fatalf("held %v %v", held, err)
	}
	w.now = w.now.Add(time.Second)
	w.due("jobs")
	if d := w.dead("jobs"); len(d) != 1 || !strings.Contains(d[0].Error, "lock expired") || d[0].Attempts != 2 {
		t.Fatalf("dead %+v", d)
	}
	w.verify()
}

func TestReceiptsAreGoodForOneLockInOneQueue(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"}, host.Queue{Name: "other"})
	w.send("jobs", body("x"))
	r := w.receive("jobs", 1)[0].Receipt
	bad := []string{
		"", "x", "!!", r + "A", r[:len(r)-1], r + "\n", strings.Repeat("A", 99), receipt(1, 0), receipt(2, 0),
	}
	w.must(func(s *Set) error {
		for _, f := range []func() (int, []string, error){
			func() (int, []string, error) { return s.Ack("jobs", bad, nil) },
			func() (int, []string, error) { return s.Nack("jobs", bad, nil, "", true) },
			func() (int, []string, error) { _, lost, err := s.Extend("jobs", bad, 0); return 0, lost, err },
		} {
			if n, lost, err := f(); n != 0 || !slices.Equal(lost, bad) || err != nil {
				t.Fatalf("%d %q %v", n, lost, err)
			}
		}
		if n, lost, err := s.Ack("other", []string{r}, nil); n != 0 || len(lost) != 1 || err != nil {
			t.Fatalf("another queue: %d %q %v", n, lost, err)
		}
		if n, lost, err := s.Ack("jobs", []string{r, r}, nil); n != 1 || len(lost) != 1 || err != nil {
			t.Fatalf("twice: %d %q %v", n, lost, err)
		}
		_, _, err := s.Ack("jobs", make([]string, host.MaxQueueBatch+1), nil)
		wantCode(t, err, host.TooLarge)
		return nil
	})
	w.verify()
}

func TestNackOverridesThePauseOrGivesUp(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	w.send("jobs", body("a"), body("b"), body("c"))
	got := w.receive("jobs", 3)
	w.must(func(s *Set) error {
		hour, zero, negative := time.Hour, time.Duration(0), -time.Second
		if _, _, err := s.Nack("jobs", []string{got[0].Receipt}, &hour, strings.Repeat("é", 1_000), false); err != nil {
			return err
		}
		if _, _, err := s.Nack("jobs", []string{got[1].Receipt}, &zero, "", false); err != nil {
			return err
		}
		_, _, err := s.Nack("jobs", nil, &negative, "", false)
		wantCode(t, err, host.InvalidArgument)
		_, _, err = s.Nack("jobs", []string{got[2].Receipt}, nil, "broken", true)
		return err
	})
	w.verify()
	l := w.peek("jobs")
	if l[0].State != "delayed" || !l[0].Due.Equal(w.now.Add(time.Hour)) || len(l[0].Error) != 1_024 || l[1].State != "pending" {
		t.Fatalf("%+v", l)
	}
	if d := w.dead("jobs"); len(d) != 1 || d[0].Error != "broken" {
		t.Fatalf("dead %+v", d)
	}
}

func TestExtendLocksFromNow(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Lock: time.Second})
	w.send("jobs", body("a"))
	r := w.receive("jobs", 1)[0].Receipt
	w.now = w.now.Add(900 * time.Millisecond)
	w.must(func(s *Set) error {
		until, lost, err := s.Extend("jobs", []string{r}, 5*time.Second)
		if !until.Equal(w.now.Add(5*time.Second)) || len(lost) > 0 {
			t.Fatalf("%v %v", until, lost)
		}
		_, _, bad := s.Extend("jobs", nil, 31*24*time.Hour)
		wantCode(t, bad, host.InvalidArgument)
		return err
	})
	w.verify()
	w.now = w.now.Add(4_999 * time.Millisecond)
	w.must(func(s *Set) error {
		n, _, err := s.Ack("jobs", []string{r}, nil)
		if n != 1 {
			t.Fatal("the lock is over")
		}
		return err
	})
	if len(w.wakes()) != 0 {
		t.Fatalf("wakes %v", w.wakes())
	}
}

func TestReceiveRefusesWhatIsWrong(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	w.must(func(s *Set) error {
		for _, limit := range []int{0, -1, host.MaxQueueBatch + 1} {
			_, err := s.Receive("jobs", limit, 0)
			wantCode(t, err, host.InvalidArgument)
		}
		_, err := s.Receive("jobs", 1, -1)
		wantCode(t, err, host.InvalidArgument)
		_, err = s.Receive("other", 1, 0)
		wantCode(t, err, host.NotFound)
		_, _, err = s.Next("other")
		wantCode(t, err, host.NotFound)
		return nil
	})
}

func TestRepliesAreKeptForThoseWhoWantThem(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", ReplyFor: time.Minute, MessageBytes: 8}, host.Queue{Name: "other"})
	asked := host.Enqueue{Body: []byte("x"), WantReply: true}
	sent := w.send("jobs", asked, asked, body("y"), asked)
	w.must(func(s *Set) error {
		for range 3 {
			m, _, err := s.Next("jobs")
			if err != nil {
				return err
			}
			wantCode(t, s.Done(m, make([]byte, 9)), host.TooLarge)
			if err := s.Done(m, []byte("r")); err != nil {
				return err
			}
			wantCode(t, s.Done(m, nil), host.FailedPrecondition)
			if err := s.Fail(m, nil, ""); err != nil {
				return err
			}
		}
		_, err := s.Skip("jobs")
		return err
	})
	w.verify()
	if want := []uint64{sent[0].ID, sent[1].ID, sent[3].ID}; !slices.Equal(w.last.Replied, want) {
		t.Fatalf("replied %v, want %v", w.last.Replied, want)
	}
	rows := w.space.Writes()
	for i, want := range []string{"r", "r", "unknown", "canceled"} {
		res, known, err := ResultOf(rows, "jobs", sent[i].ID, w.now)
		got := string(res.Reply)
		if !known {
			got = "unknown"
		} else if res.Err != nil {
			got = string(res.Err.Code)
		}
		if got != want || err != nil {
			t.Errorf("message %d: %q %v, want %q", i, got, err, want)
		}
	}
	if _, known, _ := ResultOf(rows, "other", sent[0].ID, w.now); known {
		t.Error("another queue knows the reply")
	}
	if _, known, _ := ResultOf(rows, "jobs", sent[0].ID, w.now.Add(time.Minute)); known {
		t.Error("the reply is kept too long")
	}
}

func TestManyDueMessagesAreDoneInParts(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	batch := make([]host.Enqueue, 900)
	for i := range batch {
		batch[i].Delay = time.Second
	}
	w.send("jobs", batch...)
	w.send("jobs", batch...)
	w.now = w.now.Add(time.Second)
	w.due("jobs")
	w.verify()
	if st := w.stats("jobs"); st.Pending != maxDue || w.next == 0 || w.next > w.now.UnixMilli() {
		t.Fatalf("%+v, wake %d", st, w.next)
	}
	w.due("jobs")
	w.verify()
	if st := w.stats("jobs"); st.Pending != 1_800 || w.next != 0 {
		t.Fatalf("%+v, wake %d", st, w.next)
	}
	if got := w.receive("jobs", 1_000); len(got) != 1_000 || got[999].ID != 1_000 {
		t.Fatalf("received %d", len(got))
	}
	w.verify()
}

func TestDueRemovesAWakeRowThatIsOutOfDate(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	w.send("jobs", host.Enqueue{Delay: time.Hour})
	w.must(func(s *Set) error {
		w.space.Writes().SetWake(7, keyspace.WakeQueue, "jobs-not", "")
		return nil
	})
	w.must(func(s *Set) error { return s.Due("jobs-not", 7) }) // a queue that the type has no more
	if want := map[string]int64{"jobs": w.now.Add(time.Hour).UnixMilli()}; !maps.Equal(w.wakes(), want) {
		t.Fatalf("wakes %v", w.wakes())
	}
	w.must(func(s *Set) error { return s.Due("jobs", w.now.Add(time.Hour).UnixMilli()) })
	if w.next != w.now.Add(time.Hour).UnixMilli() {
		t.Fatal("whoever took the row up does not learn of it")
	}
	w.verify()
}

func TestTheFailureThatASenderReadsHasItsMetadata(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Backoff: []time.Duration{}})
	asked := host.Enqueue{Body: []byte("x"), WantReply: true}
	sent := w.send("jobs", asked, asked, asked)
	large := host.OverLimit("rows", 10, 11)
	wide := host.Errorf(host.NotFound, "none").With("a", strings.Repeat("x", 2000)).With("b", "kept").With(strings.Repeat("c", 65), "d")
	w.must(func(s *Set) error {
		for range 2 {
			m, _, err := s.Next("jobs")
			if err != nil {
				return err
			}
			cause := large
			if m.ID == sent[1].ID {
				cause = wide
			}
			if err := s.Fail(m, cause, "for operators"); err != nil {
				return err
			}
		}
		return nil
	})
	w.taken("jobs")
	w.must(func(s *Set) error { return s.Answer("jobs", sent[2].ID, nil, large) })
	w.verify()
	for i, want := range []map[string]string{large.Metadata, {"b": "kept"}, large.Metadata} {
		res, _, err := ResultOf(w.space.Writes(), "jobs", sent[i].ID, w.now)
		if err != nil || res.Err == nil || !maps.Equal(res.Err.Metadata, want) {
			t.Errorf("message %d: %+v %v, want metadata %v", i, res.Err, err, want)
		}
	}
	// Releases before this one kept none.
	old := appendText(appendText(appendText([]byte{format, 1}, "jobs"), "too_large"), "rows: 11")
	var r reply
	if err := r.decode(1, old); err != nil || r.failure.Code != host.TooLarge || r.failure.Metadata != nil {
		t.Errorf("%+v %v", r.failure, err)
	}
}
