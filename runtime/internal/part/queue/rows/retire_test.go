package queuerows

import (
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

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
