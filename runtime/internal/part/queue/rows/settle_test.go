package queuerows

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

func TestAReplyIsCheckedAndGivenOnce(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", MessageBytes: 8})
	sent := w.send("jobs", host.Enqueue{Body: []byte("x"), WantReply: true})
	w.must(func(s *Set) error {
		m, _, err := s.Next("jobs")
		must(t, err)
		wantCode(t, s.Done(m, make([]byte, 9)), host.TooLarge)
		must(t, s.Done(m, []byte("r")))
		wantCode(t, s.Done(m, nil), host.FailedPrecondition)
		return s.Fail(m, nil, "")
	})
	w.verify()
	res, known, err := ResultOf(w.space.Writes(), "jobs", sent[0].ID, w.now)
	fatalIf(t, !known || string(res.Reply) != "r" || res.Err != nil || err != nil, "%+v %v %v", res, known, err)
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
	want := map[string]int64{"jobs": w.now.Add(time.Hour).UnixMilli()}
	fatalIf(t, !maps.Equal(w.wakes(), want), "wakes %v", w.wakes())
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
		errorIf(t, err != nil || res.Err == nil ||
			!maps.Equal(res.Err.Metadata, want), "message %d: %+v %v, want metadata %v", i, res.Err, err, want)
	}
	// Releases before this one kept none.
	old := appendText(appendText(appendText([]byte{format, 1}, "jobs"), "too_large"), "rows: 11")
	var r reply
	if err := r.decode(1, old); err != nil || r.failure.Code != host.TooLarge || r.failure.Metadata != nil {
		t.Errorf("%+v %v", r.failure, err)
	}
}

// taken takes the next message of a queue.
func (w *world) taken(queue string) *host.Received {
	w.t.Helper()
	var m *host.Received
	w.must(func(s *Set) error {
		r, ok, err := s.Take(queue)
		if err == nil && ok {
			m = r
		}
		return err
	})
	return m
}

// bury calls BuryRetired until nothing is left, and returns how many messages and turns that took.
func (w *world) bury(queue string) (messages, turns int) {
	w.t.Helper()
	for more := true; more; turns++ {
		w.must(func(s *Set) error {
			s.Room = 64 << 10
			n, m, err := s.BuryRetired(queue)
			messages, more = messages+n, m
			return err
		})
		w.verify()
	}
	return messages, turns
}

func TestRetiredMessagesBecomeDeadLettersAndLaterOnesDoNot(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", ReplyFor: time.Minute})
	for range 20 {
		w.send("jobs", host.Enqueue{Body: make([]byte, 3000)}, host.Enqueue{Body: make([]byte, 3000), Delay: time.Hour})
	}
	asked := w.send("jobs", host.Enqueue{Body: []byte("may I?"), WantReply: true})[0].ID
	w.must(func(s *Set) error { return s.Retire("jobs") })
	w.send("jobs", host.Enqueue{Body: []byte("urgent"), Priority: 5}, host.Enqueue{Body: []byte("soon"), Delay: time.Minute})
	m := w.taken("jobs")
	fatalIf(t, m != nil, "took %+v before the retired messages are gone", m)
	n, turns := w.bury("jobs")
	errorIf(t, n != 41 || turns < 3, "buried %d in %d turns", n, turns)
	st := w.stats("jobs")
	errorIf(t, st.Pending != 1 || st.Delayed != 1 || st.Dead != 41, "%+v", st)
	r, known, err := ResultOf(w.space.Writes(), "jobs", asked, w.now)
	errorIf(t, err != nil || !known || r.Err == nil || r.Err.Code != host.FailedPrecondition, "the sender finds %+v, %v, %v", r, known, err)
	m = w.taken("jobs")
	errorIf(t, m == nil || string(m.Body) != "urgent", "took %+v", m)
}

func TestReadmittedMessagesAreTakenAgain(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	w.send("jobs", host.Enqueue{Body: []byte("a")})
	w.must(func(s *Set) error { return s.Retire("jobs") })
	w.must(func(s *Set) error { return s.Readmit("jobs") })
	n, _ := w.bury("jobs")
	errorIf(t, n != 0, "buried %d", n)
	m := w.taken("jobs")
	errorIf(t, m == nil || string(m.Body) != "a", "took %+v", m)
}
