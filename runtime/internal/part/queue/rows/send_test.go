package queuerows

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

func TestMessagesAreReceivedByPriorityAndThenInTheOrderOfSending(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	w.send("jobs", body("a"), body("b"))
	w.send("jobs", host.Enqueue{Body: []byte("low"), Priority: -1}, host.Enqueue{Body: []byte("high"), Priority: 1})
	w.send("jobs", body("c"), host.Enqueue{Body: []byte("highest"), Priority: host.MaxQueuePriority})
	w.verify()
	got := append(bodies(w.receive("jobs", 3)), bodies(w.receive("jobs", 10))...)
	if want := []string{"highest", "high", "a", "b", "c", "low"}; !slices.Equal(got, want) {
		t.Fatalf("received %q, want %q", got, want)
	}
	w.verify()
}

func TestSendRefusesWhatIsWrongAndDoesNothing(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Messages: 3, Bytes: 10, MessageBytes: 6})
	day := 24 * time.Hour
	ok := body("ok")
	keys := func(keys ...[]byte) []host.Enqueue { return []host.Enqueue{{KeysIfUndelivered: keys}} }
	for name, c := range map[string]struct {
		messages []host.Enqueue
		code     host.Code
		says     string
	}{
		"no message":         {nil, host.InvalidArgument, "messages: there are none"},
		"too many":           {make([]host.Enqueue, host.MaxQueueBatch+1), host.TooLarge, "messages: 1001"},
		"negative delay":     {[]host.Enqueue{{Delay: -1}}, host.InvalidArgument, "delay_ms: -1 is not from 0 to 2592000000"},
		"long delay":         {[]host.Enqueue{{Delay: 31 * day}}, host.InvalidArgument, "delay_ms:"},
		"second message":     {[]host.Enqueue{ok, {Delay: -1}}, host.InvalidArgument, "messages[1].delay_ms:"},
		"high priority":      {[]host.Enqueue{{Priority: 1001}}, host.InvalidArgument, "priority:"},
		"low priority":       {[]host.Enqueue{{Priority: -1001}}, host.InvalidArgument, "priority:"},
		"long dedup id":      {[]host.Enqueue{{DedupID: strings.Repeat("x", 256)}}, host.InvalidArgument, "dedup_id:"},
		"negative ttl":       {[]host.Enqueue{{TTL: -1}}, host.InvalidArgument, "ttl_ms:"},
		"long ttl":           {[]host.Enqueue{{TTL: 31 * day}}, host.InvalidArgument, "ttl_ms:"},
		"ttl before delay":   {[]host.Enqueue{{TTL: time.Second, Delay: time.Second}}, host.InvalidArgument, "ttl_ms:"},
		"many pauses":        {[]host.Enqueue{{Backoff: make([]time.Duration, 101)}}, host.InvalidArgument, "backoff_ms:"},
		"negative pause":     {[]host.Enqueue{{Backoff: []time.Duration{0, -1}}}, host.InvalidArgument, "backoff_ms[1]:"},
		"many keys":          {keys(make([][]byte, 11)...), host.InvalidArgument, "keys_if_undelivered:"},
		"bad key":            {keys([]byte{0xFF}), host.InvalidArgument, "keys_if_undelivered[0]:"},
		"long key":           {keys(make([]byte, 1_901)), host.InvalidArgument, "keys_if_undelivered[0]:"},
		"large body":         {[]host.Enqueue{ok, body("1234567")}, host.TooLarge, "messages[1].body:"},
		"too many messages":  {[]host.Enqueue{ok, ok, ok}, host.Overloaded, "is full"},
		"never room":         {[]host.Enqueue{ok, ok, ok, ok}, host.TooLarge, "holds 3 messages"},
		"never bytes":        {[]host.Enqueue{body("123456"), body("12345")}, host.TooLarge, "holds 10 bytes"},
		"too many bytes":     {[]host.Enqueue{body("12345"), body("12345")}, host.Overloaded, "10"},
		"unknown queue":      {nil, host.NotFound, "has no queue"},
		"name with a slash":  {nil, host.NotFound, "has no queue"},
		"name that is empty": {nil, host.NotFound, "has no queue"},
	} {
		t.Run(name, func(t *testing.T) {
			queue := map[string]string{"unknown queue": "other", "name with a slash": "jobs/dead", "name that is empty": ""}
			to, known := queue[name]
			if !known {
				to = "jobs"
			}
			w.cfg["jobs/dead"], w.cfg[""] = host.Queue{}, host.Queue{}
			w.must(func(s *Set) error {
				if _, err := s.Send("jobs", []host.Enqueue{ok}); err != nil {
					return err
				}
				_, err := s.Send(to, c.messages)
				if e := wantCode(t, err, c.code); !strings.Contains(e.Message, c.says) {
					t.Errorf("message %q does not say %q", e.Message, c.says)
				} else if c.code == host.Overloaded && (!e.Retryable || e.Metadata["limit"] == "" || e.Metadata["actual"] == "") {
					t.Errorf("%+v", e)
				}
				return nil // the turn goes on
			})
			w.verify()
			if st := w.stats("jobs"); st.Pending != 1 || st.Bytes != 2 || st.Sent == 0 {
				t.Fatalf("stats %+v", st)
			}
			w.must(func(s *Set) error { _, err := s.Purge("jobs"); return err })
		})
	}
}

func TestASecondMessageWithTheSameDedupIDIsNone(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", DedupWindow: time.Minute, Messages: 2})
	x := host.Enqueue{Body: []byte("x"), DedupID: "x\x00"}
	first := w.send("jobs", x, x)
	if first[0].Duplicate || !first[1].Duplicate || first[1].ID != first[0].ID {
		t.Fatalf("in one batch: %+v", first)
	}
	got := w.receive("jobs", 10)
	w.must(func(s *Set) error { _, _, err := s.Ack("jobs", []string{got[0].Receipt}, nil); return err })
	w.now = w.now.Add(time.Minute - time.Millisecond)
	if again := w.send("jobs", x); again[0] != first[1] {
		t.Fatalf("within the window: %+v", again)
	}
	w.now = w.now.Add(time.Millisecond)
	if again := w.send("jobs", x); again[0].Duplicate || again[0].ID == first[0].ID {
		t.Fatalf("after the window: %+v", again)
	}
	if len(w.last.Expires) != 1 || w.last.Expires[0] != w.now.Add(time.Minute).UnixMilli() {
		t.Fatalf("expires %v", w.last.Expires)
	}
	// Duplicates need no room.
	w.send("jobs", body("y"), x, x)
	w.verify()
}

func TestADelayedMessageCannotBeReceivedBefore(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	w.send("jobs", host.Enqueue{Body: []byte("late"), Delay: time.Second}, body("now"))
	due := w.now.Add(time.Second)
	if w.next != due.UnixMilli() || w.wakes()["jobs"] != due.UnixMilli() {
		t.Fatalf("wake %d, rows %v", w.next, w.wakes())
	}
	if st := w.stats("jobs"); st.Pending != 1 || st.Delayed != 1 || !st.NextDue.Equal(due) || !st.Oldest.Equal(start) {
		t.Fatalf("stats %+v", st)
	}
	w.now = due.Add(-time.Millisecond)
	if got := bodies(w.receive("jobs", 9)); !slices.Equal(got, []string{"now"}) {
		t.Fatalf("received %q", got)
	}
	w.now = due
	w.due("jobs")
	if !slices.Equal(w.last.Ready, []string{"jobs"}) {
		t.Fatalf("ready %q", w.last.Ready)
	}
	w.verify()
	if got := bodies(w.receive("jobs", 9)); !slices.Equal(got, []string{"late"}) {
		t.Fatalf("received %q", got)
	}
}

func TestABatchBeyondTheWriteSetFailsTheTurn(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	batch := make([]host.Enqueue, host.MaxQueueBatch)
	for i := range batch {
		batch[i].Body = make([]byte, 1<<20)
	}
	err := w.turn(func(s *Set) error {
		if _, err := s.Send("jobs", batch); !errors.Is(err, &engine.LimitError{What: engine.LimitWriteSet}) {
			t.Errorf("send: %v", err)
		}
		if _, err := s.Send("jobs", batch[:1]); err == nil {
			t.Error("the turn went on")
		}
		return nil // the handler does not mind
	})
	if !errors.Is(err, &engine.LimitError{What: engine.LimitWriteSet}) {
		t.Fatalf("flush: %v", err)
	}
	w.send("jobs", body("x"))
	w.verify()
	if st := w.stats("jobs"); st.Pending != 1 || st.Sent != 1 {
		t.Fatalf("stats %+v", st)
	}
}

func TestBodiesComeBackAsTheyWereSent(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	var batch []host.Enqueue
	for _, n := range []int{0, 1, 9_999, 10_000, 10_001, 1 << 20} {
		batch = append(batch, host.Enqueue{Body: bytes.Repeat([]byte{byte(n)}, n)})
	}
	w.send("jobs", batch...)
	for i, m := range w.receive("jobs", 9) {
		if !bytes.Equal(m.Body, batch[i].Body) {
			t.Fatalf("body %d differs", i)
		}
	}
}
func TestAMessageIsNotDeliveredAfterItsTimeToLive(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	e := host.Enqueue{Body: []byte("x"), TTL: time.Second}
	w.send("jobs", e, e, body("y"))
	w.fail("jobs", "once") // and waits beyond its time
	w.now = w.now.Add(time.Second)
	if got := bodies(w.receive("jobs", 9)); !slices.Equal(got, []string{"y"}) {
		t.Fatalf("received %q", got)
	}
	w.verify()
	d := w.dead("jobs")
	if len(d) != 2 || !strings.Contains(d[0].Error, "once") || !strings.Contains(d[1].Error, "time-to-live") {
		t.Fatalf("dead %+v", d)
	}
	w.must(func(s *Set) error { _, err := s.RequeueDead("jobs", nil, true); return err })
	w.now = w.now.Add(999 * time.Millisecond) // it begins anew
	if got := w.receive("jobs", 9); len(got) != 2 {
		t.Fatalf("received %+v", got)
	}
	w.verify()
}
