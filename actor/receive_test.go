package actor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

func TestReceivedMessagesAreLockedUntilTheyAreSettled(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	if _, err := d.mail.Of(ref).SendAll(ctx, []job{{Name: "x"}, {Name: "y"}, {Name: "z"}}, actor.DedupID("")); err != nil {
		t.Fatal(err)
	}
	got, err := d.mail.Of(ref).Receive(ctx, handle.ReceiveConfig{Max: 2, Lock: time.Minute})
	if err != nil || len(got) != 2 || got[0].Body.Name != "x" || got[0].ID != 1 || got[0].Attempt != 1 || got[0].Queue != "mail" ||
		!got[0].LockedUntil().Equal(n.now.Add(time.Minute)) {
		t.Fatalf("%v, %v", got, err)
	}
	one, err := d.mail.Of(ref).Receive(ctx, handle.ReceiveConfig{Lock: time.Minute})
	if err != nil || len(one) != 1 || one[0].Body.Name != "z" {
		t.Fatalf("%v, %v", one, err)
	}
	if none, err := d.mail.Of(ref).Receive(ctx, handle.ReceiveConfig{}); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	if err := got[0].Extend(ctx, time.Hour); err != nil || !got[0].LockedUntil().Equal(n.now.Add(time.Hour)) {
		t.Errorf("extend: %v", err)
	}
	if err := got[0].Ack(ctx, actor.None{}); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"ack": got[0].Ack(ctx, actor.None{}), "nack": got[0].Nack(ctx, nil), "extend": got[0].Extend(ctx, time.Minute),
	} {
		if actor.CodeOf(err) != actor.FailedPrecondition || !strings.Contains(err.Error(), "settled already") {
			t.Errorf("%s after ack: %v", name, err)
		}
	}
	if err := got[1].RetryAfter(ctx, time.Hour, errors.New("not now")); err != nil {
		t.Error(err)
	}
	if err := one[0].GiveUp(ctx, nil); err != nil {
		t.Error(err)
	}
	if stats, err := d.mail.Of(ref).Stats(ctx); err != nil || stats.Pending != 1 || stats.Dead != 1 || stats.Processing != 0 {
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
	for name, use := range map[string]func(*handle.Delivery[job, actor.None]) error{
		"ack":    func(m *handle.Delivery[job, actor.None]) error { return m.Ack(ctx, actor.None{}) },
		"nack":   func(m *handle.Delivery[job, actor.None]) error { return m.Nack(ctx, nil) },
		"extend": func(m *handle.Delivery[job, actor.None]) error { return m.Extend(ctx, time.Minute) },
	} {
		if _, err := d.mail.Of(ref).Send(ctx, job{Name: name}); err != nil {
			t.Fatal(err)
		}
		got, err := d.mail.Of(ref).Receive(ctx, handle.ReceiveConfig{Lock: time.Second})
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
			got, err := d.quotes.Of(ref).Ask(ctx, "table")
			if err == nil && got != 7 {
				err = errors.New("another answer")
			}
			done <- err
		}()
		got, err := d.quotes.Of(ref).Receive(ctx, handle.ReceiveConfig{Wait: time.Minute, Lock: time.Minute})
		if err != nil || len(got) != 1 || !got[0].WantReply || got[0].Body != "table" || got[0].LockedUntil().IsZero() {
			t.Fatal(got, err)
		}
		if err := got[0].Extend(ctx, time.Hour); err != nil {
			t.Error(err)
		}
		if err := got[0].Ack(ctx, 7); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		go func() { _, err := d.quotes.Of(ref).Ask(ctx, "chair"); done <- err }()
		if got, err = d.quotes.Of(ref).Receive(ctx, handle.ReceiveConfig{Wait: time.Minute, Lock: time.Minute}); err != nil || len(got) != 1 {
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
		got, err := d.mail.Of(d.typ.Ref(n, "a")).Receive(t.Context(), handle.ReceiveConfig{Wait: 100 * time.Second})
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
	if _, err := d.mail.Of(ref).SendAll(ctx, []job{{Name: "x"}, {Name: "y"}}); err != nil {
		t.Fatal(err)
	}
	h := &n.actors["desk/a"].holding
	h.messages[0].Body = []byte("\x01")
	got, err := d.mail.Of(ref).Receive(ctx, handle.ReceiveConfig{Max: 2, Lock: time.Minute})
	if err != nil || len(got) != 1 || got[0].Body.Name != "y" {
		t.Fatal(got, err)
	}
	if m := h.messages[0]; m.receipt != "" || !strings.Contains(m.cause, "does not decode") {
		t.Errorf("%+v", m)
	}
	if got, err := d.mail.Of(ref).Receive(ctx, handle.ReceiveConfig{Lock: time.Minute}); len(got) != 0 || actor.CodeOf(err) != actor.Internal {
		t.Errorf("%v, %v", got, err)
	}
}

func TestCauseIsCutBetweenCharacters(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	for _, text := range []string{strings.Repeat("x", 1024), strings.Repeat("x", 1023) + "é", strings.Repeat("é", 700), "a\xffb"} {
		if _, err := d.mail.Of(ref).Send(ctx, job{}); err != nil {
			t.Fatal(err)
		}
		got, err := d.mail.Of(ref).Receive(ctx, handle.ReceiveConfig{Lock: time.Minute})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		if err := got[0].GiveUp(ctx, errors.New(text)); err != nil {
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
	if _, err := d.mail.Of(d.typ.Ref(n, "a")).Receive(t.Context(), handle.ReceiveConfig{}); err != down {
		t.Error(err)
	}
	if _, err := d.quotes.Of(d.typ.Ref(n, "a")).Receive(t.Context(), handle.ReceiveConfig{}); err != down {
		t.Error(err)
	}
	if _, err := d.mail.Of(actor.Ref[desk]{}).Receive(t.Context(), handle.ReceiveConfig{}); actor.CodeOf(err) != actor.InvalidArgument {
		t.Error(err)
	}
}
