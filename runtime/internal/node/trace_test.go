package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/trace"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

// parent is the span of a caller, which has its trace recorded or not.
const (
	parentTrace   = "0af7651916cd43dd8448eb211c80319c"
	parentSpan    = "b7ad6b7169203331"
	sampledFrom   = "00-" + parentTrace + "-" + parentSpan + "-01"
	unsampledFrom = "00-" + parentTrace + "-" + parentSpan + "-00"
)

// spans reads the spans of an actor.
func (g *stage) spans(key string, in trace.ReadInput) []trace.Span {
	g.t.Helper()
	var out trace.ReadOutput
	g.mustVerb(key, host.TraceRead, in, &out)
	fatalIf(g.t, len(out.Damaged) > 0, "damaged: %v", out.Damaged)
	return out.Spans
}

// named returns the one span with a name.
func named(t *testing.T, spans []trace.Span, name string) trace.Span {
	t.Helper()
	var found []trace.Span
	for _, s := range spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are called %q; the names are %q", len(found), name, spanNames(spans))
	}
	return found[0]
}

func spanNames(spans []trace.Span) (list []string) {
	for _, s := range spans {
		list = append(list, s.Name)
	}
	slices.Sort(list)
	return list
}

// doFrom is do for a caller with a trace.
func (g *stage) doFrom(key, traceparent string, f deed) error {
	r := request(f)
	r.Address, r.Traceparent = pAddr(key), traceparent
	_, err := g.Call(context.Background(), r)
	return err
}

// ofParent reads the spans of an actor in the caller's trace.
func (g *stage) ofParent(key string) []trace.Span {
	g.t.Helper()
	return g.spans(key, trace.ReadInput{TraceID: parentTrace, Limit: 10_000, MaxBytes: 64 << 20})
}

// tracing runs a test on a node that records traces.
func tracing(t *testing.T, o parttrace.Options, f func(t *testing.T, g *stage), types ...*puppetType) {
	t.Helper()
	bubble(t, func(all *Options) { all.Traces = o }, types, f)
}

// A turn that is cut off, by the abandonment of its core, a stop or a crash, is still shown, and
// only once.
func TestATurnThatIsCutOffIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		from    string
		stopped bool // it is shown as one that did not end
		cut     func(g *stage, letGo func())
	}{
		"abandoned":           {sampledFrom, false, func(g *stage, letGo func()) { g.timeIsUp(); synctest.Wait(); letGo() }},
		"abandoned, untraced": {unsampledFrom, false, func(g *stage, letGo func()) { g.timeIsUp(); synctest.Wait(); letGo() }},
		"stop": {sampledFrom, false, func(g *stage, letGo func()) {
			ctx, cancel := context.WithTimeout(g.t.Context(), time.Second)
			defer cancel()
			errorIf(g.t, g.Close(ctx) == nil, "it closed")
			letGo()
			g.store.Close()
			g.start()
		}},
		"crash": {sampledFrom, true, func(g *stage, letGo func()) {
			time.Sleep(6 * time.Second) // a flush
			g.must("b", add(1))         // this makes it durable
			g.crash()
			letGo()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
				g.must("a", add(1))
				g.restart() // so that the spans before are stored
				begun, hold := make(chan struct{}), make(chan struct{})
				go g.doFrom("a", c.from, func(*puppet, host.Turn) error { close(begun); <-hold; return nil })
				<-begun
				if c.from == sampledFrom {
					s := named(t, g.ofParent("a"), "turn do")
					errorIf(t, s.End != nil, "the open turn is %+v", s)
				}
				c.cut(g, func() { close(hold); synctest.Wait() })
				s := named(t, g.ofParent("a"), "turn do")
				errorIf(t, s.End == nil || s.Status != "error" || (s.Message == "actor stopped") != c.stopped, "the turn is %+v", s)
			})
		})
	}
}

// Spans that come while their actor sleeps are bounded; others are dropped and counted, and so are
// spans for which there is no disk.
func TestSpansThatCannotBeStoredAreDroppedAndCounted(t *testing.T) {
	metrics := prometheus.NewRegistry()
	registerer := prometheus.Registerer(metrics)
	bubble(t, func(o *Options) { o.Traces, o.Registerer = parttrace.Options{Share: 1e-300}, registerer }, nil,
		func(t *testing.T, g *stage) {
			g.must("a", add(1))
			g.mustVerb("a", host.ActorSleep, nil, nil)
			client := host.ParseSpan(sampledFrom)
			for range 1_000 {
				g.EndRequest(pAddr("a"), "http", "GET p", client.Child(), client, time.Now(), nil)
			}
			kept := len(g.ofParent("a"))
			n := dropped(t, metrics)
			errorIf(t, kept < 400 || kept > 900 || kept+int(n) != 1_000, "%d spans are kept, and %v are counted as dropped", kept, n)
			g.EndRequest(pAddr("a"), "http", "GET p", client.Child(), client, time.Now(), host.Errorf(host.PermissionDenied, "no"))
			time.Sleep(6 * time.Second)
			same(t, len(g.ofParent("a")), kept, "spans are stored")
			before := dropped(t, metrics)
			g.must("b", add(1))
			g.disk.SetFree(0)
			time.Sleep(6 * time.Second)
			must(t, g.lookAs("b", sampledFrom, func(host.Reader) error { return nil }))
			time.Sleep(10 * time.Second)
			if s := g.ofParent("b"); len(s) != 0 || dropped(t, metrics) == before {
				t.Errorf("%q are held", spanNames(s))
			}
			g.disk.SetFree(1 << 40)
			time.Sleep(10 * time.Second)
			must(t, g.doFrom("b", sampledFrom, add(1)))
			registerer = prometheus.NewRegistry()
			g.restart()
			named(t, g.ofParent("b"), "turn do")
		})
}

// TestRateBoundsTheTracesThatBegin has traces of the node itself, even slow ones, and of requests
// whose callers want to be recorded.
func TestRateBoundsTheTracesThatBegin(t *testing.T) {
	tracing(t, parttrace.Options{PerSecond: 10}, func(t *testing.T, g *stage) {
		wanted := func() (n int) {
			for range 300 {
				if g.BeginRequest("p", host.ParseSpan(sampledFrom)).Sampled() {
					n++
				}
			}
			return n
		}
		for round := range 2 {
			for range 30 {
				g.must("a", add(1))
			}
			n := len(g.spans("a", trace.ReadInput{Name: "call p.do"}))
			want := 10 * (round + 1)
			errorIf(t, n != want || wanted() != 100, "%d traces in round %d, want %d; or not 100 requests", n, round, want)
			s := g.BeginRequest("p", host.ParseSpan(sampledFrom))
			errorIf(t, s.Sampled() || s.IsZero() || !strings.Contains(s.String(), parentTrace), "a request too many has %v", s)
			time.Sleep(10 * time.Second)
		}
		if s := g.BeginRequest("p", host.ParseSpan(unsampledFrom)); s.Sampled() || s.Trace != host.ParseSpan(unsampledFrom).Trace {
			t.Errorf("a request of an unsampled caller has %v", s)
		}
	})
	tracing(t, parttrace.Options{PerSecond: 2}, func(t *testing.T, g *stage) {
		for range 100 {
			g.must("a", add(1))
			time.Sleep(100 * time.Millisecond)
		}
		n := len(g.spans("a", trace.ReadInput{Name: "call p.do"}))
		errorIf(t, n < 20 || n > 23, "%d traces in 10 seconds, want about 2 a second", n)
	})
}

// TestRangesAndCursorsOfTraces reads in pages, and with bounds that have no Unix nanoseconds.
func TestRangesAndCursorsOfTraces(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		for i := range 20 {
			g.must("a", add(i))
		}
		g.must("b", add(1))
		var page trace.ReadOutput
		g.mustVerb("a", host.TraceRead, trace.ReadInput{Limit: 7}, &page)
		err := g.verb("b", host.TraceRead, trace.ReadInput{Limit: 7, Cursor: page.Cursor}, nil)
		wantCode(t, err, host.InvalidArgument) // the cursor is of another actor
		seen := len(page.Spans)
		for cursor := page.Cursor; cursor != ""; cursor = page.Cursor {
			page = trace.ReadOutput{}
			g.mustVerb("a", host.TraceRead, trace.ReadInput{Limit: 7, Cursor: cursor}, &page)
			seen += len(page.Spans)
		}
		time.Sleep(time.Second)
		all := len(g.spans("a", trace.ReadInput{}))
		errorIf(t, seen > all || seen < 20, "the pages have %d spans, one reading %d", seen, all)
		for in, want := range map[string]int{
			`{"start":"0001-01-01T00:00:00Z","end":"9999-12-31T00:00:00Z"}`: all,
			`{"end":"2300-01-01T00:00:00Z"}`:                                all,
			`{"start":"1600-01-01T00:00:00Z"}`:                              all,
			`{"end":"1970-01-01T00:00:00Z"}`:                                0,
			`{"end":"1600-01-01T00:00:00Z"}`:                                0,
			`{"start":"2300-01-01T00:00:00Z"}`:                              0,
		} {
			var out trace.ReadOutput
			g.mustVerb("a", host.TraceRead, json.RawMessage(in), &out)
			errorIf(t, len(out.Spans) != want, "%s: %d spans, want %d", in, len(out.Spans), want)
		}
	})
}

// TestAPageOfATraceIsBounded has actors whose spans are small in the store, because their texts are
// alike, and large in answers.
func TestAPageOfATraceIsBounded(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		long := strings.Repeat("x", 4000)
		want := 0
		for _, key := range []string{"a", "b", "c"} {
			for range 24 { // 80 kB each: 5.7 MB in all
				time.Sleep(time.Second) // they are stored every five
				g.doFrom(key, sampledFrom, func(_ *puppet, h host.Turn) error {
					for j := range 20 {
						oteltrace.SpanFromContext(h).SetAttributes(attribute.String(fmt.Sprint("a", j), long))
					}
					return nil
				})
			}
			g.verb(key, host.ActorSleep, nil, nil)
			want += len(g.ofParent(key))
		}
		find := func(id, cursor string) (trace.FindPage, error) {
			return g.FindTrace(context.Background(), trace.FindQuery{TraceID: id, Cursor: cursor})
		}
		seen, actors, pages, cursor := map[string]bool{}, 0, 0, ""
		for ; pages == 0 || cursor != ""; pages++ {
			page, err := find(parentTrace, cursor)
			text, err2 := json.Marshal(page)
			if err := errors.Join(err, err2); err != nil || len(text) > 5<<20 {
				t.Fatalf("a page has %d bytes, %v", len(text), err)
			}
			for _, s := range page.Spans {
				seen[s.SpanID] = true
			}
			actors += page.Actors
			cursor = page.Cursor
			for _, bad := range []string{"x", cursor + "x", ".", strings.SplitN(cursor, ".", 2)[0] + ".x.y"} {
				if _, err := find(parentTrace, bad); err != nil && host.CodeOf(err) != host.InvalidArgument {
					t.Errorf("%q: %v", bad, err)
				}
			}
		}
		errorIf(t, len(seen) != want || actors != 3 || pages < 2,
			"%d spans of %d actors on %d pages; there are %d", len(seen), actors, pages, want)
		if page, err := find(strings.Repeat("1", 32), ""); err != nil || len(page.Spans) != 0 {
			t.Errorf("another trace has %+v, %v", page, err)
		}
		for id, field := range map[string]string{"": "trace", "x": "trace_id"} {
			_, err := find(id, "")
			wantField(t, err, field)
		}
	})
}

func TestSuccessorHasNoSpansOfItsPredecessor(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.slowSyncs() // the commit is durable when the core is gone
		const mine = "00-11111111111111111111111111111111-b7ad6b7169203331-01"
		began, late := time.Now(), g.BeginRequest("p", host.ParseSpan(mine))
		done := make(chan error)
		go func() {
			done <- g.doFrom("a", mine, func(_ *puppet, h host.Turn) error {
				time.Sleep(time.Millisecond)
				h.DestroySelf()
				return nil
			})
		}()
		time.Sleep(10 * time.Millisecond)
		must(t, errors.Join(g.doFrom("a", sampledFrom, add(1)), <-done))
		// The call and the request are over after the successor has begun.
		g.EndRequest(pAddr("a"), "http", "POST p.do", late, host.ParseSpan(mine), began, nil)
		g.EndRequest(pAddr("a"), "http", "POST p.more", late, host.ParseSpan(mine), time.Now(), nil)
		s := spanNames(g.spans("a", trace.ReadInput{TraceID: strings.Repeat("1", 32)}))
		errorIf(t, len(s) != 1 || s[0] != "http POST p.more", "a successor shows %q", s)
		named(t, g.ofParent("a"), "turn do")
	})
}

// slowSyncs makes each sync take 20 ms.
func (g *stage) slowSyncs() {
	g.disk.Fail(func(op, _ string) error {
		if op == "sync" {
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	})
}

// A flush that is stuck in the store, or that can write nothing, is one goroutine, for any number
// of spans that end meanwhile. The spans are stored afterwards, and the status has their size.
func TestAFlushThatDoesNotGetOnIsOneGoroutine(t *testing.T) {
	const size = 1000
	for want, spans := range map[int]int{1: 2000, 0: 300} { // more of them while nothing can be written are dropped
		stuck := want == 1
		tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
			if stuck {
				g.must("a", add(1))
				same(t, g.status("a").TraceBytes, 0, "bytes before anything is stored")
			}
			begun, end := 0, make(chan struct{})
			if err := g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error {
				time.Sleep(6 * time.Second) // the free space of the disk is looked at again
				g.disk.Fail(func(op, _ string) error {
					if stuck && op == "usage" {
						<-end
					}
					return nil
				})
				shop := oteltrace.SpanFromContext(h).TracerProvider().Tracer("shop")
				for i := range spans {
					if i == 299 {
						stacks := make([]byte, 4<<20)
						begun = strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*journal).flush(")
						close(end)
					}
					_, s := shop.Start(h, fmt.Sprintf("%0*d", size, i))
					s.End()
					time.Sleep(time.Microsecond) // the turn goes on when the flush is over
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			g.must("a", add(1))
			time.Sleep(6 * time.Second)
			kept := g.status("a").TraceBytes
			errorIf(t, begun != want || int(kept) < spans*size, "%d goroutines flush, want %d; %d bytes are stored", begun, want, kept)
			g.restart()
			same(t, g.status("a").TraceBytes, kept, "bytes after a restart")
		})
	}
}

// lookAs is a query of a caller with a trace.
func (g *stage) lookAs(key, traceparent string, f func(host.Reader) error) error {
	look := remember(glance(func(_ *puppetState, r host.Reader) error { return f(r) }))
	r := jsonCall(key, "look", string(look))
	r.Traceparent = traceparent
	_, err := g.Call(context.Background(), r)
	return err
}

// dropped returns how many spans were dropped.
func dropped(t *testing.T, metrics *prometheus.Registry) (n float64) {
	t.Helper()
	families, err := metrics.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "cairn_trace_spans_dropped_total" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// tail follows the spans of an actor.
func (g *stage) tail(key string, in trace.FollowInput) trace.Tail {
	g.t.Helper()
	t, err := g.FollowTraces(context.Background(), pAddr(key), in)
	must(g.t, err)
	g.t.Cleanup(t.Close)
	return t
}

// drain returns the spans that a tail has by now, and why there is nothing else.
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

// A tail that is opened while a destroy waits for the disk is the successor's: the end of the
// earlier actor does not end it, and it has none of that actor's spans.
func TestTailOpenedDuringADestroyIsOfTheSuccessor(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		old := g.tail("a", trace.FollowInput{})
		g.slowSyncs()
		errs := make(chan error, 2)
		go func() { errs <- g.doFrom("a", sampledFrom, destroySelf) }()
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

// A reader that takes nothing holds little, delays no turn, and gets the number of missed spans.
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

func TestSamplingIsChangedByTypeAndAtRunTime(t *testing.T) {
	o := parttrace.Options{PerSecond: 5, Slow: time.Second, Types: map[string]trace.Rule{"q": {Share: new(0.0)}}}
	tracing(t, o, func(t *testing.T, g *stage) {
		recorded := func(typ string, calls int, takes time.Duration) int {
			t.Helper()
			a := host.Address{Type: typ, Key: []string{"a"}}
			count := func() int {
				var out trace.ReadOutput
				err := g.verbAt(a, host.TraceRead, trace.ReadInput{Name: "turn do"}, &out)
				fatalIf(t, err != nil && host.CodeOf(err) != host.NotFound, "%v", err)
				return len(out.Spans)
			}
			before := count()
			for range calls {
				must(t, g.doAt(a, func(*puppet, host.Turn) error { time.Sleep(takes); return nil }))
			}
			defer time.Sleep(10 * time.Second)
			return count() - before
		}
		want := func(what string, p, q, slow int) {
			t.Helper()
			got := [3]int{recorded("p", 20, 0), recorded("q", 20, 0), recorded("q", 1, 500*time.Millisecond)}
			want := [3]int{p, q, slow}
			errorIf(t, got != want, "%s: traces of p, of q and of slow turns of q are %d, want %d", what, got, want)
		}
		set := func(s trace.Sampling) trace.Sampling {
			t.Helper()
			out, err := g.SetSampling(t.Context(), s)
			must(t, err)
			return out
		}
		want("as configured", 5, 0, 0)
		s := set(trace.Sampling{
			Rule:  trace.Rule{PerSecond: new(int64(0))},
			Types: map[string]trace.Rule{"q": {PerSecond: new(int64(3)), SlowMS: new(int64(100))}},
		})
		fatalIf(t, *s.Types["q"].Share != 1 || *s.Share != 1 || *s.SlowMS != 1000 || *g.Sampling().PerSecond != 0, "%+v", s)
		want("changed", 0, 3, 1)
		set(trace.Sampling{})
		want("reset", 5, 0, 0)
		for field, s := range map[string]trace.Sampling{
			"per_second":    {Rule: trace.Rule{PerSecond: new(int64(-1))}},
			"types.q.share": {Types: map[string]trace.Rule{"q": {Share: new(1.5)}}},
			"types.x":       {Types: map[string]trace.Rule{"x": {}}},
			"slow_ms":       {Rule: trace.Rule{SlowMS: new(int64(0))}},
		} {
			_, err := g.SetSampling(t.Context(), s)
			wantField(t, err, field)
		}
	}, &puppetType{name: "p"}, &puppetType{name: "q"})
}

// New rules are about the node and not about an actor. They still leave a record, or do not hold.
func TestRulesOfSamplingLeaveARecord(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		o := operator
		ctx := audit.With(t.Context(), &o)
		set := func(rate int64) error {
			_, err := g.SetSampling(ctx, trace.Sampling{Rule: trace.Rule{PerSecond: &rate}})
			return err
		}
		must(t, set(7))
		wantCode(t, set(-1), host.InvalidArgument)
		g.disk.SetFree(0)
		time.Sleep(2 * time.Second)
		wantCode(t, set(8), host.Unavailable)
		now := g.Sampling()
		errorIf(t, *now.PerSecond != 7, "%d traces a second", *now.PerSecond)
		page, err := g.Audit(t.Context(), audit.Query{})
		fatalIf(t, err != nil || len(page.Records) != 1, "%+v, %v", page, err)
		r := page.Records[0]
		if r.Verb != "trace.sample" || r.Type != "" || len(r.Key) > 0 || r.Principal != "ada" || r.Reason != "to see" ||
			string(r.Input) != `{"per_second":7}` ||
			!strings.Contains(string(r.Before), `"per_second":100`) || !strings.Contains(string(r.After), `"per_second":7`) {
			t.Errorf("%+v", r)
		}
		if page, err := g.Audit(t.Context(), audit.Query{Type: "p"}); err != nil || len(page.Records) > 0 {
			t.Errorf("%+v, %v", page, err)
		}
	})
}
