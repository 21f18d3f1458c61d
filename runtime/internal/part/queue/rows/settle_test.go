package queuerows

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

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
			n, lost, err := f()
			fatalIf(t, n != 0 || !slices.Equal(lost, bad) || err != nil, "%d %q %v", n, lost, err)
		}
		if n, lost, err := s.Ack("other", []string{r}, nil); n != 0 || len(lost) != 1 || err != nil {
			t.Fatalf("another queue: %d %q %v", n, lost, err)
		}
		if n, lost, err := s.Ack("jobs", []string{r, r}, nil); n != 1 || len(lost) != 1 || err != nil {
			t.Fatalf("twice: %d %q %v", n, lost, err)
		}
		return nil
	})
	w.verify()
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
		errorIf(t, got != want || err != nil, "message %d: %q %v, want %q", i, got, err, want)
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
	st := w.stats("jobs")
	fatalIf(t, st.Pending != maxDue || w.next == 0 || w.next > w.now.UnixMilli(), "%+v, wake %d", st, w.next)
	w.due("jobs")
	w.verify()
	st = w.stats("jobs")
	fatalIf(t, st.Pending != 1_800 || w.next != 0, "%+v, wake %d", st, w.next)
	got := w.receive("jobs", 1_000)
	fatalIf(t, len(got) != 1_000 || got[999].ID != 1_000, "received %d", len(got))
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
	fatalIf(t, w.next != w.now.Add(time.Hour).UnixMilli(), "whoever took the row up does not learn of it")
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
		errorIf(t, err != nil || res.Err == nil || !maps.Equal(res.Err.Metadata, want), "message %d: %+v %v, want metadata %v", i, res.Err, err, want)
	}
	// Releases before this one kept none.
	old := appendText(appendText(appendText([]byte{format, 1}, "jobs"), "too_large"), "rows: 11")
	var r reply
	if err := r.decode(1, old); err != nil || r.failure.Code != host.TooLarge || r.failure.Metadata != nil {
		t.Errorf("%+v %v", r.failure, err)
	}
}
