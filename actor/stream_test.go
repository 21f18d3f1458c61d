package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

func TestAppendedItemsAreReadInOrder(t *testing.T) {
	onNode(t, func(r *rig) {
		var many []string
		for i := range 600 { // more than a page
			many = append(many, fmt.Sprint(i+1))
		}
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			if last, err := r.tokens.Append(ctx, many...); err != nil || last != 600 {
				t.Errorf("append: %d %v", last, err)
			}
			if last, err := r.tokens.Append(ctx); last != 0 || err != nil {
				t.Errorf("append of nothing: %d %v", last, err)
			}
			return second(r.lines.Named("build").Append(ctx, job{Name: "line"}))
		})
		r.look(func(ctx actor.Reader) error {
			next := uint64(2)
			for item, err := range r.tokens.Range(ctx, 1) {
				if err != nil || item.Sequence != next || item.Value != many[next-1] {
					t.Fatalf("%+v, %v", item, err)
				}
				next++
			}
			if info, err := r.tokens.Info(ctx); err != nil || info.Last != 600 || info.Closed || next != 601 {
				t.Errorf("info: %+v %v, up to %d", info, err, next)
			}
			for item, err := range r.lines.Named("build").Range(ctx, 0) {
				if err != nil || item.Value.Name != "line" || !item.Time.Equal(time.Now()) {
					t.Errorf("range: %+v %v", item, err)
				}
				break
			}
			if err := first(r.lines.Range(ctx, 0)); actor.CodeOf(err) != actor.InvalidArgument {
				t.Errorf("without a name: %v", err)
			}
			return nil
		})
		r.mustTurn(func(_ *desk, ctx *actor.Context) error { return r.tokens.Close(ctx) })
		err := r.turn(func(_ *desk, ctx *actor.Context) error { r.tokens.Append(ctx, "x"); return nil })
		if actor.CodeOf(err) != actor.FailedPrecondition {
			t.Errorf("append to a closed stream: %v", err)
		}
	})
}

func TestUseOfAStreamFromOutsideThatMakesNoSense(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx, unnamed := r.Context(), r.lines.Of(r.ref)
		for name, err := range map[string]error{
			"read": second(unnamed.Read(ctx, handle.Position{}, handle.ReadConfig{})), "info": second(unnamed.Info(ctx)), "close": unnamed.Close(ctx),
		} {
			if actor.CodeOf(err) != actor.InvalidArgument {
				t.Errorf("%s without a name: %v", name, err)
			}
		}
		build := r.lines.Named("build").Of(r.ref)
		if last, err := build.Append(ctx); last != 0 || err != nil || len(r.node.Requests()) != 0 {
			t.Errorf("nothing: %d, %v", last, err)
		}
		if _, err := r.tokens.Of(r.ref).Append(ctx, "x"); actor.CodeOf(err) != actor.PermissionDenied {
			t.Errorf("not external: %v", err)
		}
		if err := r.ref.Create(ctx); err != nil {
			t.Error(err)
		}
		if info, err := build.Info(ctx); err != nil || info.Stream != "build" || info.First != 1 || info.Last != 0 {
			t.Errorf("nothing was appended: %+v, %v", info, err)
		}
	})
}

func TestReadWaitsForTheFirstItem(t *testing.T) {
	onNode(t, func(r *rig) {
		build := r.lines.Named("build").Of(r.ref)
		if _, err := build.Append(r.Context(), job{Name: "1"}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		page, err := build.Read(r.Context(), handle.Position{After: 1}, handle.ReadConfig{Wait: 2 * time.Minute})
		if err != nil || len(page.Items) != 0 || page.Next.After != 1 {
			t.Errorf("%+v, %v", page, err)
		}
		if waited := time.Since(start); waited < 2*time.Minute || waited > 2*time.Minute+time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestItemThatDoesNotDecodeEndsAPageBeforeIt(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx := r.Context()
		typ := actor.NewType[desk]("desk")
		build := actor.NewStream[narrow](typ, "build", actor.StreamConfig{}).Of(typ.Ref(r.node, "a"))
		if _, err := r.lines.Named("build").Of(r.ref).Append(ctx, job{Name: "1"}, job{N: 1000}, job{Name: "3"}); err != nil {
			t.Fatal(err)
		}
		page, err := build.Read(ctx, handle.Position{}, handle.ReadConfig{})
		if actor.CodeOf(err) != actor.Internal || len(page.Items) != 1 || page.Next.After != 1 || !strings.Contains(err.Error(), "item 2") {
			t.Errorf("%+v, %v", page, err)
		}
		var got []string
		for item, err := range build.Follow(ctx, handle.Position{}) {
			got = append(got, fmt.Sprintf("%d %s", item.Sequence, actor.CodeOf(err)))
			if item.Sequence == 3 {
				break
			}
		}
		if !slices.Equal(got, []string{"1 ", "2 internal", "3 "}) {
			t.Errorf("%q", got)
		}
		if err := r.act(&stub{items: []host.StreamItem{{Sequence: 1, Data: []byte("\x01")}}}, func(ctx *actor.Context) error {
			return first(r.tokens.Range(ctx, 0))
		}); actor.CodeOf(err) != actor.Internal {
			t.Errorf("range: %v", err)
		}
	})
}

// follow collects what Follow yields.
func follow(ctx context.Context, s handle.Stream[job], after uint64) (got []string) {
	for item, err := range s.Follow(ctx, handle.Position{After: after}) {
		var gap *handle.GapError
		switch {
		case errors.As(err, &gap):
			got = append(got, fmt.Sprintf("gap %d", gap.Missed))
		case err != nil:
			got = append(got, string(actor.CodeOf(err)))
		default:
			got = append(got, item.Value.Name)
		}
	}
	return got
}

func TestFollowYieldsEachItemOnceUntilTheStreamIsClosed(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx, build := r.Context(), r.lines.Named("build").Of(r.ref)
		var want []string
		add := func(name string) {
			want = append(want, name)
			if _, err := build.Append(ctx, job{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		add("0")
		got := make(chan []string)
		go func() { got <- follow(ctx, build, 0) }()
		for i := range 20 {
			add(fmt.Sprint(i + 1))
			time.Sleep(time.Duration(i*i) * time.Second)
			r.h.Settle()
			if i == 10 {
				r.refusing(host.Errorf(host.Unavailable, "restarting"), host.StreamRead)
			} else if i == 12 {
				r.refusing(nil)
			}
		}
		if err := build.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if got := <-got; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func TestGapIsToldWithItsSize(t *testing.T) {
	for want, e := range map[string]handle.GapError{
		"3 items of the stream are no longer kept": {Missed: 3}, "another life of the actor; the stream begins anew, with 3 items": {Missed: 3, Reset: true},
	} {
		if got := e.Error(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestFollowEndsWithTheContextOrAnErrorThatStays(t *testing.T) {
	onNode(t, func(r *rig) {
		build := r.lines.Named("build").Of(r.ref)
		if _, err := build.Append(r.Context(), job{Name: "1"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(r.Context())
		time.AfterFunc(45*time.Second, cancel)
		start := time.Now()
		if got := follow(ctx, build, 0); !slices.Equal(got, []string{"1", "canceled"}) || time.Since(start) != 45*time.Second {
			t.Errorf("%q after %s", got, time.Since(start))
		}
		r.refusing(host.Errorf(host.PermissionDenied, "not you"), host.StreamRead)
		if got := follow(r.Context(), build, 0); !slices.Equal(got, []string{"permission_denied"}) {
			t.Errorf("%q", got)
		}
		if got := follow(r.Context(), r.lines.Named("build").Of(actor.Ref[desk]{}), 0); !slices.Equal(got, []string{"invalid_argument"}) {
			t.Errorf("%q", got)
		}
	})
}

// A node that answers at once although it was asked to wait must not be asked in a tight loop.
func TestFollowDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d := newDesks("desk")
		hasty := &replies{Reply: host.Reply{Output: []byte("\xa2\x65items\x80\x64next\x05")}}
		if got := follow(ctx, d.lines.Named("build").Of(d.typ.Ref(hasty, "a")), 5); len(got) != 1 || hasty.calls > 60 {
			t.Errorf("%q after %d calls", got, hasty.calls)
		}
	})
}
