package actor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

func TestReceivedMessagesAreLockedUntilTheyAreSettled(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	if _, err := d.mail.SendAll(ctx, ref, []job{{Name: "x"}, {Name: "y"}, {Name: "z"}}, actor.DedupID("")); err != nil {
		t.Fatal(err)
	}
	got, err := d.mail.Receive(ctx, ref, actor.Max(2), actor.Lock(time.Minute))
	if err != nil || len(got) != 2 || got[0].Body.Name != "x" || got[0].ID != 1 || got[0].Attempt != 1 || got[0].Queue != "mail" ||
		!got[0].LockedUntil().Equal(n.now.Add(time.Minute)) {
		t.Fatalf("%v, %v", got, err)
	}
	one, err := d.mail.Receive(ctx, ref, actor.Lock(time.Minute))
	if err != nil || len(one) != 1 || one[0].Body.Name != "z" {
		t.Fatalf("%v, %v", one, err)
	}
	if none, err := d.mail.Receive(ctx, ref); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	if err := got[0].Extend(ctx, time.Hour); err != nil || !got[0].LockedUntil().Equal(n.now.Add(time.Hour)) {
		t.Errorf("extend: %v", err)
	}
	if err := got[0].Ack(ctx); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"ack": got[0].Ack(ctx), "nack": got[0].Nack(ctx, nil), "extend": got[0].Extend(ctx, time.Minute),
	} {
		if actor.CodeOf(err) != actor.FailedPrecondition || !strings.Contains(err.Error(), "settled already") {
			t.Errorf("%s after ack: %v", name, err)
		}
	}
	if err := got[1].Nack(ctx, errors.New("not now"), actor.RetryAfter(time.Hour)); err != nil {
		t.Error(err)
	}
	if err := one[0].Nack(ctx, nil, actor.GiveUp()); err != nil {
		t.Error(err)
	}
	if stats, err := d.mail.StatsOf(ctx, ref); err != nil || stats.Pending != 1 || stats.Dead != 1 || stats.Processing != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	if m := n.actors["desk/a"].holding.messages[0]; m.cause != "not now" || !m.due.Equal(n.now.Add(time.Hour)) {
		t.Errorf("%+v", m)
	}
}

func TestLostLockIsAnError(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	for name, use := range map[string]func(*actor.Delivery[job]) error{
		"ack":    func(m *actor.Delivery[job]) error { return m.Ack(ctx) },
		"nack":   func(m *actor.Delivery[job]) error { return m.Nack(ctx, nil) },
		"extend": func(m *actor.Delivery[job]) error { return m.Extend(ctx, time.Minute) },
	} {
		if _, err := d.mail.Send(ctx, ref, job{Name: name}); err != nil {
			t.Fatal(err)
		}
		got, err := d.mail.Receive(ctx, ref, actor.Lock(time.Second))
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		n.now = n.now.Add(2 * time.Second)
		for range 2 {
			if err := use(got[0]); actor.CodeOf(err) != actor.FailedPrecondition || !strings.Contains(err.Error(), "lock") {
				t.Errorf("%s: %v", name, err)
			}
		}
		n.actors["desk/a"].holding.messages = nil
	}
}

func TestReplyOfAWorkerReachesWhoAsked(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		ctx, ref := t.Context(), d.typ.Ref(n, "a")
		done := make(chan error)
		go func() {
			got, err := d.quotes.Ask(ctx, ref, "table")
			if err == nil && got != 7 {
				err = errors.New("another answer")
			}
			done <- err
		}()
		got, err := d.quotes.Receive(ctx, ref, actor.Wait(time.Minute), actor.Lock(time.Minute))
		if err != nil || len(got) != 1 || !got[0].WantReply || got[0].Body != "table" || got[0].LockedUntil().IsZero() {
			t.Fatal(got, err)
		}
		if err := got[0].Extend(ctx, time.Hour); err != nil {
			t.Error(err)
		}
		if err := got[0].Reply(ctx, 7); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		go func() { _, err := d.quotes.Ask(ctx, ref, "chair"); done <- err }()
		if got, err = d.quotes.Receive(ctx, ref, actor.Wait(time.Minute), actor.Lock(time.Minute)); err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		if err := got[0].Nack(ctx, errors.New("sold out")); err != nil {
			t.Error(err)
		}
		if err := <-done; err == nil || !strings.Contains(err.Error(), "sold out") {
			t.Error(err)
		}
	})
}

func TestReceiveWaitsAsLongAsItIsAskedTo(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		start := time.Now()
		got, err := d.mail.Receive(t.Context(), d.typ.Ref(n, "a"), actor.Wait(100*time.Second))
		if waited := time.Since(start); got != nil || err != nil || waited < 100*time.Second || waited > 101*time.Second {
			t.Errorf("%v, %v after %s", got, err, waited)
		}
		for _, r := range n.asked() {
			if waitOf(&r) > time.Minute {
				t.Errorf("one call waits for %s", waitOf(&r))
			}
		}
	})
}

func TestMessageThatDoesNotDecodeIsGivenBackAndHidesNoOther(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	if _, err := d.mail.SendAll(ctx, ref, []job{{Name: "x"}, {Name: "y"}}); err != nil {
		t.Fatal(err)
	}
	h := &n.actors["desk/a"].holding
	h.messages[0].Body = []byte("\x01")
	got, err := d.mail.Receive(ctx, ref, actor.Max(2), actor.Lock(time.Minute))
	if err != nil || len(got) != 1 || got[0].Body.Name != "y" {
		t.Fatal(got, err)
	}
	if m := h.messages[0]; m.receipt != "" || !strings.Contains(m.cause, "does not decode") {
		t.Errorf("%+v", m)
	}
	if got, err := d.mail.Receive(ctx, ref, actor.Lock(time.Minute)); len(got) != 0 || actor.CodeOf(err) != actor.Internal {
		t.Errorf("%v, %v", got, err)
	}
}

func TestCauseIsCutBetweenCharacters(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	for _, text := range []string{strings.Repeat("x", 1024), strings.Repeat("x", 1023) + "é", strings.Repeat("é", 700), "a\xffb"} {
		if _, err := d.mail.Send(ctx, ref, job{}); err != nil {
			t.Fatal(err)
		}
		got, err := d.mail.Receive(ctx, ref, actor.Lock(time.Minute))
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		if err := got[0].Nack(ctx, errors.New(text), actor.GiveUp()); err != nil {
			t.Fatal(err)
		}
		h := &n.actors["desk/a"].holding
		if cause := h.messages[0].cause; len(cause) > 1024 || len(cause) < min(len(text), 1023) || !utf8.ValidString(cause) {
			t.Errorf("%d bytes became %d: %q", len(text), len(cause), cause)
		}
		h.messages = nil
	}
}

func TestReceiveReportsWhatTheNodeSays(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	down := host.Errorf(host.Unavailable, "draining").Retry()
	n.intercepting(func(context.Context, *host.Request) (host.Reply, error, bool) { return host.Reply{}, down, true })
	if _, err := d.mail.Receive(t.Context(), d.typ.Ref(n, "a")); err != down {
		t.Error(err)
	}
	if _, err := d.quotes.Receive(t.Context(), d.typ.Ref(n, "a")); err != down {
		t.Error(err)
	}
	if _, err := d.mail.Receive(t.Context(), actor.Ref[desk]{}); actor.CodeOf(err) != actor.InvalidArgument {
		t.Error(err)
	}
}
