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

func TestTakenMessagesAreGoneAndComeBackAtTheHead(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	w.send("jobs", host.Enqueue{Body: []byte("a")}, host.Enqueue{Body: []byte("b")}, host.Enqueue{Body: []byte("c")})
	a, b := w.taken("jobs"), w.taken("jobs")
	if string(a.Body) != "a" || string(b.Body) != "b" || a.Attempt != 1 || !a.Sent.Equal(start) {
		t.Fatalf("%+v %+v", a, b)
	}
	w.verify()
	if st := w.stats("jobs"); st.Pending != 1 || st.Done != 2 || st.Bytes != 1 {
		t.Fatalf("%+v", st)
	}
	w.send("jobs", host.Enqueue{Body: []byte("urgent"), Priority: 5})
	w.must(func(s *Set) error {
		if err := s.Return(b); err != nil {
			return err
		}
		return s.Return(a)
	})
	w.verify()
	if st := w.stats("jobs"); st.Pending != 4 || st.Done != 0 || st.Bytes != 9 {
		t.Fatalf("%+v", st)
	}
	for _, want := range []string{"a", "b", "urgent", "c"} {
		if m := w.taken("jobs"); m == nil || string(m.Body) != want {
			t.Fatalf("got %+v, want %q", m, want)
		}
	}
	if m := w.taken("jobs"); m != nil {
		t.Fatalf("there is %+v", m)
	}
	w.verify()
}

func TestTheSenderOfATakenMessageWaitsUntilItIsAnswered(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", ReplyFor: time.Minute})
	id := w.send("jobs", host.Enqueue{Body: []byte("a"), WantReply: true})[0].ID
	result := func() (Result, bool) {
		t.Helper()
		res, known, err := ResultOf(w.space.Writes(), "jobs", id, w.now)
		if err != nil {
			t.Fatal(err)
		}
		return res, known
	}
	m := w.taken("jobs")
	if !m.WantReply {
		t.Fatalf("%+v", m)
	}
	w.now = w.now.Add(25 * 24 * time.Hour)
	if res, known := result(); !known || res.Done {
		t.Fatalf("%+v %v", res, known)
	}
	w.must(func(s *Set) error { return s.Return(m) })
	w.verify()
	if res, known := result(); !known || res.Done {
		t.Fatalf("after its return: %+v %v", res, known)
	}
	m = w.taken("jobs")
	w.must(func(s *Set) error {
		if err := s.Answer("jobs", m.ID, []byte("yes"), nil); err != nil {
			return err
		}
		return s.Answer("jobs", m.ID, []byte("no"), nil)
	})
	if len(w.last.Replied) != 1 || w.last.Replied[0] != id {
		t.Fatalf("%+v", w.last.Replied)
	}
	if res, known := result(); !known || !res.Done || string(res.Reply) != "yes" {
		t.Fatalf("%+v %v", res, known)
	}
	// An answered message has no waiter.
	w.must(func(s *Set) error { return s.Return(m) })
	if m = w.taken("jobs"); m.WantReply {
		t.Fatalf("%+v", m)
	}
	if res, known := result(); !known || string(res.Reply) != "yes" {
		t.Fatalf("%+v %v", res, known)
	}
	w.now = w.now.Add(time.Hour)
	if _, known := result(); known {
		t.Fatal("the reply is kept for ever")
	}
	other := w.send("jobs", host.Enqueue{Body: []byte("b"), WantReply: true})[0].ID
	w.taken("jobs")
	w.must(func(s *Set) error { return s.Answer("jobs", other, nil, host.Errorf(host.NotFound, "none")) })
	res, known, err := ResultOf(w.space.Writes(), "jobs", other, w.now)
	if err != nil || !known || res.Err == nil || res.Err.Code != host.NotFound {
		t.Fatalf("%+v %v %v", res, known, err)
	}
	w.verify()
}
