package queue

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
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
	for name, c := range map[string]struct {
		messages []host.Enqueue
		code     host.Code
		says     string
	}{
		"no message":         {nil, host.InvalidArgument, "messages: 0"},
		"too many":           {make([]host.Enqueue, host.MaxQueueBatch+1), host.InvalidArgument, "messages: 1001"},
		"negative delay":     {[]host.Enqueue{{Delay: -1}}, host.InvalidArgument, "delay:"},
		"long delay":         {[]host.Enqueue{{Delay: 31 * day}}, host.InvalidArgument, "delay:"},
		"second message":     {[]host.Enqueue{ok, {Delay: -1}}, host.InvalidArgument, "messages[1].delay:"},
		"high priority":      {[]host.Enqueue{{Priority: 1001}}, host.InvalidArgument, "priority:"},
		"low priority":       {[]host.Enqueue{{Priority: -1001}}, host.InvalidArgument, "priority:"},
		"long dedup id":      {[]host.Enqueue{{DedupID: strings.Repeat("x", 256)}}, host.InvalidArgument, "dedup_id:"},
		"negative ttl":       {[]host.Enqueue{{TTL: -1}}, host.InvalidArgument, "ttl:"},
		"long ttl":           {[]host.Enqueue{{TTL: 31 * day}}, host.InvalidArgument, "ttl:"},
		"ttl before delay":   {[]host.Enqueue{{TTL: time.Second, Delay: time.Second}}, host.InvalidArgument, "ttl:"},
		"many pauses":        {[]host.Enqueue{{Backoff: make([]time.Duration, 101)}}, host.InvalidArgument, "backoff:"},
		"negative pause":     {[]host.Enqueue{{Backoff: []time.Duration{0, -1}}}, host.InvalidArgument, "backoff[1]:"},
		"many keys":          {[]host.Enqueue{{KeysIfUndelivered: make([][]byte, 11)}}, host.InvalidArgument, "keys_if_undelivered:"},
		"bad key":            {[]host.Enqueue{{KeysIfUndelivered: [][]byte{{0xFF}}}}, host.InvalidArgument, "keys_if_undelivered[0]:"},
		"long key":           {[]host.Enqueue{{KeysIfUndelivered: [][]byte{make([]byte, 1_901)}}}, host.InvalidArgument, "keys_if_undelivered[0]:"},
		"large body":         {[]host.Enqueue{ok, body("1234567")}, host.TooLarge, "messages[1].body:"},
		"too many messages":  {[]host.Enqueue{ok, ok, ok}, host.Overloaded, "is full"},
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
	if w.last.Wake != due.UnixMilli() || w.wakes()["jobs"] != due.UnixMilli() {
		t.Fatalf("wake %d, rows %v", w.last.Wake, w.wakes())
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

func TestAFailingMessageIsTriedAgainAndThenADeadLetter(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	key, _ := tuple.Tuple{"lost", int64(7)}.Pack()
	e := host.Enqueue{Body: []byte("bad"), KeysIfUndelivered: [][]byte{key}, WantReply: true, DedupID: "once"}
	id := w.send("jobs", e)[0].ID
	for attempt, pause := range host.DefaultQueueBackoff() {
		if m := w.fail("jobs", "no luck"); m.Attempt != attempt+1 || m.ID != id || !m.WantReply || m.DedupID != "once" {
			t.Fatalf("attempt %d: %+v", attempt, m)
		}
		if l := w.peek("jobs")[0]; l.Attempts != attempt+1 || l.Error != "no luck" || !l.Tried.Equal(w.now) || !l.Due.Equal(w.now.Add(pause)) {
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
	if l.ID != id || l.State != "dead" || l.Attempts != 4 || l.Error != "never" || !l.Died.Equal(w.now) || !l.Tried.Equal(w.now) || !l.Sent.Equal(start) {
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

func TestAnExpiredLockCountsAsAnAttempt(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Lock: time.Second, Backoff: []time.Duration{2 * time.Second}})
	w.send("jobs", body("x"))
	first := w.receive("jobs", 1)[0]
	if first.Attempt != 1 || !first.LockedUntil.Equal(w.now.Add(time.Second)) {
		t.Fatalf("%+v", first)
	}
	w.now = w.now.Add(time.Second)
	w.must(func(s *Set) error { // though nobody took it back yet
		if n, lost, err := s.Ack("jobs", []string{first.Receipt}, nil); n != 0 || len(lost) != 1 || err != nil {
			t.Fatalf("late ack: %d %v %v", n, lost, err)
		}
		return nil
	})
	w.due("jobs")
	if !slices.Equal(w.last.Settled, []string{"jobs"}) || w.stats("jobs").Delayed != 1 {
		t.Fatalf("settled %q, stats %+v", w.last.Settled, w.stats("jobs"))
	}
	w.now = w.now.Add(2 * time.Second)
	second := w.receive("jobs", 1)[0]
	if second.Attempt != 2 || second.Receipt == first.Receipt {
		t.Fatalf("%+v", second)
	}
	if held, err := Held(w.space.Writes(), "jobs", []string{first.Receipt, second.Receipt}); err != nil || !slices.Equal(held, []string{second.Receipt}) {
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
	bad := []string{"", "x", "!!", r + "A", r[:len(r)-1], strings.ToUpper(r) + "\n", r + "\n", strings.Repeat("A", 99), receipt(1, 0), receipt(2, 0)}
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
		wantCode(t, err, host.InvalidArgument)
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

func TestDeadLettersAreBoundedByAgeAndCount(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Dead: 2, DeadFor: time.Minute, Backoff: []time.Duration{}})
	for _, b := range []string{"a", "b", "c"} {
		w.send("jobs", body(b))
		w.fail("jobs", "no")
		w.now = w.now.Add(time.Second)
	}
	d := w.dead("jobs")
	if len(d) != 2 || string(d[0].Body) != "b" || w.stats("jobs").Failed != 3 {
		t.Fatalf("dead %+v", d)
	}
	w.now = start.Add(time.Second + time.Minute)
	if w.wakes()["jobs"] != w.now.UnixMilli() {
		t.Fatalf("wakes %v", w.wakes())
	}
	w.due("jobs")
	if d := w.dead("jobs"); len(d) != 1 || string(d[0].Body) != "c" {
		t.Fatalf("dead %+v", d)
	}
	w.must(func(s *Set) error {
		n, err := s.DeleteDead("jobs", nil, true)
		if n != 1 {
			t.Fatalf("deleted %d", n)
		}
		return err
	})
	w.verify()
	if len(w.wakes()) != 0 {
		t.Fatalf("wakes %v", w.wakes())
	}
}

func TestABodyThatNoKeyTakesIsStillADeadLetter(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Backoff: []time.Duration{}})
	key, _ := tuple.Tuple{"lost"}.Pack()
	w.send("jobs", host.Enqueue{Body: make([]byte, engine.DefaultMaxValue+1), KeysIfUndelivered: [][]byte{key}})
	w.fail("jobs", "no")
	w.verify()
	if d := w.dead("jobs"); len(d) != 1 || !strings.Contains(d[0].Error, "no; its body is too large for a key") {
		t.Fatalf("dead %.200v", d[0].Error)
	}
}

func TestAnActorWithoutQuotaCanGiveUpItsMessages(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Backoff: []time.Duration{}})
	w.send("jobs", body("x"))
	if err := w.space.SetLimits(&engine.Limits{Quota: w.space.Head().Bytes + 24}); err != nil {
		t.Fatal(err)
	}
	w.fail("jobs", strings.Repeat("long", 50))
	w.verify()
	if d := w.dead("jobs"); len(d) != 1 || d[0].Error != "" {
		t.Fatalf("dead %+v", d)
	}
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
			if err := s.Fail(m, nil); err != nil {
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

func TestPurgeSparesLockedMessagesAndOtherQueues(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"}, host.Queue{Name: "other"})
	late := host.Enqueue{Body: []byte("late"), Delay: time.Hour, WantReply: true}
	purge := func(want int64) {
		t.Helper()
		w.must(func(s *Set) error {
			n, err := s.Purge("jobs")
			if n != want {
				t.Fatalf("purged %d, want %d", n, want)
			}
			return err
		})
		w.verify()
	}
	w.send("jobs", body("a"), late, host.Enqueue{TTL: time.Hour})
	purge(3) // as ranges
	if len(w.last.Replied) != 1 || len(w.wakes()) != 0 {
		t.Fatalf("replied %v, wakes %v", w.last.Replied, w.wakes())
	}
	w.send("other", body("kept"))
	w.send("jobs", body("locked"), body("a"), late, host.Enqueue{TTL: time.Hour})
	w.receive("jobs", 1)
	purge(3)
	purge(0)
	if l := w.peek("jobs"); len(l) != 1 || string(l[0].Body) != "locked" || len(w.peek("other")) != 1 {
		t.Fatalf("left %+v", l)
	}
	w.must(func(s *Set) error {
		if n, err := s.Delete("jobs", []uint64{w.peek("jobs")[0].ID, w.peek("other")[0].ID, 77}); n != 1 || err != nil {
			t.Fatalf("deleted %d %v", n, err)
		}
		return nil
	})
	w.verify()
}

func TestListsArePaged(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Backoff: []time.Duration{}}, host.Queue{Name: "other"})
	for range 5 {
		w.send("jobs", body("x"), body("dies"))
		w.send("other", body("y"))
	}
	rows := w.space.Writes()
	var ids []uint64
	for after, more := uint64(0), true; more; {
		var page []host.ListedMessage
		var err error
		page, more, err = Peek(rows, &host.QueueListInput{Queue: "jobs", After: after, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			ids = append(ids, m.ID)
		}
		after = ids[len(ids)-1]
	}
	if want := []uint64{1, 2, 4, 5, 7, 8, 10, 11, 13, 14}; !slices.Equal(ids, want) {
		t.Fatalf("ids %v", ids)
	}
	l, more, err := Peek(rows, &host.QueueListInput{Queue: "jobs", IDs: []uint64{5, 2, 3, 5, 99}})
	if err != nil || more || len(l) != 2 || l[0].ID != 2 {
		t.Fatalf("%+v %v %v", l, more, err)
	}
	if l, more, err := Peek(rows, &host.QueueListInput{Queue: "jobs", After: 1<<64 - 1}); len(l) > 0 || more || err != nil {
		t.Fatalf("%+v %v %v", l, more, err)
	}
	for _, in := range []host.QueueListInput{{Queue: ""}, {Queue: "a/b"}, {Queue: "jobs", Limit: 1_001}, {Queue: "jobs", Limit: -1}, {Queue: "jobs", IDs: make([]uint64, 1_001)}} {
		if _, _, err := Peek(rows, &in); host.CodeOf(err) != host.InvalidArgument && host.CodeOf(err) != host.NotFound {
			t.Errorf("%+v: %v", in.Queue, err)
		}
		if _, _, err := DeadList(rows, &in); err == nil {
			t.Errorf("%+v is fine", in.Queue)
		}
	}
	all, err := AllStats(rows)
	if err != nil || len(all) != 2 || all[0].Queue != "jobs" || all[0].Pending != 10 || all[1].Pending != 5 {
		t.Fatalf("%+v %v", all, err)
	}
}

func TestAPageOfLargeBodiesIsShort(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	large := host.Enqueue{Body: make([]byte, 1<<20)}
	w.send("jobs", large, large, large, large, large, large)
	if l, more, err := Peek(w.space.Writes(), &host.QueueListInput{Queue: "jobs"}); len(l) != 4 || !more || err != nil {
		t.Fatalf("%d %v %v", len(l), more, err)
	}
	if n := len(w.receive("jobs", 10)); n != 4 {
		t.Fatalf("received %d", n)
	}
	if n := len(w.receive("jobs", 10)); n != 2 {
		t.Fatalf("received %d", n)
	}
	w.verify()
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
	if st := w.stats("jobs"); st.Pending != maxDue || w.last.Wake == 0 || w.last.Wake > w.now.UnixMilli() {
		t.Fatalf("%+v, wake %d", st, w.last.Wake)
	}
	w.due("jobs")
	w.verify()
	if st := w.stats("jobs"); st.Pending != 1_800 || w.last.Wake != 0 {
		t.Fatalf("%+v, wake %d", st, w.last.Wake)
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
	if w.last.Wake != w.now.Add(time.Hour).UnixMilli() {
		t.Fatal("whoever took the row up does not learn of it")
	}
	w.verify()
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

func TestCorruptRowsAreErrors(t *testing.T) {
	for name, damage := range map[string]func(w *world, ws *engine.WriteSet) error{
		"message": func(w *world, ws *engine.WriteSet) error {
			return ws.Put(keyspace.AppendQueueMessage(nil, 1), []byte{1, 2}, engine.PutOptions{})
		},
		"missing message": func(w *world, ws *engine.WriteSet) error {
			_, err := ws.Delete(keyspace.AppendQueueMessage(nil, 1))
			return err
		},
		"counts": func(w *world, ws *engine.WriteSet) error {
			return ws.Put(keyspace.AppendQueueStats(nil, "jobs"), []byte{9}, engine.PutOptions{})
		},
		"metadata": func(w *world, ws *engine.WriteSet) error {
			return ws.Put(keyspace.AppendQueueMetadata(nil), nil, engine.PutOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, host.Queue{Name: "jobs"})
			w.send("jobs", body("x"))
			w.must(func(*Set) error { return damage(w, w.space.Writes()) })
			err := w.turn(func(s *Set) error {
				m, _, err := s.Next("jobs")
				if err != nil {
					return err
				}
				return s.Done(m, nil)
			})
			if !errors.Is(err, errCorrupt) || host.CodeOf(err) != host.Internal {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func TestAMessageTriedAgainDoesNotMoveTheFrontBack(t *testing.T) {
	f := front{ranked: true}
	for id := uint64(1); id <= 1_000; id++ {
		f.add(place{0, id})
	}
	for id := uint64(1); id <= 500; id++ {
		f.remove(place{0, id})
	}
	for id := uint64(1); id <= 100; id += 7 {
		f.add(place{0, id})
		if !f.runs[0].exact || f.runs[0].from.id != id {
			t.Fatalf("runs %+v", f.runs)
		}
		f.remove(place{0, id})
		if len(f.runs) != 1 || f.runs[0].from.id != 501 {
			t.Fatalf("runs %+v", f.runs)
		}
	}
	for id := uint64(500); id <= 1_000; id++ {
		if got := f.remove(place{0, id}); got != (id > 500) {
			t.Fatalf("remove %d: %v", id, got)
		}
	}
	if len(f.runs) != 0 || f.n != 0 {
		t.Fatalf("left %+v", f)
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
