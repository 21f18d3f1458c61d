package actor_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

type delivery = handle.Delivery[job, actor.None]

func (r *rig) send(names ...string) {
	r.Helper()
	bodies := make([]job, len(names))
	for i, name := range names {
		bodies[i].Name = name
	}
	if _, err := r.mail.Of(r.ref).SendAll(r.Context(), bodies); err != nil { // in one call: workers act at once
		r.Fatal(err)
	}
}

// receive receives one message of the queue "mail".
func (r *rig) receive(lock time.Duration) *delivery {
	r.Helper()
	got, err := r.mail.Of(r.ref).Receive(r.Context(), handle.ReceiveConfig{Lock: lock})
	fatalIf(r, err != nil || len(got) != 1, "received %v, %v", got, err)
	return got[0]
}

// mailHolds checks what the queue "mail" holds: names, and dead letters with their errors.
func (r *rig) mailHolds(want ...string) {
	r.Helper()
	var got []string
	for _, m := range all(r, r.mail.Of(r.ref).Peek(r.Context())) {
		got = append(got, fmt.Sprintf("%s %s %d", m.Body.Name, m.State, m.Attempts))
	}
	for _, m := range all(r, r.mail.Of(r.ref).DeadLetters().List(r.Context())) {
		got = append(got, fmt.Sprintf("%s %s %d %s", m.Body.Name, m.State, m.Attempts, m.Error))
	}
	errorIf(r, !slices.Equal(got, want), "the queue holds %q, want %q", got, want)
}

func TestHandlerSeesItsMessage(t *testing.T) {
	onNode(t, func(r *rig) {
		var sent time.Time
		r.handle = func(s *desk, ctx *actor.Context, j job) error {
			m := ctx.Message()
			errorIf(r, m.ID == 0 || m.Queue != "jobs" || m.Attempt != 1 || !m.Sent.Equal(sent) || m.WantReply, "message: %+v", m)
			s.logf("%s %d %s", j.Name, m.Priority, m.DedupID)
			return nil
		}
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			sent = ctx.Now()
			first, err := r.jobs.Put(ctx, job{Name: "low"}, actor.DedupID("x"))
			again, err2 := r.jobs.Put(ctx, job{Name: "twice"}, actor.DedupID("x"))
			errorIf(r, first.ID == 0 || again != (handle.Sent{ID: first.ID, Duplicate: true}), "put: %v %v", first, again)
			both, err3 := r.jobs.PutAll(ctx, []job{{Name: "b"}, {Name: "c"}}, actor.Priority(5))
			none, err4 := r.jobs.PutAll(ctx, nil)
			errorIf(r, len(both) != 2 || none != nil, "put all: %v, %v", both, none)
			errorIf(r, ctx.Message() != actor.Message{}, "an action handles %v", ctx.Message())
			return errors.Join(err, err2, err3, err4)
		})
		r.logged("b 5 ", "c 5 ", "low 0 x")
	})
}

func TestMessageOptionsReachTheQueueFromAllSides(t *testing.T) {
	opts := []actor.MessageOption{
		actor.Delay(time.Minute), actor.Priority(-3), actor.DedupID("id"), actor.MessageTTL(time.Hour + 1500*time.Microsecond),
		actor.Backoff(time.Second, 2*time.Second), actor.KeysIfUndelivered(tuple.Tuple{"lost", int64(1), true, 2.5}),
	}
	onNode(t, func(r *rig) {
		turn := &stub{}
		packed, err := tuple.Append(nil, tuple.Tuple{"lost", int64(1), true, 2.5})
		if err = errors.Join(err, r.act(turn, func(ctx *actor.Context) error {
			r.jobs.Put(ctx, job{Name: "x"}, opts...)
			r.jobs.Post(ctx, r.typ.Ref(ctx, "b"), job{Name: "x"}, opts...)
			r.jobs.Put(ctx, job{}, actor.Backoff())
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		body := []byte("\xa1\x64name\x61x")
		if want := (host.Enqueue{
			Body: body, Delay: time.Minute, Priority: -3, DedupID: "id", TTL: time.Hour + 1500*time.Microsecond,
			Backoff: []time.Duration{time.Second, 2 * time.Second}, KeysIfUndelivered: [][]byte{packed},
		}); !reflect.DeepEqual(turn.enqueued[0], want) {
			t.Errorf("put: %+v\nwant %+v", turn.enqueued[0], want)
		}
		b := turn.enqueued[1].Backoff
		errorIf(t, b == nil || len(b) > 0, "one attempt became the default: %v", b)
		send := []handle.SendOption{actor.IdempotencyKey("k"), actor.Traceparent("tp")}
		for _, o := range opts {
			send = append(send, o)
		}
		if _, err := r.jobs.Of(r.ref).Send(r.Context(), job{Name: "x"}, send...); err != nil {
			t.Error(err)
		}
		q := r.node.Requests()[0]
		if q.IdempotencyKey != "k" || q.Traceparent != "tp" || q.Existing || q.Method != host.QueueSend ||
			turn.sent[0].Method != q.Method || turn.sent[0].Key[0] != "b" {
			t.Errorf("%+v, %+v", q, turn.sent[0])
		}
		ttl := int64(3_600_002)
		for _, input := range [][]byte{q.Input, turn.sent[0].Input} {
			if got, want := decoded[host.QueueSendInput](t, input), (host.QueueSendInput{Queue: "jobs", Messages: []host.QueueMessageInput{{
				Body: body, DelayMS: 60_000, Priority: -3, DedupID: "id", TTLMS: &ttl, BackoffMS: []int64{1000, 2000},
				KeysIfUndelivered: [][]any{{"lost", uint64(1), true, 2.5}},
			}}}); !reflect.DeepEqual(got, want) {
				t.Errorf("sent: %+v\nwant %+v", got, want)
			}
		}
		nobody := r.jobs.Of(r.typ.Ref(r.node, "nobody"))
		hasCode(r, "Existing", second(nobody.Send(r.Context(), job{}, actor.Existing())), actor.NotFound)
		key := actor.KeysIfUndelivered(tuple.Tuple{"k", []byte("b")}) // which requests cannot carry
		hasCode(r, "a key", second(nobody.Send(r.Context(), job{}, key)), actor.InvalidArgument, "key part 2 ")
	})
}

func TestAskSurvivesErrorsThatPass(t *testing.T) {
	onNode(t, func(r *rig) {
		fail := 3
		r.node.Before = func(_ context.Context, _ string, q *host.Request) error {
			if q.Method == host.QueueResult && fail > 0 {
				fail--
				return host.Errorf(host.Unavailable, "the node restarts")
			}
			return nil
		}
		got, err := r.price.Of(r.ref).Ask(r.Context(), "chair")
		sends := called[host.QueueSendInput](r, host.QueueSend)
		errorIf(r, err != nil || got != 5 || len(sends) != 1 || fail != 0, "%d, %v, %d sends", got, err, len(sends))
		r.refusing(host.Errorf(host.NotFound, "no reply is kept"), host.QueueResult)
		hasCode(r, "no reply", second(r.price.Of(r.ref).Ask(r.Context(), "chair")), actor.NotFound)
		r.refusing(nil)

		ctx, cancel := context.WithTimeout(r.Context(), 90*time.Second)
		defer cancel()
		start := time.Now()
		_, err = r.quotes.Of(r.ref).Ask(ctx, "table") // which no worker handles
		hasCode(r, "too long", err, actor.DeadlineExceeded)
		e, _ := errors.AsType[*actor.Error](err)
		errorIf(r, e.Metadata["message"] != "3" || time.Since(start) != 90*time.Second, "%v after %s", e.Metadata, time.Since(start))
		stats, err := r.quotes.Of(r.ref).Stats(r.Context())
		errorIf(r, err != nil || stats.Pending != 1, "%+v, %v", stats, err)
	})
}

func TestAskInATurnIsRefusedBeforeItSends(t *testing.T) {
	onNode(t, func(r *rig) {
		r.look(func(ctx actor.Reader) error {
			within := ctx.(interface {
				context.Context
				actor.Node
			})
			hasCode(r, "context", second(r.price.Of(r.typ.Ref(r.node, "b")).Ask(within, "x")), actor.InvalidArgument)
			hasCode(r, "node", second(r.price.Of(r.typ.Ref(within, "b")).Ask(r.Context(), "x")), actor.InvalidArgument)
			return nil
		})
		hasCode(r, "lookup", second(r.typ.Ref(r.node, "b").Lookup(r.Context())), actor.NotFound)
	})
}

func TestLostLockIsAnError(t *testing.T) {
	onNode(t, func(r *rig) {
		for name, use := range map[string]func(*delivery) error{
			"ack":    func(m *delivery) error { return m.Ack(r.Context(), actor.None{}) },
			"nack":   func(m *delivery) error { return m.Nack(r.Context(), nil) },
			"extend": func(m *delivery) error { return m.Extend(r.Context(), time.Minute) },
		} {
			r.send(name, "other")
			lost, settled := r.receive(time.Second), r.receive(time.Minute)
			time.Sleep(2 * time.Second)
			for range 2 {
				hasCode(r, name, use(lost), actor.FailedPrecondition, "lock")
			}
			check(r, settled.Ack(r.Context(), actor.None{}))
			hasCode(r, name+" after ack", use(settled), actor.FailedPrecondition, "settled already")
			n, err := r.mail.Of(r.ref).Purge(r.Context())
			errorIf(r, n != 1 || err != nil, "%d purged, %v", n, err)
		}
		r.send("later")
		check(r, r.receive(time.Minute).RetryAfter(r.Context(), time.Hour, errors.New("not now")))
		r.mailHolds("later delayed 1")
		time.Sleep(time.Hour)
		errorIf(r, r.receive(time.Minute).Attempt != 2, "the attempts are miscounted")
	})
}

func TestReceiveWaitsAsLongAsItIsAskedTo(t *testing.T) {
	onNode(t, func(r *rig) {
		start := time.Now()
		got, err := r.mail.Of(r.ref).Receive(r.Context(), handle.ReceiveConfig{Wait: 100 * time.Second})
		waited := time.Since(start)
		errorIf(r, got != nil || err != nil || waited < 100*time.Second || waited > 101*time.Second, "%v, %v after %s", got, err, waited)
		for _, in := range called[host.QueueReceiveInput](r, host.QueueReceive) {
			errorIf(r, in.WaitMS > 60_000, "one call waits for %d ms", in.WaitMS)
		}
	})
}

// narrow is the job of another version of the program: not all bodies fit.
type narrow struct {
	Name string `json:"name"`
	N    int8   `json:"n"`
}

func TestMessageThatDoesNotDecodeIsGivenBackAndHidesNoOther(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx := r.Context()
		typ := actor.NewType[desk]("desk")
		mail := actor.NewQueue[narrow](typ, "mail", actor.QueueConfig{Workers: true}).Of(typ.Ref(r.node, "a"))
		check(r, second(r.mail.Of(r.ref).SendAll(ctx, []job{{N: 1000}, {Name: "y"}})))
		var peeked []string
		for l, err := range mail.Peek(ctx) {
			peeked = append(peeked, fmt.Sprintf("%d %s %s", l.ID, l.Body.Name, actor.CodeOf(err)))
		}
		errorIf(r, !slices.Equal(peeked, []string{"1  internal", "2 y "}), "%q", peeked)
		got, err := mail.Receive(ctx, handle.ReceiveConfig{Max: 2, Lock: time.Minute})
		errorIf(r, err != nil || len(got) != 1 || got[0].Body.Name != "y", "%v, %v", got, err)
		nacks := called[host.QueueNackInput](r, host.QueueNack)
		errorIf(r, len(nacks) != 1 || !strings.Contains(nacks[0].Error, "does not decode"), "%+v", nacks)
		got, err = mail.Receive(ctx, handle.ReceiveConfig{Lock: time.Minute})
		hasCode(r, "alone", err, actor.Internal)
		errorIf(r, len(got) != 0, "received %v", got)
	})
}

func TestCauseIsCutBetweenCharacters(t *testing.T) {
	onNode(t, func(r *rig) {
		for i, text := range []string{strings.Repeat("x", 1024), strings.Repeat("x", 1023) + "é", strings.Repeat("é", 700), "a\xffb"} {
			r.send("x")
			check(r, r.receive(time.Minute).GiveUp(r.Context(), errors.New(text)))
			cause := called[host.QueueNackInput](r, host.QueueNack)[i].Error
			wrong := len(cause) > 1024 || len(cause) < min(len(text), 1023) || !utf8.ValidString(cause)
			errorIf(r, wrong, "%d bytes became %d: %q", len(text), len(cause), cause)
		}
	})
}

func TestDeadLettersAreListedToTheLast(t *testing.T) {
	onNode(t, func(r *rig) {
		price := r.price.Of(r.ref)
		check(r, second(price.SendAll(r.Context(), make([]string, 150), actor.Backoff()))) // more than a page
		r.h.Settle()
		listed := all(r, price.DeadLetters().List(r.Context()))
		for i, l := range listed {
			wrong := l.ID != uint64(i+1) || l.State != "dead" || l.Attempts != 1 || l.Error != "nothing has no price" || l.Died.IsZero()
			errorIf(r, wrong, "%+v", l)
		}
		n, err := price.DeadLetters().Requeue(r.Context())
		errorIf(r, n != 0 || err != nil || len(listed) != 150, "%d requeued, %v, %d listed", n, err, len(listed))
		hasCode(r, "nobody", first(r.price.Of(r.typ.Ref(r.node, "nobody")).DeadLetters().List(r.Context())), actor.NotFound)
	})
}
