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

// follow collects the results of Follow.
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

func TestAppendedItemsAreReadInOrder(t *testing.T) {
	onNode(t, func(r *rig) {
		var many []string
		for i := range 600 { // more than a page
			many = append(many, fmt.Sprint(i+1))
		}
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			last, err := r.tokens.Append(ctx, many...)
			errorIf(r, err != nil || last != 600, "append: %d %v", last, err)
			last, err = r.tokens.Append(ctx)
			errorIf(r, err != nil || last != 0, "append of nothing: %d %v", last, err)
			return second(r.lines.Named("build").Append(ctx, job{Name: "line"}))
		})
		r.look(func(ctx actor.Reader) error {
			items := all(r, r.tokens.Range(ctx, 1))
			for i, item := range items {
				errorIf(r, item.Sequence != uint64(i+2) || item.Value != many[i+1], "item %d is %+v", i, item)
			}
			info, err := r.tokens.Info(ctx)
			errorIf(r, err != nil || info.Last != 600 || info.Closed || len(items) != 599, "info: %+v %v, %d items", info, err, len(items))
			line := all(r, r.lines.Named("build").Range(ctx, 0))[0]
			errorIf(r, line.Value.Name != "line" || !line.Time.Equal(time.Now()), "range: %+v", line)
			hasCode(r, "without a name", first(r.lines.Range(ctx, 0)), actor.InvalidArgument)
			return nil
		})
		r.mustTurn(func(_ *desk, ctx *actor.Context) error { return r.tokens.Close(ctx) })
		err := r.turn(func(_ *desk, ctx *actor.Context) error { r.tokens.Append(ctx, "x"); return nil })
		hasCode(r, "append to a closed stream", err, actor.FailedPrecondition)
	})
}

func TestUseOfAStreamFromOutside(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx, unnamed, build := r.Context(), r.lines.Of(r.ref), r.lines.Named("build").Of(r.ref)
		hasCode(r, "read", second(unnamed.Read(ctx, handle.Position{}, handle.ReadConfig{})), actor.InvalidArgument)
		hasCode(r, "info", second(unnamed.Info(ctx)), actor.InvalidArgument)
		hasCode(r, "close", unnamed.Close(ctx), actor.InvalidArgument)
		last, err := build.Append(ctx)
		errorIf(r, last != 0 || err != nil || len(r.node.Requests()) != 0, "nothing: %d, %v", last, err)
		hasCode(r, "not external", second(r.tokens.Of(r.ref).Append(ctx, "x")), actor.PermissionDenied)
		check(r, r.ref.Create(ctx))
		info, err := build.Info(ctx)
		errorIf(r, err != nil || info.Stream != "build" || info.First != 1 || info.Last != 0, "nothing was appended: %+v, %v", info, err)

		check(r, second(build.Append(ctx, job{Name: "1"})))
		start := time.Now()
		page, err := build.Read(ctx, handle.Position{After: 1}, handle.ReadConfig{Wait: 2 * time.Minute})
		errorIf(r, err != nil || len(page.Items) != 0 || page.Next.After != 1, "%+v, %v", page, err)
		waited := time.Since(start)
		errorIf(r, waited < 2*time.Minute || waited > 2*time.Minute+time.Second, "waited %s", waited)
	})
}

func TestItemThatDoesNotDecodeEndsAPageBeforeIt(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx := r.Context()
		typ := actor.NewType[desk]("desk")
		build := actor.NewStream[narrow](typ, "build", actor.StreamConfig{}).Of(typ.Ref(r.node, "a"))
		check(r, second(r.lines.Named("build").Of(r.ref).Append(ctx, job{Name: "1"}, job{N: 1000}, job{Name: "3"})))
		page, err := build.Read(ctx, handle.Position{}, handle.ReadConfig{})
		hasCode(r, "read", err, actor.Internal, "item 2")
		errorIf(r, len(page.Items) != 1 || page.Next.After != 1, "%+v", page)
		var got []string
		for item, err := range build.Follow(ctx, handle.Position{}) {
			got = append(got, fmt.Sprintf("%d %s", item.Sequence, actor.CodeOf(err)))
			if item.Sequence == 3 {
				break
			}
		}
		errorIf(r, !slices.Equal(got, []string{"1 ", "2 internal", "3 "}), "%q", got)
		err = r.act(&stub{items: []host.StreamItem{{Sequence: 1, Data: []byte("\x01")}}}, func(ctx *actor.Context) error {
			return first(r.tokens.Range(ctx, 0))
		})
		hasCode(r, "range", err, actor.Internal)
	})
}

func TestFollowYieldsEachItemOnceUntilTheStreamIsClosed(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx, build := r.Context(), r.lines.Named("build").Of(r.ref)
		var want []string
		add := func(i int) {
			want = append(want, fmt.Sprint(i))
			check(r, second(build.Append(ctx, job{Name: want[i]})))
		}
		add(0)
		got := make(chan []string)
		go func() { got <- follow(ctx, build, 0) }()
		for i := range 20 {
			add(i + 1)
			time.Sleep(time.Duration(i*i) * time.Second)
			r.h.Settle()
			if i == 10 {
				r.refusing(host.Errorf(host.Unavailable, "restarting"), host.StreamRead)
			} else if i == 12 {
				r.refusing(nil)
			}
		}
		check(r, build.Close(ctx))
		items := <-got
		errorIf(r, !slices.Equal(items, want), "%q", items)
	})
}

func TestFollowEndsWithTheContextOrAnErrorThatStays(t *testing.T) {
	onNode(t, func(r *rig) {
		follows := func(ctx context.Context, ref actor.Ref[desk], want ...string) {
			got := follow(ctx, r.lines.Named("build").Of(ref), 0)
			errorIf(r, !slices.Equal(got, want), "%q, want %q", got, want)
		}
		check(r, second(r.lines.Named("build").Of(r.ref).Append(r.Context(), job{Name: "1"})))
		ctx, cancel := context.WithCancel(r.Context())
		time.AfterFunc(45*time.Second, cancel)
		start := time.Now()
		follows(ctx, r.ref, "1", "canceled")
		errorIf(r, time.Since(start) != 45*time.Second, "it ended after %s", time.Since(start))
		r.refusing(host.Errorf(host.PermissionDenied, "not you"), host.StreamRead)
		follows(r.Context(), r.ref, "permission_denied")
		follows(r.Context(), actor.Ref[desk]{}, "invalid_argument")
	})
	reset := &handle.GapError{Missed: 3, Reset: true}
	errorIf(t, !strings.Contains(reset.Error(), "another life of the actor; the stream begins anew, with 3 items"), "%v", reset)
}

// A node that answers at once although it was asked to wait must not be asked in a tight loop.
func TestFollowDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d := newDesks("desk")
		hasty := &replies{Reply: host.Reply{Output: []byte("\xa2\x65items\x80\x64next\x05")}}
		got := follow(ctx, d.lines.Named("build").Of(d.typ.Ref(hasty, "a")), 5)
		errorIf(t, len(got) != 1 || hasty.calls > 60, "%q after %d calls", got, hasty.calls)
	})
}

// A restless is a node whose first read of a stream finds nothing in a life, and whose next one
// fails.
type restless struct {
	host.Node
	calls int
}

func (n *restless) Call(context.Context, *host.Request) (host.Reply, error) {
	if n.calls++; n.calls > 1 {
		return host.Reply{}, actor.Errorf(actor.Unavailable, "gone")
	}
	return host.Reply{Output: []byte("\xa3\x65items\x80\x64next\x05\x64life\x62L1")}, nil
}

func TestAReadThatFailsKeepsTheLifeThatItHasLearnt(t *testing.T) {
	d := newDesks("desk")
	page, err := d.tokens.Of(d.typ.Ref(new(restless), "a")).Read(t.Context(), handle.Position{After: 5}, handle.ReadConfig{Wait: time.Hour})
	hasCode(t, "read", err, actor.Unavailable)
	errorIf(t, page.Next != handle.Position{After: 5, Life: "L1"}, "%+v", page.Next)
}
