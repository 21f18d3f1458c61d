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
	if err != nil || len(got) != 1 {
		r.Fatalf("received %v, %v", got, err)
	}
	return got[0]
}

// mailHolds checks what the queue "mail" holds: names, and dead letters with their errors.
func (r *rig) mailHolds(want ...string) {
	r.Helper()
	var got []string
	for m, err := range r.mail.Of(r.ref).Peek(r.Context()) {
		got = append(got, fmt.Sprintf("%s %s %d", m.Body.Name, m.State, m.Attempts))
		if err != nil {
			r.Error(err)
		}
	}
	for m := range r.mail.Of(r.ref).DeadLetters().List(r.Context()) {
		got = append(got, fmt.Sprintf("%s %s %d %s", m.Body.Name, m.State, m.Attempts, m.Error))
	}
	if !slices.Equal(got, want) {
		r.Errorf("the queue holds %q, want %q", got, want)
	}
}

func TestHandlerSeesItsMessage(t *testing.T) {
	onNode(t, func(r *rig) {
		var sent time.Time
		r.handle = func(s *desk, ctx *actor.Context, j job) error {
			m := ctx.Message()
			if m.ID == 0 || m.Queue != "jobs" || m.Attempt != 1 || !m.Sent.Equal(sent) || m.WantReply {
				t.Errorf("message: %+v", m)
			}
			s.logf("%s %d %s", j.Name, m.Priority, m.DedupID)
			return nil
		}
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			sent = ctx.Now()
			first, err := r.jobs.Put(ctx, job{Name: "low"}, actor.DedupID("x"))
			again, err2 := r.jobs.Put(ctx, job{Name: "twice"}, actor.DedupID("x"))
			if err != nil || err2 != nil || first.ID == 0 || again != (handle.Sent{ID: first.ID, Duplicate: true}) {
				t.Errorf("put: %v %v %v %v", first, again, err, err2)
			}
			if sent, err := r.jobs.PutAll(ctx, []job{{Name: "b"}, {Name: "c"}}, actor.Priority(5)); err != nil || len(sent) != 2 {
				t.Errorf("put all: %v %v", sent, err)
			}
			if none, err := r.jobs.PutAll(ctx, nil); none != nil || err != nil {
				t.Errorf("put none: %v %v", none, err)
			}
			if stats, err := r.jobs.Stats(ctx); err != nil || stats.Pending != 3 {
				t.Errorf("stats: %+v %v", stats, err)
			}
			if m := ctx.Message(); m != (actor.Message{}) {
				t.Errorf("an action handles %v", m)
			}
			return nil
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
		if b := turn.enqueued[1].Backoff; b == nil || len(b) > 0 {
			t.Errorf("one attempt became the default: %v", b)
		}
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
		if _, err := nobody.Send(r.Context(), job{}, actor.Existing()); actor.CodeOf(err) != actor.NotFound {
			t.Errorf("Existing: %v", err)
		}
		if _, err := nobody.Send(r.Context(), job{}, actor.KeysIfUndelivered(tuple.Tuple{"k", []byte("b")})); actor.CodeOf(err) != actor.InvalidArgument ||
			!strings.Contains(err.Error(), "key part 2 ") {
			t.Errorf("a key that requests cannot carry: %v", err)
		}
	})
}

func TestSendAllIsOneCall(t *testing.T) {
	onNode(t, func(r *rig) {
		jobs := r.jobs.Of(r.ref)
		sent, err := jobs.SendAll(r.Context(), []job{{Name: "x"}, {Name: "y"}})
		if err != nil || len(sent) != 2 || sent[0].ID == sent[1].ID {
			t.Errorf("%v %v", sent, err)
		}
		if sent, err := jobs.SendAll(r.Context(), nil); sent != nil || err != nil || len(r.node.Requests()) != 1 {
			t.Errorf("none: %v %v, %d calls", sent, err, len(r.node.Requests()))
		}
		if _, err := jobs.Send(r.Context(), job{Name: strings.Repeat("x", 2000)}); actor.CodeOf(err) != actor.TooLarge {
			t.Error(err)
		}
		for about, output := range map[string]string{"no message": "\xa1\x68messages\x80", "nothing": ""} {
			odd := r.typ.Ref(&replies{Reply: host.Reply{Output: []byte(output)}}, "a")
			if _, err := r.jobs.Of(odd).Send(r.Context(), job{}); actor.CodeOf(err) != actor.Internal {
				t.Errorf("an answer about %s: %v", about, err)
			}
		}
	})
}

func TestQueueDeclaredAsAnyIsUsedByName(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx := r.Context()
		for name, want := range map[string]string{
			"": "1 to 64 characters", "9": "a letter, then", "a b": "a letter, then", "cairn.x": "a letter, then", "*": "a letter, then",
			strings.Repeat("x", 65): "1 to 64 characters", "jobs": `which is declared by itself`, "price": `queue "price", which is declared by itself`,
		} {
			_, err := r.any.Named(name).Of(r.ref).Send(ctx, "x")
			if actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if _, err := r.any.Of(r.ref).Send(ctx, "x"); actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), "Named") {
			t.Errorf("without a name: %v", err)
		}
		if _, err := r.jobs.Named("other").Of(r.ref).Send(ctx, job{}); actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("a declared queue under another name: %v", err)
		}
		if _, err := r.jobs.Named("jobs").Of(r.ref).Send(ctx, job{Name: "own"}); err != nil {
			t.Errorf("a declared queue under its own name: %v", err)
		}
		if _, err := r.any.Named("inbox").Of(r.ref).Send(ctx, "hello"); err != nil {
			t.Error(err)
		}
		r.mustTurn(func(_ *desk, ctx *actor.Context) error { return second(r.any.Named("outbox").Put(ctx, "world")) })
		r.logged("jobs own", "inbox hello", "outbox world")
	})
}

func TestReplyOfAnotherTypeIsAnError(t *testing.T) {
	onNode(t, func(r *rig) {
		typ := actor.NewType[desk]("desk")
		texts := actor.NewRequestQueue[string, string](typ, "price", actor.QueueConfig{})
		if _, err := texts.Of(typ.Ref(r.node, "a")).Ask(r.Context(), "chair"); actor.CodeOf(err) != actor.Internal {
			t.Error(err)
		}
	})
}

func TestReplyOfAWorkerReachesTheCaller(t *testing.T) {
	onNode(t, func(r *rig) {
		for _, cause := range []error{nil, errors.New("sold out")} {
			done := make(chan error)
			go func() {
				got, err := r.quotes.Of(r.ref).Ask(r.Context(), "table")
				if err == nil && got != 7 {
					err = fmt.Errorf("the answer is %d", got)
				}
				done <- err
			}()
			got, err := r.quotes.Of(r.ref).Receive(r.Context(), handle.ReceiveConfig{Wait: time.Minute, Lock: 2 * time.Minute})
			if err != nil || len(got) != 1 || !got[0].WantReply || got[0].Body != "table" {
				t.Fatal(got, err)
			}
			time.Sleep(time.Minute + time.Second) // so that the caller asks again
			if cause == nil {
				err = got[0].Ack(r.Context(), 7)
			} else {
				err = got[0].Nack(r.Context(), cause)
			}
			if err != nil {
				t.Error(err)
			}
			if err := <-done; (err == nil) != (cause == nil) || err != nil && !strings.Contains(err.Error(), "sold out") {
				t.Error(err)
			}
		}
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
		if sends := called[host.QueueSendInput](r, host.QueueSend); err != nil || got != 5 || len(sends) != 1 || fail != 0 {
			t.Errorf("%d, %v, %d sends", got, err, len(sends))
		}
		r.refusing(host.Errorf(host.NotFound, "no reply is kept"), host.QueueResult)
		if _, err := r.price.Of(r.ref).Ask(r.Context(), "chair"); actor.CodeOf(err) != actor.NotFound {
			t.Error(err)
		}
	})
}

func TestAskThatTimesOutLeavesItsMessageInTheQueue(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx, cancel := context.WithTimeout(r.Context(), 90*time.Second)
		defer cancel()
		start := time.Now()
		_, err := r.quotes.Of(r.ref).Ask(ctx, "table")
		var e *actor.Error
		if !errors.As(err, &e) || e.Code != actor.DeadlineExceeded || e.Metadata["message"] != "1" || time.Since(start) != 90*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		if stats, err := r.quotes.Of(r.ref).Stats(r.Context()); err != nil || stats.Pending != 1 {
			t.Errorf("%+v, %v", stats, err)
		}
	})
}

func TestAskInATurnIsRefusedBeforeItSends(t *testing.T) {
	onNode(t, func(r *rig) {
		r.look(func(ctx actor.Reader) error {
			within := ctx.(interface {
				context.Context
				actor.Node
			})
			for _, err := range []error{
				second(r.price.Of(r.typ.Ref(r.node, "b")).Ask(within, "x")), second(r.price.Of(r.typ.Ref(within, "b")).Ask(r.Context(), "x")),
			} {
				if actor.CodeOf(err) != actor.InvalidArgument {
					t.Error(err)
				}
			}
			return nil
		})
		if _, err := r.typ.Ref(r.node, "b").Lookup(r.Context()); actor.CodeOf(err) != actor.NotFound {
			t.Error(err)
		}
	})
}

func TestSettledMessagesAreSettledForGood(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx := r.Context()
		r.send("x", "y")
		x, y := r.receive(time.Minute), r.receive(time.Minute)
		if err := errors.Join(x.Ack(ctx, actor.None{}), y.RetryAfter(ctx, time.Hour, errors.New("not now"))); err != nil {
			t.Error(err)
		}
		r.mailHolds("y delayed 1")
		for name, err := range map[string]error{"ack": x.Ack(ctx, actor.None{}), "nack": x.Nack(ctx, nil), "extend": x.Extend(ctx, time.Minute)} {
			if actor.CodeOf(err) != actor.FailedPrecondition || !strings.Contains(err.Error(), "settled already") {
				t.Errorf("%s after ack: %v", name, err)
			}
		}
		time.Sleep(time.Hour)
		if y := r.receive(time.Minute); y.Attempt != 2 {
			t.Errorf("%+v", y)
		}
	})
}

func TestLostLockIsAnError(t *testing.T) {
	onNode(t, func(r *rig) {
		for name, use := range map[string]func(*delivery) error{
			"ack":    func(m *delivery) error { return m.Ack(r.Context(), actor.None{}) },
			"nack":   func(m *delivery) error { return m.Nack(r.Context(), nil) },
			"extend": func(m *delivery) error { return m.Extend(r.Context(), time.Minute) },
		} {
			r.send(name)
			m := r.receive(time.Second)
			time.Sleep(2 * time.Second)
			for range 2 {
				if err := use(m); actor.CodeOf(err) != actor.FailedPrecondition || !strings.Contains(err.Error(), "lock") {
					t.Errorf("%s: %v", name, err)
				}
			}
			if n, err := r.mail.Of(r.ref).Purge(r.Context()); n != 1 || err != nil {
				t.Errorf("%d purged, %v", n, err)
			}
		}
	})
}

func TestReceiveWaitsAsLongAsItIsAskedTo(t *testing.T) {
	onNode(t, func(r *rig) {
		start := time.Now()
		got, err := r.mail.Of(r.ref).Receive(r.Context(), handle.ReceiveConfig{Wait: 100 * time.Second})
		if waited := time.Since(start); got != nil || err != nil || waited < 100*time.Second || waited > 101*time.Second {
			t.Errorf("%v, %v after %s", got, err, waited)
		}
		for _, in := range called[host.QueueReceiveInput](r, host.QueueReceive) {
			if in.WaitMS > 60_000 {
				t.Errorf("one call waits for %d ms", in.WaitMS)
			}
		}
	})
}

// narrow is a job as a program of another version has it: not all bodies fit.
type narrow struct {
	Name string `json:"name"`
	N    int8   `json:"n"`
}

func TestMessageThatDoesNotDecodeIsGivenBackAndHidesNoOther(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx := r.Context()
		typ := actor.NewType[desk]("desk")
		mail := actor.NewQueue[narrow](typ, "mail", actor.QueueConfig{Workers: true}).Of(typ.Ref(r.node, "a"))
		if _, err := r.mail.Of(r.ref).SendAll(ctx, []job{{N: 1000}, {Name: "y"}}); err != nil {
			t.Fatal(err)
		}
		var peeked []string
		for l, err := range mail.Peek(ctx) {
			peeked = append(peeked, fmt.Sprintf("%d %s %s", l.ID, l.Body.Name, actor.CodeOf(err)))
		}
		if want := []string{"1  internal", "2 y "}; !slices.Equal(peeked, want) {
			t.Errorf("%q", peeked)
		}
		got, err := mail.Receive(ctx, handle.ReceiveConfig{Max: 2, Lock: time.Minute})
		if err != nil || len(got) != 1 || got[0].Body.Name != "y" {
			t.Fatal(got, err)
		}
		if nacks := called[host.QueueNackInput](r, host.QueueNack); len(nacks) != 1 || !strings.Contains(nacks[0].Error, "does not decode") {
			t.Errorf("%+v", nacks)
		}
		if got, err := mail.Receive(ctx, handle.ReceiveConfig{Lock: time.Minute}); len(got) != 0 || actor.CodeOf(err) != actor.Internal {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestCauseIsCutBetweenCharacters(t *testing.T) {
	onNode(t, func(r *rig) {
		for i, text := range []string{strings.Repeat("x", 1024), strings.Repeat("x", 1023) + "é", strings.Repeat("é", 700), "a\xffb"} {
			r.send("x")
			if err := r.receive(time.Minute).GiveUp(r.Context(), errors.New(text)); err != nil {
				t.Fatal(err)
			}
			cause := called[host.QueueNackInput](r, host.QueueNack)[i].Error
			if len(cause) > 1024 || len(cause) < min(len(text), 1023) || !utf8.ValidString(cause) {
				t.Errorf("%d bytes became %d: %q", len(text), len(cause), cause)
			}
		}
	})
}

func TestDeadLettersAreListedToTheLast(t *testing.T) {
	onNode(t, func(r *rig) {
		price := r.price.Of(r.ref)
		if _, err := price.SendAll(r.Context(), make([]string, 150), actor.Backoff()); err != nil { // more than a page
			t.Fatal(err)
		}
		r.h.Settle()
		listed := uint64(0)
		for l, err := range price.DeadLetters().List(r.Context()) {
			if listed++; err != nil || l.ID != listed || l.State != "dead" || l.Attempts != 1 || l.Error != "nothing has no price" || l.Died.IsZero() {
				t.Fatalf("%+v, %v", l, err)
			}
		}
		if n, err := price.DeadLetters().Requeue(r.Context()); n != 0 || err != nil || listed != 150 {
			t.Errorf("%d requeued, %v, %d listed", n, err, listed)
		}
		if err := first(r.price.Of(r.typ.Ref(r.node, "nobody")).DeadLetters().List(r.Context())); actor.CodeOf(err) != actor.NotFound {
			t.Error(err)
		}
	})
}
