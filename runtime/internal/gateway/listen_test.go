package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A mailQueue is an actor's queue for workers, as far as a listener sees it.
type mailQueue struct {
	mu      sync.Mutex
	waiting []int
	locked  map[string]int // by receipt
	given   int
	nacked  []string
	changed chan struct{}
	paused  bool
}

func newMailQueue() *mailQueue {
	return &mailQueue{locked: make(map[string]int), changed: make(chan struct{})}
}

func (q *mailQueue) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *mailQueue) put(ids ...int) { q.change(func() { q.waiting = append(q.waiting, ids...) }) }
func (q *mailQueue) settle(receipts ...string) {
	q.change(func() {
		for _, r := range receipts {
			delete(q.locked, r)
		}
	})
}

// try runs f, under mu, until it is true or the time is up.
func (q *mailQueue) try(ctx context.Context, waitMS int64, f func() bool) error {
	limit := time.After(time.Duration(waitMS) * time.Millisecond)
	for {
		q.mu.Lock()
		ok, changed := f(), q.changed
		q.mu.Unlock()
		if ok || waitMS == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-limit:
			return nil
		case <-ctx.Done():
			return host.Errorf(host.Canceled, "the caller gave up")
		}
	}
}

func (q *mailQueue) call(ctx context.Context, r *host.Request) (host.Reply, error) {
	answer := func(v any, err error) (host.Reply, error) {
		if err != nil {
			return host.Reply{}, err
		}
		text, err := json.Marshal(v)
		return host.Reply{Output: text}, err
	}
	switch r.Method {
	case host.QueueReceive:
		var in host.QueueReceiveInput
		if err := json.Unmarshal(r.Input, &in); err != nil || in.Limit < 1 {
			return answer(nil, host.Errorf(host.InvalidArgument, "%s %v", r.Input, err))
		}
		if in.Queue != "mail" {
			return answer(nil, host.Errorf(host.NotFound, "there is no queue %s", in.Queue))
		}
		out := host.QueueReceiveOutput{Messages: []host.ReceivedMessage{}}
		fault := error(nil)
		err := q.try(ctx, in.WaitMS, func() bool {
			if q.paused {
				fault = host.Errorf(host.ActorPaused, "paused").Retry()
				return true
			}
			n := min(in.Limit, len(q.waiting))
			for _, id := range q.waiting[:n] {
				q.given++
				receipt := fmt.Sprintf("r%d", q.given)
				q.locked[receipt] = id
				out.Messages = append(out.Messages, host.ReceivedMessage{ID: uint64(id), Queue: "mail", Body: host.Raw(`"x\ny"`), Attempt: 1, Receipt: receipt,
					Sent: time.Unix(1_000_000_000, 0).UTC(), LockedUntil: time.Unix(1_000_000_000, 0).Add(time.Duration(in.LockMS) * time.Millisecond).UTC()})
			}
			q.waiting = q.waiting[n:]
			return n > 0
		})
		if fault != nil {
			err = fault
		}
		return answer(out, err)
	case host.QueueHeld:
		var in host.QueueHeldInput
		if err := json.Unmarshal(r.Input, &in); err != nil {
			return answer(nil, err)
		}
		out := host.QueueHeldOutput{Held: []string{}}
		err := q.try(ctx, in.WaitMS, func() bool {
			out.Held = slices.DeleteFunc(slices.Clone(in.Receipts), func(r string) bool { _, ok := q.locked[r]; return !ok })
			return len(out.Held) < len(in.Receipts)
		})
		return answer(out, err)
	case host.QueueNack:
		var in host.QueueNackInput
		if err := json.Unmarshal(r.Input, &in); err != nil || in.DelayMS == nil || *in.DelayMS != 0 || ctx.Err() != nil {
			return answer(nil, host.Errorf(host.InvalidArgument, "%s %v", r.Input, err))
		}
		q.change(func() {
			for _, r := range in.Receipts {
				q.waiting = append(q.waiting, q.locked[r])
				delete(q.locked, r)
			}
			q.nacked = append(q.nacked, in.Receipts...)
		})
		return answer(host.QueueSettleOutput{Settled: len(in.Receipts)}, nil)
	}
	return host.Reply{}, host.Errorf(host.UnknownMethod, "%s", r.Method)
}

func (q *mailQueue) state() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return fmt.Sprintf("waiting %d locked %d nacked %v", len(q.waiting), len(q.locked), q.nacked)
}

// office is a gateway in front of a queue, in a bubble.
func office(t *testing.T, l serve.Limits, run func(t *testing.T, q *mailQueue, g *Gateway, l *pipeListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newMailQueue()
		g := newGateway(t, setup{Node: &fakeNode{call: q.call}, Limits: l})
		run(t, q, g, launch(t, g))
	})
}

const mailPath = "/actors/room/a/-/queues/mail"

// mail is how a message looks in a worker's stream.
func mail(id, receipt int, until string) string {
	return fmt.Sprintf(`event: message`+"\n"+`data: {"id":%d,"queue":"mail","body":"x\ny","attempt":1,"sent":"2001-09-09T01:46:40Z","receipt":"r%d","locked_until":"%s"}`+"\n",
		id, receipt, until)
}

func TestAWorkerHoldsNoMoreThanItAskedFor(t *testing.T) {
	office(t, serve.Limits{}, func(t *testing.T, q *mailQueue, g *Gateway, l *pipeListener) {
		q.put(1, 2, 3, 4)
		s := open(t, l, "GET", mailPath+"?limit=2&lock_ms=5000", "")
		defer s.conn.Close()
		s.expect("retry: 2000\n")
		const until = "2001-09-09T01:46:45Z"
		s.expect(mail(1, 1, until))
		s.expect(mail(2, 2, until))
		s.expect(":\n") // a heartbeat later it still holds two
		if got := q.state(); got != "waiting 2 locked 2 nacked []" {
			t.Error(got)
		}
		q.settle("r2")
		s.expect(mail(3, 3, until))
		q.settle("r1", "r3")
		s.expect(mail(4, 4, until))
		s.expect(":\n")
		q.put(5)
		s.expect(mail(5, 5, until))
		s.expect(":\n")
		if got := q.state(); got != "waiting 0 locked 2 nacked []" {
			t.Error(got)
		}
	})
}

func TestAWorkerThatDoesNotReadLocksNoMoreAndGivesBackWhatItDidNotGet(t *testing.T) {
	office(t, serve.Limits{StreamBufferBytes: 500}, func(t *testing.T, q *mailQueue, g *Gateway, l *pipeListener) {
		for id := range 20 {
			q.put(id)
		}
		s := open(t, l, "GET", mailPath+"?limit=10", "")
		s.expect("retry: 2000\n")
		s.expect(mail(0, 1, "2001-09-09T01:46:40Z")) // and no further
		time.Sleep(serve.DefaultStreamWriteTimeout)
		synctest.Wait()
		if n := g.front.Open(); n != 0 {
			t.Fatalf("%d are open", n)
		}
		// What was in the piece that was on its way when the worker stopped may have arrived; the rest is free again.
		q.mu.Lock()
		locked, free, back := len(q.locked), len(q.waiting), len(q.nacked)
		q.mu.Unlock()
		if locked+free != 20 || locked == 0 || locked+back != 10 || back < 4 {
			t.Errorf("%d locked, %d free, %d of them given back", locked, free, back)
		}
		s.conn.Close()
	})
}

func TestWhatAWorkerGotStaysLockedWhenItLeaves(t *testing.T) {
	office(t, serve.Limits{}, func(t *testing.T, q *mailQueue, g *Gateway, l *pipeListener) {
		q.put(1)
		s := open(t, l, "GET", mailPath, "")
		s.expect("retry: 2000\n")
		s.expect(mail(1, 1, "2001-09-09T01:46:40Z"))
		s.conn.Close()
		synctest.Wait()
		if got := q.state(); got != "waiting 0 locked 1 nacked []" || g.front.Open() != 0 {
			t.Error(got, g.front.Open())
		}
	})
}

func TestListeningEndsWithTheReason(t *testing.T) {
	office(t, serve.Limits{}, func(t *testing.T, q *mailQueue, g *Gateway, l *pipeListener) {
		s := open(t, l, "GET", mailPath, "")
		s.expect("retry: 2000\n")
		q.change(func() { q.paused = true })
		s.expect("event: cairn.bye\ndata: {\"code\":\"actor_paused\",\"message\":\"paused\",\"retryable\":true}\n")
		if _, err := s.block(); err != io.EOF {
			t.Error(err)
		}
		if w := ask(g, "GET", mailPath, ""); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
			t.Error(w.Code, w.Body)
		}
		q.change(func() { q.paused = false })
		s = open(t, l, "GET", mailPath, "")
		s.expect("retry: 2000\n")
		go g.front.Close()
		s.expect("event: cairn.bye\ndata: {\"code\":\"unavailable\",\"message\":\"the node is shutting down\",\"retryable\":true}\n")
	})
}

func TestWhatIsWrongWithListeningIsNamed(t *testing.T) {
	q := newMailQueue()
	g := newGateway(t, setup{Node: &fakeNode{call: q.call}})
	for url, want := range map[string]string{
		mailPath + "?limit=0":                      "parameter limit",
		mailPath + "?limit=1001":                   "from 1 to 1000",
		mailPath + "?lock_ms=0":                    "parameter lock_ms",
		mailPath + "?lock_ms=1s":                   "parameter lock_ms",
		mailPath + "?max=1":                        "known are: lock_ms, limit",
		"/actors/room/a/-/queues/":                 "no queue",
		"/actors/room/a/-/queues/other":            "no queue other",
		"/actors/room/a/-/queues/a/b":              "nothing at this path",
		"/actors/room/a/-/queues/%ff":              "name of the queue is not valid UTF-8",
		"/actors/room/a/-/streams/":                "no stream",
		"/actors/room/a/-/streams/tokens?names=a":  "known are: after",
		"/actors/room/a/-/streams/tokens?after=-1": "parameter after",
	} {
		w := ask(g, "GET", url, "")
		if w.Code < 400 || w.Code >= 500 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %q", url, w.Code, w.Body)
		}
	}
	if w := ask(g, "GET", mailPath, "", "Sec-Fetch-Site: cross-site"); w.Code != 403 {
		t.Error("an image of another site locks a message:", w.Code, w.Body)
	}
	if w := ask(g, "HEAD", mailPath, ""); w.Code != 405 {
		t.Error("HEAD locks a message:", w.Code)
	}
}
