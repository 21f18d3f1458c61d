package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

// A diary emits an event and appends an item for each number that it is told.
type diary struct{}

var (
	diaries = actor.NewType[diary]("diary")
	tell    = actor.NewAction[[]int, actor.None](diaries, "tell")
	told    = actor.NewEvent[int](diaries, "told", actor.EventConfig{})
	entries = actor.NewStream[int](diaries, "entries", actor.StreamConfig{MaxItems: 10_000})
	diaryA  = host.Address{Type: "diary", Key: []string{"a"}}
)

func journalDefinition() actor.Definition {
	return actor.Define(diaries, actor.Spec[diary]{},
		actor.On(tell, func(_ *diary, ctx *actor.Context, numbers []int) (actor.None, error) {
			for _, n := range numbers {
				told.Emit(ctx, n)
			}
			_, err := entries.Append(ctx, numbers...)
			return actor.None{}, err
		}))
}

// lives runs a test with diaries, with functions that give the diary a first and a next life that tells numbers.
func lives(t *testing.T, f func(t *testing.T, h *actortest.Harness, live func(numbers ...int) (life string), die func())) {
	t.Helper()
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ref := diaries.Ref(h, "a")
		live := func(numbers ...int) string {
			t.Helper()
			if _, err := tell.Call(t.Context(), ref, numbers); err != nil {
				t.Fatal(err)
			}
			st, err := h.Runtime().Lookup(t.Context(), diaryA)
			if err != nil {
				t.Fatal(err)
			}
			return st.ID
		}
		die := func() {
			t.Helper()
			if err := diaries.Ref(h, "a").Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f(t, h, live, die)
	}, journalDefinition())
}

// upTo returns the numbers from 1 to n.
func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func TestASubscriptionEndsWithTheLifeOfItsActor(t *testing.T) {
	lives(t, func(t *testing.T, h *actortest.Harness, live func(...int) string, die func()) {
		first := live(upTo(700)...)
		follow := func(s host.Subscription) host.EventStream {
			stream, err := h.Runtime().Subscribe(t.Context(), diaryA, s)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stream.Close)
			return stream
		}
		idle := follow(host.Subscription{})
		behind := follow(host.Subscription{Resume: true}) // reads a page of the history, and has more to read
		if d, err := behind.Next(t.Context()); err != nil || len(d.Events) == 0 || len(d.Events) >= 700 || d.Events[0].Life != first {
			t.Fatal(len(d.Events), err)
		}
		late := follow(host.Subscription{Resume: true, After: 3, Life: first}) // reads nothing yet
		die()
		second := live(upTo(800)...)
		if first == second {
			t.Fatal("two lives with one id")
		}
		for name, stream := range map[string]host.EventStream{"idle": idle, "behind": behind, "late": late} {
			if d, err := stream.Next(t.Context()); host.CodeOf(err) != host.Destroyed {
				t.Errorf("%s: %d events, %v", name, len(d.Events), err)
			}
		}
	})
}

func TestAPositionInTheEventsOfAnotherLifeIsTold(t *testing.T) {
	lives(t, func(t *testing.T, h *actortest.Harness, live func(...int) string, die func()) {
		first := live(1, 2, 3)
		next := func(s host.Subscription) (host.Delivery, error) {
			t.Helper()
			stream, err := h.Runtime().Subscribe(t.Context(), diaryA, s)
			if err != nil {
				return host.Delivery{}, err
			}
			defer stream.Close()
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			return stream.Next(ctx)
		}
		die()
		if _, err := next(host.Subscription{Resume: true, After: 3, Life: first}); host.CodeOf(err) != host.Destroyed {
			t.Errorf("a life that is over, without a successor: %v", err)
		}
		waiting, err := h.Runtime().Subscribe(t.Context(), diaryA, host.Subscription{Resume: true, After: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer waiting.Close()
		got := make(chan host.Delivery, 1)
		go func() {
			d, err := waiting.Next(t.Context())
			if err != nil {
				t.Errorf("a subscriber that waits for the actor: %v", err)
			}
			got <- d
		}()
		synctest.Wait()
		second := live(10, 20, 30, 40, 50)
		if d := <-got; !d.Reset || len(d.Events) != 5 || d.Events[0].Life != second {
			t.Errorf("a subscriber that waited for the actor: %+v", d)
		}
		for _, c := range []struct {
			after uint64
			life  string
			reset bool
			first uint64
		}{
			{after: 3, life: first, reset: true, first: 1},
			{after: 0, life: first, reset: true, first: 1},
			{after: 3, life: second, first: 4},
			{after: 3, first: 4}, // a bare number counts in the life that is there
			{after: 99, reset: true, first: 1},
			{after: 0, first: 1},
		} {
			d, err := next(host.Subscription{Resume: true, After: c.after, Life: c.life})
			if err != nil || d.Reset != c.reset || d.Missed != 0 || len(d.Events) == 0 || d.Events[0].Sequence != c.first || d.Events[0].Life != second {
				t.Errorf("%+v: %+v, %v", c, d, err)
			}
		}
		for _, bad := range []string{"x", "00000000-0000-0000-0000-000000000000"} {
			if _, err := next(host.Subscription{Resume: true, Life: bad}); wantCode(t, err, actor.InvalidArgument).Metadata["field"] != "life" {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}

func TestAConnectionIsToldThatItsPositionIsOfAnotherLife(t *testing.T) {
	lives(t, func(t *testing.T, h *actortest.Harness, live func(...int) string, die func()) {
		first := live(1, 2, 3)
		connect := func(r host.ConnectRequest) host.LiveConnection {
			t.Helper()
			r.Events = []string{"told"}
			conn, err := h.Runtime().Connect(t.Context(), diaryA, r)
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		old := connect(host.ConnectRequest{})
		if w := old.Welcome(); w.Life != first || w.Cursor != 3 {
			t.Errorf("%+v", w)
		}
		die()
		if _, err := old.Next(t.Context()); host.CodeOf(err) != host.Destroyed {
			t.Error(err)
		}
		// The new life has no events yet: that the old position is none of it is told at once.
		back := connect(host.ConnectRequest{Token: old.Welcome().Token, After: 3, HasAfter: true, Life: first})
		d, err := back.Next(t.Context())
		if w := back.Welcome(); w.Resumed || w.Cursor != 0 || w.Life == first || err != nil || !d.Reset || len(d.Events) != 0 {
			t.Fatalf("%+v, %+v, %v", w, d, err)
		}
		second := live(10, 20, 30, 40)
		if d, err := back.Next(t.Context()); err != nil || d.Reset || len(d.Events) != 4 || d.Events[0].Life != second {
			t.Errorf("%+v, %v", d, err)
		}
		again := connect(host.ConnectRequest{After: 3, HasAfter: true, Life: first})
		if d, err := again.Next(t.Context()); err != nil || !d.Reset || len(d.Events) != 4 || d.Events[0].Sequence != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestAReaderThatFollowsAStreamEndsWithTheLifeOfItsActor(t *testing.T) {
	lives(t, func(t *testing.T, h *actortest.Harness, live func(...int) string, die func()) {
		first := live(1, 2, 3)
		ref := diaries.Ref(h, "a")
		var mu sync.Mutex
		var seen []string
		var wg sync.WaitGroup
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		// One reader has read something, and one waits beyond the end with nothing but a number.
		for name, after := range map[string]uint64{"reader": 0, "bare": 3} {
			wg.Go(func() {
				var last error
				for item, err := range entries.Of(ref).Follow(ctx, handle.Position{After: after}) {
					if last = err; err == nil && item.Life != first {
						mu.Lock()
						seen = append(seen, fmt.Sprintf("%s: item %d of %s", name, item.Sequence, item.Life))
						mu.Unlock()
					}
				}
				if actor.CodeOf(last) != actor.Destroyed {
					mu.Lock()
					seen = append(seen, fmt.Sprintf("%s ended with %v", name, last))
					mu.Unlock()
				}
			})
		}
		synctest.Wait()
		begin := time.Now()
		die()
		live(10, 20, 30, 40, 50)
		wg.Wait()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the readers learnt of it after %v", took)
		}
		for _, s := range seen {
			t.Error(s)
		}
	})
}

func TestAPositionInAStreamOfAnotherLifeIsTold(t *testing.T) {
	lives(t, func(t *testing.T, h *actortest.Harness, live func(...int) string, die func()) {
		first := live(1, 2, 3)
		ref := diaries.Ref(h, "a")
		die()
		if _, err := entries.Of(ref).Read(t.Context(), handle.Position{After: 3, Life: first}, handle.ReadConfig{}); actor.CodeOf(err) != actor.Destroyed {
			t.Errorf("a life that is over: %v", err)
		}
		if _, err := entries.Of(ref).Read(t.Context(), handle.Position{After: 3}, handle.ReadConfig{}); actor.CodeOf(err) != actor.NotFound {
			t.Errorf("no actor: %v", err)
		}
		second := live(10, 20, 30, 40, 50)
		for _, c := range []struct {
			after uint64
			life  string
			reset bool
			first uint64
		}{
			{after: 3, life: first, reset: true, first: 1},
			{after: 3, life: second, first: 4},
			{after: 3, first: 4},
			{after: 99, reset: true, first: 1},
		} {
			page, err := entries.Of(ref).Read(t.Context(), handle.Position{After: c.after, Life: c.life}, handle.ReadConfig{})
			if err != nil || page.Reset != c.reset || page.Next.Life != second || page.Items[0].Sequence != c.first || page.Items[0].Life != second || page.Next.After != 5 {
				t.Errorf("%+v: %+v, %v", c, page, err)
			}
		}
		var gap *handle.GapError
		var got []int
		for item, err := range entries.Of(ref).Follow(t.Context(), handle.Position{After: 3, Life: first}) {
			if errors.As(err, &gap) {
				if len(got) > 0 {
					t.Error("the gap comes late")
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, item.Value); len(got) == 5 {
				break
			}
		}
		if gap == nil || !gap.Reset || gap.Missed != 0 || fmt.Sprint(got) != "[10 20 30 40 50]" {
			t.Errorf("%+v, %v", gap, got)
		}
		_, err := entries.Of(ref).Read(t.Context(), handle.Position{Life: "x"}, handle.ReadConfig{})
		if wantCode(t, err, actor.InvalidArgument).Metadata["field"] != "life" {
			t.Error(err)
		}
		info, err := entries.Of(ref).Info(t.Context())
		if err != nil || info.Life != second {
			t.Errorf("%+v, %v", info, err)
		}
	})
}
