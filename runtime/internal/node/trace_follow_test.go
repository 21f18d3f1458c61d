package node

import (
	"context"
	"errors"
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
	must(g.t, err)
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
		must(t, errors.Join(<-errs, <-errs))
		g.must("a", add(1))
		all, err := drain(next)
		wantCode(t, err, host.DeadlineExceeded)
		turns := 0
		for _, s := range all.Spans {
			if s.Name == "turn do" {
				turns++
				errorIf(t, s.TraceID == parentTrace, "it has a turn of the actor before: %+v", s)
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
		errorIf(t, n != rounds*each || len(all.Spans)+int(all.Missed) != n || all.Missed == 0 || size > 1<<20 || size < 1<<19,
			"the fast reader has %d spans, the slow one %d of %d bytes and missed %d", n, len(all.Spans), size, all.Missed)
		g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error {
			_, err := h.SQL().ExecContext(h, text)
			return err
		})
		if all, _ := drain(slow); len(all.Spans) != 1 || all.Missed != 0 {
			t.Errorf("afterwards it has %d spans and missed %d", len(all.Spans), all.Missed)
		}
	})
}
