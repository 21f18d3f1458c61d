package actor_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/cairn-run/cairn/actor"
)

func TestDeadLettersAreListedRequeuedAndDeleted(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	n.pageSize = 2
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	if _, err := d.price.SendAll(ctx, ref, []string{"", "", ""}, actor.Backoff()); err != nil {
		t.Fatal(err)
	}
	count := func(list func(context.Context, actor.Ref[desk]) iter.Seq2[actor.Listed[string], error]) (ids []uint64) {
		for l, err := range list(ctx, ref) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, l.ID)
		}
		return ids
	}
	if got := count(d.price.Peek); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("peek: %v", got)
	}
	if err := n.deliver(ctx); err != nil {
		t.Fatal(err)
	}
	if got := count(d.price.DeadLetters); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("dead: %v", got)
	}
	for l, err := range d.price.DeadLetters(ctx, ref) {
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
		{"requeue none", func() (int64, error) { return d.price.Requeue(ctx, ref) }, 0},
		{"requeue one", func() (int64, error) { return d.price.Requeue(ctx, ref, 2, 99) }, 1},
		{"delete the one", func() (int64, error) { return d.price.Delete(ctx, ref, 2) }, 1},
		{"delete a dead one", func() (int64, error) { return d.price.DeleteDead(ctx, ref, 3) }, 1},
		{"requeue all", func() (int64, error) { return d.price.RequeueAll(ctx, ref) }, 1},
		{"delete all dead", func() (int64, error) { return d.price.DeleteAllDead(ctx, ref) }, 0},
		{"purge", func() (int64, error) { return d.price.Purge(ctx, ref) }, 1},
		{"skip", func() (int64, error) { return d.price.Skip(ctx, ref) }, 1},
	} {
		if got, err := op.do(); err != nil || got != op.want {
			t.Errorf("%s: %d, %v", op.name, got, err)
		}
	}
	for _, err := range d.price.DeadLetters(ctx, d.typ.Ref(n, "nobody")) {
		if actor.CodeOf(err) != actor.NotFound {
			t.Error(err)
		}
	}
}

func TestDeadLetterThatDoesNotDecodeHidesNoOther(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	if _, err := d.mail.SendAll(ctx, ref, []job{{Name: "x"}, {Name: "y"}}); err != nil {
		t.Fatal(err)
	}
	n.actors["desk/a"].holding.messages[0].Body = []byte("\x01")
	var got []string
	for l, err := range d.mail.Peek(ctx, ref) {
		got = append(got, fmt.Sprintf("%d %s %s", l.ID, l.Body.Name, actor.CodeOf(err)))
	}
	if want := []string{"1  internal", "2 y "}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
