package actor_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
)

func TestDeadLettersAreListedRequeuedAndDeleted(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	n.pageSize = 2
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	if _, err := d.price.Of(ref).SendAll(ctx, []string{"", "", ""}, actor.Backoff()); err != nil {
		t.Fatal(err)
	}
	count := func(list func(context.Context) iter.Seq2[handle.Listed[string], error]) (ids []uint64) {
		for l, err := range list(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, l.ID)
		}
		return ids
	}
	if got := count(d.price.Of(ref).Peek); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("peek: %v", got)
	}
	if err := n.deliver(ctx); err != nil {
		t.Fatal(err)
	}
	if got := count(d.price.Of(ref).DeadLetters().List); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("dead: %v", got)
	}
	for l, err := range d.price.Of(ref).DeadLetters().List(ctx) {
		if err != nil || l.State != "dead" || l.Attempts != 1 || l.Error != "nothing has no price" || l.Died.IsZero() || !l.Expires.IsZero() {
			t.Errorf("%+v, %v", l, err)
		}
		break
	}
	for _, op := range []struct {
		name string
		do   func() (int64, error)
		want int64
	}{
		{"requeue none", func() (int64, error) { return d.price.Of(ref).DeadLetters().Requeue(ctx) }, 0},
		{"requeue one", func() (int64, error) { return d.price.Of(ref).DeadLetters().Requeue(ctx, 2, 99) }, 1},
		{"delete the one", func() (int64, error) { return d.price.Of(ref).Delete(ctx, 2) }, 1},
		{"delete a dead one", func() (int64, error) { return d.price.Of(ref).DeadLetters().Delete(ctx, 3) }, 1},
		{"requeue all", func() (int64, error) { return d.price.Of(ref).DeadLetters().RequeueAll(ctx) }, 1},
		{"delete all dead", func() (int64, error) { return d.price.Of(ref).DeadLetters().DeleteAll(ctx) }, 0},
		{"purge", func() (int64, error) { return d.price.Of(ref).Purge(ctx) }, 1},
		{"skip", func() (int64, error) { return d.price.Of(ref).Skip(ctx) }, 1},
	} {
		if got, err := op.do(); err != nil || got != op.want {
			t.Errorf("%s: %d, %v", op.name, got, err)
		}
	}
	for _, err := range d.price.Of(d.typ.Ref(n, "nobody")).DeadLetters().List(ctx) {
		if actor.CodeOf(err) != actor.NotFound {
			t.Error(err)
		}
	}
}

func TestDeadLetterThatDoesNotDecodeHidesNoOther(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	if _, err := d.mail.Of(ref).SendAll(ctx, []job{{Name: "x"}, {Name: "y"}}); err != nil {
		t.Fatal(err)
	}
	n.actors["desk/a"].holding.messages[0].Body = []byte("\x01")
	var got []string
	for l, err := range d.mail.Of(ref).Peek(ctx) {
		got = append(got, fmt.Sprintf("%d %s %s", l.ID, l.Body.Name, actor.CodeOf(err)))
	}
	if want := []string{"1  internal", "2 y "}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
