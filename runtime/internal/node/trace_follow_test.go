package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

// tail follows the spans of an actor.
func (g *stage) tail(key string, in trace.FollowInput) trace.Tail {
	g.t.Helper()
	t, err := g.FollowTraces(context.Background(), pAddr(key), in)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(t.Close)
	return t
}

// drain returns the spans that a tail has by now, and why it has nothing else.
func drain(t trace.Tail) (all trace.News, err error) {
	synctest.Wait()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
		news, err := t.Next(ctx)
		cancel()
		if err != nil {
			return all, err
		}
		all.Spans = append(all.Spans, news.Spans...)
		all.Missed += news.Missed
	}
}

// TestTailsSendEachSpanOnce is defect 10 of the reference: its live view reads the whole window each second. The tail neither wakes the
// actor nor keeps it awake, goes on when it wakes, and ends with it.
func TestTailsSendEachSpanOnce(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.restart()
		tail := g.tail("a", trace.FollowInput{})
		turns := g.tail("a", trace.FollowInput{Name: "turn do"})
		one := g.tail("a", trace.FollowInput{TraceID: parentTrace, Errors: true})
		if all, err := drain(tail); len(all.Spans) != 0 || host.CodeOf(err) != host.DeadlineExceeded || g.Memory.Awake.Load() != 0 {
			t.Fatalf("before the first call it has %q, %v; %d actors are awake", spanNames(all.Spans), err, g.Memory.Awake.Load())
		}
		want := len(g.spans("a", trace.ReadInput{}))
		for range 2 { // each wakes the actor
			g.must("a", add(1))
			all, err := drain(tail)
			if names := spanNames(all.Spans); host.CodeOf(err) != host.DeadlineExceeded || len(names) < 6 || !strings.Contains(strings.Join(names, ","), "wake") {
				t.Fatalf("a call leaves %q, %v", names, err)
			}
			want += len(all.Spans)
			time.Sleep(2 * time.Minute)
			if n := g.Memory.Awake.Load(); n != 0 {
				t.Fatalf("%d actors are awake", n)
			}
		}
		more, _ := drain(tail)
		if got := len(g.spans("a", trace.ReadInput{})); got != want+len(more.Spans) {
			t.Errorf("%d spans are stored, the tail has those after the first %d", got, want)
		}
		g.must("b", add(1))
		g.doFrom("a", sampledFrom, func(*puppet, host.Turn) error { return fmt.Errorf("secret") })
		if all, _ := drain(turns); len(all.Spans) != 3 || all.Missed != 0 {
			t.Errorf("the turns are %q", spanNames(all.Spans))
		}
		if all, _ := drain(one); len(all.Spans) == 0 || all.Spans[0].TraceID != parentTrace || all.Spans[0].Status != "error" {
			t.Errorf("the errors of a trace are %q", spanNames(all.Spans))
		}
		g.destroy("a")
		g.must("a", add(1))
		for range 2 {
			_, err := drain(tail)
			wantCode(t, err, host.Destroyed)
		}
		_, err := g.FollowTraces(context.Background(), pAddr("a"), trace.FollowInput{Life: tail.Life()})
		wantCode(t, err, host.Destroyed)
		again := g.tail("a", trace.FollowInput{})
		if again.Life() == tail.Life() {
			t.Error("the successor has the life of the actor before")
		}
		g.tail("a", trace.FollowInput{Life: again.Life()})
		g.destroy("a")
		_, err = g.FollowTraces(context.Background(), pAddr("a"), trace.FollowInput{Life: again.Life()})
		wantCode(t, err, host.Destroyed)
		if all, _ := drain(turns); strings.Contains(strings.Join(spanNames(all.Spans), ","), "turn do") {
			t.Error("the tail has turns of a successor")
		}
	})
}

// A tail that is opened while a destroy waits for the disk is that of the successor: the end of the actor before does not end it, and
// it has none of its spans.
func TestTailOpenedDuringADestroyIsOfTheSuccessor(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		old := g.tail("a", trace.FollowInput{})
		g.slowSyncs()
		errs := make(chan error, 2)
		go func() {
			errs <- g.doFrom("a", sampledFrom, destroySelf)
		}()
		time.Sleep(10 * time.Millisecond)
		go func() { errs <- g.do("a", add(1)) }()
		next := old
		for next.Life() == old.Life() {
			time.Sleep(time.Millisecond)
			tail, err := g.FollowTraces(context.Background(), pAddr("a"), trace.FollowInput{})
			if err != nil {
				wantCode(t, err, host.NotFound)
				continue
			}
			defer tail.Close()
			next = tail
		}
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Fatal(err)
		}
		g.must("a", add(1))
		all, err := drain(next)
		wantCode(t, err, host.DeadlineExceeded)
		turns := 0
		for _, s := range all.Spans {
			if s.Name == "turn do" {
				turns++
				if s.TraceID == parentTrace {
					t.Errorf("it has a turn of the actor before: %+v", s)
				}
			}
		}
		if turns == 0 {
			t.Errorf("it has %q, and not the last turn", spanNames(all.Spans))
		}
	})
}

// A reader that takes nothing holds little, delays no turn, and is told how much it missed.
func TestSlowTailsMissSpansAndSayHowMany(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		slow, fast := g.tail("a", trace.FollowInput{Name: "sql SELECT"}), g.tail("a", trace.FollowInput{Name: "sql SELECT"})
		text := "SELECT 1 -- " + strings.Repeat("x", 4000)
		const rounds, each = 10, 50
		n, size := 0, 0
		for range rounds {
			if err := g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error {
				for range each {
					if _, err := h.SQL().ExecContext(h, text); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			all, _ := drain(fast)
			n += len(all.Spans)
		}
		all, _ := drain(slow)
		for i := range all.Spans {
			size += len(all.Spans[i].Attributes["db.query.text"].(string))
		}
		if n != rounds*each || len(all.Spans)+int(all.Missed) != n || all.Missed == 0 || size > 1<<20 || size < 1<<19 {
			t.Errorf("the fast reader has %d spans, the slow one %d of %d bytes and missed %d", n, len(all.Spans), size, all.Missed)
		}
		g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error {
			_, err := h.SQL().ExecContext(h, text)
			return err
		})
		if all, _ := drain(slow); len(all.Spans) != 1 || all.Missed != 0 {
			t.Errorf("afterwards it has %d spans and missed %d", len(all.Spans), all.Missed)
		}
	})
}

func TestTailsAreRefused(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		follow := func(key string, in trace.FollowInput) error {
			tail, err := g.FollowTraces(context.Background(), pAddr(key), in)
			if err == nil {
				t.Cleanup(tail.Close)
			}
			return err
		}
		wantCode(t, follow("a", trace.FollowInput{}), host.NotFound)
		g.must("a", add(1))
		for field, in := range map[string]trace.FollowInput{"trace_id": {TraceID: "x"}, "life": {Life: "x"}} {
			wantField(t, follow("a", in), field)
		}
		for range trace.MaxFollowers {
			if err := follow("a", trace.FollowInput{}); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, follow("a", trace.FollowInput{}), host.Overloaded)
	})
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		_, err := g.FollowTraces(context.Background(), pAddr("a"), trace.FollowInput{})
		wantCode(t, err, host.FailedPrecondition)
	})
}

// The tails of a node that shuts down say so.
func TestTailsEndWithTheirNode(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		tail := g.tail("a", trace.FollowInput{})
		ended := make(chan error)
		go func() {
			for {
				if _, err := tail.Next(context.Background()); err != nil {
					ended <- err
					return
				}
			}
		}()
		synctest.Wait()
		g.stop()
		wantCode(t, <-ended, host.Unavailable)
		g.start()
	})
}
