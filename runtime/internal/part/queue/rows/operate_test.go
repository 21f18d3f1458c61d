package queuerows

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

func TestABodyThatNoKeyTakesIsStillADeadLetter(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Backoff: []time.Duration{}, MessageBytes: 2 * engine.DefaultMaxValue})
	key, _ := tuple.Tuple{"lost"}.Pack()
	for i, cause := range []string{"no", strings.Repeat("é", 1_000)} {
		w.send("jobs", host.Enqueue{Body: make([]byte, engine.DefaultMaxValue+1), KeysIfUndelivered: [][]byte{key}})
		w.fail("jobs", cause)
		w.verify()
		text := w.list(DeadList, "jobs")[i].Error
		said, ok := strings.CutSuffix(text, "; a key of keys_if_undelivered does not take its body")
		errorIf(t, !ok || !strings.HasPrefix(cause, said) || len(text) > maxCause, "dead letter says %q", text)
	}
}

func TestAnActorWithoutQuotaCanGiveUpItsMessages(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Backoff: []time.Duration{}})
	w.send("jobs", body("x"))
	must(t, w.space.SetLimits(&engine.Limits{Quota: w.space.Head().Bytes + 24}))
	w.fail("jobs", strings.Repeat("long", 50))
	w.verify()
	d := w.list(DeadList, "jobs")
	fatalIf(t, len(d) != 1 || d[0].Error != "", "dead %+v", d)
}

func TestPurgeOfAllMessagesThatAnActorHasTellsTheirSenders(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	sent := w.send("jobs", body("a"), host.Enqueue{Delay: time.Hour, WantReply: true}, host.Enqueue{TTL: time.Hour})
	for _, want := range []int64{3, 0} {
		w.must(func(s *Set) error {
			n, err := s.Purge("jobs")
			fatalIf(t, n != want, "purged %d, want %d", n, want)
			return err
		})
		w.verify()
		fatalIf(t, want > 0 && !slices.Equal(w.last.Replied, []uint64{sent[1].ID}), "replied %v", w.last.Replied)
	}
}

func TestListsAreOfOneQueueAndRefuseWhatTheyCannotDo(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"}, host.Queue{Name: "other"})
	for range 5 {
		w.send("jobs", body("x"), body("x"))
		w.send("other", body("y"))
	}
	rows := w.space.Writes()
	l, more, err := Peek(rows, &host.QueueListInput{Queue: "jobs", IDs: []uint64{5, 2, 3, 5, 99}})
	fatalIf(t, err != nil || more || len(l) != 2 || l[0].ID != 2, "%+v %v %v", l, more, err)
	l, more, err = Peek(rows, &host.QueueListInput{Queue: "jobs", After: 1<<64 - 1})
	fatalIf(t, len(l) > 0 || more || err != nil, "%+v %v %v", l, more, err)
	for code, refused := range map[host.Code][]host.QueueListInput{
		host.NotFound:        {{Queue: ""}, {Queue: "a/b"}},
		host.InvalidArgument: {{Queue: "jobs", Limit: 1_001}, {Queue: "jobs", Limit: -1}},
		host.TooLarge:        {{Queue: "jobs", IDs: make([]uint64, 1_001)}},
	} {
		for _, in := range refused {
			_, _, err := Peek(rows, &in)
			_, _, derr := DeadList(rows, &in)
			errorIf(t, host.CodeOf(err) != code || derr == nil, "%+v: %v, %v, want %s", in, err, derr, code)
		}
	}
	all, err := AllStats(rows)
	fatalIf(t, err != nil || len(all) != 2 || all[0].Queue != "jobs" || all[0].Pending != 10 || all[1].Pending != 5, "%+v %v", all, err)
}

func TestAPageOfLargeBodiesIsShort(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	large := host.Enqueue{Body: make([]byte, 1<<20)}
	w.send("jobs", large, large, large, large, large, large)
	l, more, err := Peek(w.space.Writes(), &host.QueueListInput{Queue: "jobs"})
	fatalIf(t, len(l) != 4 || !more || err != nil, "%d %v %v", len(l), more, err)
	n := len(w.receive("jobs", 10))
	fatalIf(t, n != 4, "received %d", n)
	n = len(w.receive("jobs", 10))
	fatalIf(t, n != 2, "received %d", n)
	w.verify()
}

func TestCorruptRowsAreErrors(t *testing.T) {
	put := func(key, value []byte) func(*engine.WriteSet) error {
		return func(ws *engine.WriteSet) error { return ws.Put(key, value, engine.PutOptions{}) }
	}
	for name, damage := range map[string]func(*engine.WriteSet) error{
		"message":  put(keyspace.QueueMessage.Append(nil, 1), []byte{1, 2}),
		"counts":   put(keyspace.QueueStats.Append(nil, "jobs"), []byte{9}),
		"metadata": put(keyspace.QueueMetadata.Append(nil), nil),
		"missing message": func(ws *engine.WriteSet) error {
			_, err := ws.Delete(keyspace.QueueMessage.Append(nil, 1))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, host.Queue{Name: "jobs"})
			w.send("jobs", body("x"))
			w.must(func(*Set) error { return damage(w.space.Writes()) })
			err := w.turn(func(s *Set) error {
				m, _, err := s.Next("jobs")
				if err != nil {
					return err
				}
				return s.Done(m, nil)
			})
			fatalIf(t, !errors.Is(err, errCorrupt) || host.CodeOf(err) != host.Internal, "error %v", err)
		})
	}
}

// An actor that is full, or that got a smaller quota, must be able to get emptier: no operation on
// existing messages is refused.
func TestAFullActorHandlesReceivesAndSettlesItsMessages(t *testing.T) {
	for _, over := range []int64{0, 100} {
		w := newWorld(t, host.Queue{Name: "jobs"})
		for range 8 {
			w.send("jobs", host.Enqueue{Body: []byte("some body"), WantReply: true, TTL: 20 * time.Minute})
		}
		must(t, w.space.SetLimits(&engine.Limits{Quota: w.space.Head().Bytes - over}))
		if err := w.turn(func(s *Set) error { _, err := s.Send("jobs", []host.Enqueue{body("x")}); return err }); err == nil {
			t.Fatal("a full actor takes a message")
		}
		r := w.receive("jobs", 4)
		receipts := []string{r[0].Receipt, r[1].Receipt, r[2].Receipt, r[3].Receipt}
		w.must(func(s *Set) error { _, _, err := s.Nack("jobs", receipts[:1], nil, "no", false); return err })
		w.must(func(s *Set) error { _, _, err := s.Nack("jobs", receipts[1:2], nil, "no", true); return err })
		w.must(func(s *Set) error { _, _, err := s.Extend("jobs", receipts[2:3], time.Minute); return err })
		w.fail("jobs", "no")
		w.verify()
		w.now = w.now.Add(10 * time.Minute)
		w.must(func(s *Set) error { return s.Due("jobs", 0) }) // pauses and locks are over
		w.must(func(s *Set) error { _, err := s.Skip("jobs"); return err })
		w.must(func(s *Set) error { _, err := s.RequeueDead("jobs", nil, true); return err })
		w.verify()
		w.now = w.now.Add(11 * time.Minute)
		w.must(func(s *Set) error { return s.Due("jobs", 0) }) // time-to-live is over
		w.verify()
		w.must(func(s *Set) error { _, err := s.Purge("jobs"); return err })
		w.verify()
	}
}

// More messages come due together, or are sent again together, than one turn may write: then it
// takes several.
func TestWhatIsMoreThanATurnMayWriteTakesSeveral(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs", Backoff: []time.Duration{}})
	const room = 64 << 10
	must(t, w.space.SetLimits(&engine.Limits{MaxWriteSet: room}))
	for range 20 {
		w.send("jobs", host.Enqueue{Body: make([]byte, 8<<10), Delay: time.Second})
	}
	for _, step := range []struct {
		does string
		do   func(s *Set) error
		n    func(host.QueueStats) int64
	}{
		{"delays end", func(s *Set) error { return s.Due("jobs", 0) }, func(st host.QueueStats) int64 { return st.Pending }},
		{"receive", func(s *Set) error { _, err := s.Receive("jobs", 100, time.Second); return err },
			func(st host.QueueStats) int64 { return st.Processing }},
		{"locks end", func(s *Set) error { return s.Due("jobs", 0) }, func(st host.QueueStats) int64 { return st.Dead }},
		{"requeue", func(s *Set) error { _, err := s.RequeueDead("jobs", nil, true); return err },
			func(st host.QueueStats) int64 { return st.Pending }},
	} {
		if step.does != "receive" {
			w.now = w.now.Add(time.Minute)
		}
		for range 20 {
			w.must(func(s *Set) error { s.Room = room; return step.do(s) })
			w.verify()
		}
		st := w.stats("jobs")
		fatalIf(t, step.n(st) != 20, "%s: %+v", step.does, st)
	}
}
