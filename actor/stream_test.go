package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

func TestAppendedItemsAreReadInOrder(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	n.pageSize = 2
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		last, err := d.tokens.Append(ctx, "a", "b", "c")
		if err != nil || last != 3 {
			return fmt.Errorf("append: %d %w", last, err)
		}
		if last, err := d.tokens.Append(ctx); last != 0 || err != nil {
			return fmt.Errorf("append of nothing: %d %w", last, err)
		}
		_, err = d.lines.Named("build").Append(ctx, job{Name: "line"})
		return err
	})
	look := func(ctx actor.Reader) error {
		var got []string
		for item, err := range d.tokens.Range(ctx, 1) {
			if err != nil {
				return err
			}
			got = append(got, fmt.Sprintf("%d %s", item.Sequence, item.Value))
		}
		if !slices.Equal(got, []string{"2 b", "3 c"}) {
			return fmt.Errorf("range: %q", got)
		}
		info, err := d.tokens.Info(ctx)
		if err != nil || info.Last != 3 || info.Closed {
			return fmt.Errorf("info: %+v %w", info, err)
		}
		for item, err := range d.lines.Named("build").Range(ctx, 0) {
			if err != nil || item.Value.Name != "line" || !item.Time.Equal(n.now) {
				return fmt.Errorf("range: %+v %w", item, err)
			}
			break
		}
		for _, err := range d.lines.Range(ctx, 0) {
			if actor.CodeOf(err) != actor.InvalidArgument {
				return fmt.Errorf("without a name: %w", err)
			}
		}
		return nil
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error { return look(ctx) })
	d.read = func(ctx *actor.ReadContext) error { return look(ctx) }
	if _, err := d.log.Call(t.Context(), d.typ.Ref(n, "a"), actor.None{}); err != nil {
		t.Error(err)
	}
}

func TestClosedStreamTakesNoMore(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error { return d.tokens.Close(ctx) })
	err := d.run(t, n, func(_ *desk, ctx *actor.Context) error { d.tokens.Append(ctx, "x"); return nil })
	if actor.CodeOf(err) != actor.FailedPrecondition {
		t.Error(err)
	}
}

func TestStreamsAreUsedFromOutside(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	n.pageSize = 2
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	build := d.lines.Named("build")
	last, err := build.Of(ref).Append(ctx, job{Name: "1"}, job{Name: "2"}, job{Name: "3"})
	if err != nil || last != 3 {
		t.Errorf("%d, %v", last, err)
	}
	if last, err := build.Of(ref).Append(ctx); last != 0 || err != nil {
		t.Errorf("nothing: %d, %v", last, err)
	}
	if _, err := d.tokens.Of(ref).Append(ctx, "x"); actor.CodeOf(err) != actor.PermissionDenied {
		t.Errorf("not external: %v", err)
	}
	page, err := build.Of(ref).Read(ctx, handle.Position{}, handle.ReadConfig{})
	if err != nil || len(page.Items) != 2 || page.Next.After != 2 || page.Closed || page.Items[1].Value.Name != "2" {
		t.Errorf("%+v, %v", page, err)
	}
	if page, err = build.Of(ref).Read(ctx, handle.Position{}, handle.ReadConfig{Max: 1}); err != nil || len(page.Items) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if err := build.Of(ref).Close(ctx); err != nil {
		t.Error(err)
	}
	if page, err = build.Of(ref).Read(ctx, handle.Position{After: page.Next.After}, handle.ReadConfig{}); err != nil || !page.Closed || len(page.Items) != 2 {
		t.Errorf("%+v, %v", page, err)
	}
	if info, err := build.Of(ref).Info(ctx); err != nil || info.Last != 3 || !info.Closed {
		t.Errorf("%+v, %v", info, err)
	}
	for _, want := range []bool{true, false} {
		if was, err := build.Of(ref).Delete(ctx); was != want || err != nil {
			t.Errorf("%t, %v", was, err)
		}
	}
	for name, err := range map[string]error{
		"read":  second(d.lines.Of(ref).Read(ctx, handle.Position{}, handle.ReadConfig{})),
		"info":  second(d.lines.Of(ref).Info(ctx)),
		"close": d.lines.Of(ref).Close(ctx),
	} {
		if actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("%s without a name: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestReadWaitsForTheFirstItem(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		ctx, ref := t.Context(), d.typ.Ref(n, "a")
		build := d.lines.Named("build")
		if _, err := build.Of(ref).Append(ctx, job{Name: "1"}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if page, err := build.Of(ref).Read(ctx, handle.Position{After: 1}, handle.ReadConfig{Wait: 2 * time.Minute}); err != nil || len(page.Items) != 0 || page.Next.After != 1 {
			t.Errorf("%+v, %v", page, err)
		}
		if waited := time.Since(start); waited < 2*time.Minute || waited > 2*time.Minute+time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestItemThatDoesNotDecodeEndsAPageBeforeIt(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	build := d.lines.Named("build")
	if _, err := build.Of(ref).Append(ctx, job{Name: "1"}, job{}, job{Name: "3"}); err != nil {
		t.Fatal(err)
	}
	n.actors["desk/a"].holding.streams["build"].items[1].Data = []byte("\x01")
	page, err := build.Of(ref).Read(ctx, handle.Position{}, handle.ReadConfig{})
	if actor.CodeOf(err) != actor.Internal || len(page.Items) != 1 || page.Next.After != 1 || !strings.Contains(err.Error(), "item 2") {
		t.Errorf("%+v, %v", page, err)
	}
	var got []string
	for item, err := range build.Of(ref).Follow(ctx, handle.Position{}) {
		got = append(got, fmt.Sprintf("%d %s", item.Sequence, actor.CodeOf(err)))
		if item.Sequence == 3 {
			break
		}
	}
	if !slices.Equal(got, []string{"1 ", "2 internal", "3 "}) {
		t.Errorf("%q", got)
	}
	err = d.run(t, n, func(_ *desk, ctx *actor.Context) error {
		for _, err := range build.Range(ctx, 1) {
			return err
		}
		return nil
	})
	if actor.CodeOf(err) != actor.Internal {
		t.Errorf("range: %v", err)
	}
}

// follow collects what Follow yields.
func follow(ctx context.Context, s *actor.Stream[desk, job], ref actor.Ref[desk], after uint64) (got []string) {
	for item, err := range s.Of(ref).Follow(ctx, handle.Position{After: after}) {
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
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		n.pageSize = 2
		ctx, ref := t.Context(), d.typ.Ref(n, "a")
		build := d.lines.Named("build")
		var want []string
		add := func(name string) {
			want = append(want, name)
			if _, err := build.Of(ref).Append(ctx, job{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		add("0")
		got := make(chan []string)
		go func() { got <- follow(ctx, build, ref, 0) }()
		for i := range 20 {
			add(fmt.Sprint(i + 1))
			time.Sleep(time.Duration(i*i) * time.Second)
			if i == 10 {
				n.intercepting(func(_ context.Context, r *host.Request) (host.Reply, error, bool) {
					return host.Reply{}, host.Errorf(host.Unavailable, "restarting"), r.Method == host.StreamRead
				})
			} else if i == 12 {
				n.intercepting(nil)
			}
		}
		if err := build.Of(ref).Close(ctx); err != nil {
			t.Fatal(err)
		}
		if got := <-got; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func TestFollowYieldsAGapOnceAndGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ref, build := d.typ.Ref(n, "a"), d.lines.Named("build")
		if _, err := build.Of(ref).Append(ctx, job{Name: "1"}, job{Name: "2"}, job{Name: "3"}, job{Name: "4"}); err != nil {
			t.Fatal(err)
		}
		h := &n.actors["desk/a"].holding
		s := h.streams["build"]
		s.first = 4
		h.streams["build"] = s
		if got := follow(ctx, build, ref, 1); !slices.Equal(got, []string{"gap 2", "4", "deadline_exceeded"}) {
			t.Errorf("%q", got)
		}
		for _, err := range build.Of(ref).Follow(t.Context(), handle.Position{}) {
			if err == nil || err.Error() != "3 items of the stream are no longer kept" {
				t.Error(err)
			}
			break
		}
	})
}

func TestFollowEndsWithTheContextOrAnErrorThatStays(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		ref, build := d.typ.Ref(n, "a"), d.lines.Named("build")
		if _, err := build.Of(ref).Append(t.Context(), job{Name: "1"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(45*time.Second, cancel)
		start := time.Now()
		if got := follow(ctx, build, ref, 0); !slices.Equal(got, []string{"1", "canceled"}) || time.Since(start) != 45*time.Second {
			t.Errorf("%q after %s", got, time.Since(start))
		}
		n.intercepting(func(context.Context, *host.Request) (host.Reply, error, bool) {
			return host.Reply{}, host.Errorf(host.PermissionDenied, "not you"), true
		})
		if got := follow(t.Context(), build, ref, 0); !slices.Equal(got, []string{"permission_denied"}) {
			t.Errorf("%q", got)
		}
		if got := follow(t.Context(), build, actor.Ref[desk]{}, 0); !slices.Equal(got, []string{"invalid_argument"}) {
			t.Errorf("%q", got)
		}
	})
}

// A node that answers at once although it was asked to wait must not be asked in a tight loop.
func TestFollowDoesNotSpin(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		calls := 0
		n.intercepting(func(context.Context, *host.Request) (host.Reply, error, bool) {
			calls++
			return host.Reply{Output: []byte("\xa2\x65items\x80\x64next\x05")}, nil, true
		})
		if got := follow(ctx, d.lines.Named("build"), d.typ.Ref(n, "a"), 5); len(got) != 1 || calls > 60 {
			t.Errorf("%q after %d calls", got, calls)
		}
	})
}
