package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

// parent is the span of a caller that has its trace recorded.
const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
	sampledFrom = "00-" + parentTrace + "-" + parentSpan + "-01"
)

// traced starts a node that records all traces.
func traced(t *testing.T, types ...*puppetType) *stage {
	t.Helper()
	return newStage(t, func(o *Options) { o.Traces = parttrace.Options{} }, types...)
}

// spans reads the spans of an actor.
func (g *stage) spans(key string, in trace.ReadInput) []trace.Span {
	g.t.Helper()
	var out trace.ReadOutput
	g.mustVerb(key, host.TraceRead, in, &out)
	if len(out.Damaged) > 0 {
		g.t.Fatalf("damaged: %v", out.Damaged)
	}
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

func TestCallLeavesSpansOfWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		before := time.Now()
		var within string
		if err := g.doFrom("a", sampledFrom, func(p *puppet, h host.Turn) error {
			within = h.Traceparent()
			time.Sleep(time.Second)
			return add(1)(p, h)
		}); err != nil {
			t.Fatal(err)
		}
		spans := g.spans("a", trace.ReadInput{TraceID: parentTrace})
		call := named(t, spans, "call p.do")
		if call.ParentID != parentSpan || !call.Remote || call.Kind != "server" || call.Start.Before(before) || call.End.Sub(call.Start) < time.Second || call.Status != "" {
			t.Errorf("the call is %+v", call)
		}
		turn := named(t, spans, "turn do")
		if turn.ParentID != call.SpanID || turn.End.Sub(turn.Start) != time.Second || turn.Attributes["cairn.version"] != 2.0 {
			t.Errorf("the turn is %+v", turn)
		}
		if want := "00-" + parentTrace + "-" + turn.SpanID + "-01"; within != want {
			t.Errorf("the turn sees %q, want %q", within, want)
		}
		for _, name := range []string{"mailbox", "wake", "commit", "gate"} {
			if s := named(t, spans, name); s.ParentID != call.SpanID || s.End == nil {
				t.Errorf("%s is %+v", name, s)
			}
		}
	})
}

func TestStoredSpansSurviveRestartsAndCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		g.must("a", add(1))
		keys, bytes := g.status("a").Keys, g.status("a").Bytes
		want := len(g.spans("a", trace.ReadInput{}))
		for range 3 {
			g.restart()
			if n := len(g.spans("a", trace.ReadInput{})); n != want {
				t.Fatalf("%d spans after a restart, want %d", n, want)
			}
			g.must("a", add(0))
			want = len(g.spans("a", trace.ReadInput{}))
		}
		if st := g.status("a"); st.Keys != keys || st.Bytes != bytes {
			t.Errorf("%d keys of %d bytes, want %d of %d", st.Keys, st.Bytes, keys, bytes)
		}
		if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
			t.Fatal(err)
		}
		wantCode(t, g.verb("a", host.TraceRead, nil, nil), host.NotFound)
		g.must("a", add(0))
		if s := g.spans("a", trace.ReadInput{Name: "turn do"}); len(s) != 1 {
			t.Errorf("a successor has %d spans", len(s))
		}
	})
}

func TestReadingTracesNeitherMakesNorWakesAnActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		wantCode(t, g.verb("a", host.TraceRead, nil, nil), host.NotFound)
		wantCode(t, g.verb("a", host.TraceRead, nil, nil), host.NotFound)
		g.must("a", add(1))
		g.restart()
		g.spans("a", trace.ReadInput{})
		if g.Memory.Awake.Load() != 0 {
			t.Error("it is awake")
		}
	})
}

func TestTurnThatACrashStopsIsShownAsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		g.must("a", add(1))
		hold, begun := make(chan struct{}), make(chan struct{})
		go g.doFrom("a", sampledFrom, func(*puppet, host.Turn) error { close(begun); <-hold; return nil })
		<-begun
		if s := named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "turn do"); s.End != nil {
			t.Errorf("the open turn is %+v", s)
		}
		time.Sleep(6 * time.Second) // a flush
		g.must("b", add(1))         // which makes it durable
		g.Halt()
		left := g.disk.Crash(1, 0)
		close(hold)
		synctest.Wait()
		g.Kill()
		g.store.Close()
		g.disk = left
		g.start()
		if s := named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "turn do"); s.End == nil || s.Status != "error" || s.Message != "actor stopped" {
			t.Errorf("the turn is %+v", s)
		}
	})
}

// A call is over after its actor, which has panicked, has left memory. What does not wake an actor finds it asleep.
func TestSpansThatComeWhileTheirActorSleepsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		g.must("a", add(1))
		g.doFrom("a", sampledFrom, func(*puppet, host.Turn) error { panic("p") })
		synctest.Wait()
		request := func(key, name string) {
			client := host.ParseSpan(sampledFrom)
			g.EndRequest(pAddr(key), "http", name, g.BeginRequest("p", client), client, time.Now(), nil)
		}
		request("a", "GET p")
		request("nobody", "GET p")
		g.must("b", add(1))
		g.mustVerb("b", host.ActorSleep, nil, nil)
		request("b", "GET p")
		if err := g.Destroy(context.Background(), pAddr("b")); err != nil {
			t.Fatal(err)
		}
		g.must("b", add(1))
		if s := g.spans("b", trace.ReadInput{TraceID: parentTrace}); len(s) != 0 {
			t.Errorf("a successor has %q", spanNames(s))
		}
		check := func() {
			t.Helper()
			spans := g.spans("a", trace.ReadInput{TraceID: parentTrace})
			turn, call := named(t, spans, "turn do"), named(t, spans, "call p.do")
			if named(t, spans, "http GET p"); turn.ParentID != call.SpanID || call.Status != "error" || turn.Status != "error" {
				t.Errorf("the turn is %+v, and the call %+v", turn, call)
			}
		}
		check()
		request("a", "HEAD p")
		g.must("a", add(1)) // so that its journal stores the request
		named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "http HEAD p")
		g.mustVerb("a", host.ActorSleep, nil, nil)
		request("a", "PUT p")
		g.restart() // stores what waits
		check()
		named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "http HEAD p")
		named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "http PUT p")
		if g.Memory.Awake.Load() != 0 {
			t.Error("an actor is awake")
		}
		if s := g.spans("b", trace.ReadInput{TraceID: parentTrace}); len(s) != 0 {
			t.Errorf("a successor has %q", spanNames(s))
		}
	})
}

func TestLateSpansAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		g := newStage(t, func(o *Options) { o.Traces, o.Registerer = parttrace.Options{Share: 1e-300}, metrics })
		g.must("a", add(1))
		g.mustVerb("a", host.ActorSleep, nil, nil)
		client := host.ParseSpan(sampledFrom)
		for range 1_000 {
			g.EndRequest(pAddr("a"), "http", "GET p", client.Child(), client, time.Now(), nil)
		}
		kept := len(g.spans("a", trace.ReadInput{TraceID: parentTrace, Limit: 5_000}))
		if n := dropped(t, metrics); kept < 400 || kept > 900 || kept+int(n) != 1_000 {
			t.Errorf("%d spans are kept, and %v are counted as dropped", kept, n)
		}
		g.EndRequest(pAddr("a"), "http", "GET p", client.Child(), client, time.Now(), host.Errorf(host.PermissionDenied, "no"))
		time.Sleep(6 * time.Second)
		if n := len(g.spans("a", trace.ReadInput{TraceID: parentTrace, Limit: 5_000})); n != kept {
			t.Errorf("%d spans are stored of %d", n, kept)
		}
	})
}

func TestAWakeThatFailsIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		g := traced(t, &puppetType{name: "p", wake: func(*puppet, host.Turn) error {
			if broken {
				return errors.New("secret")
			}
			return nil
		}})
		g.must("a", add(1))
		g.mustVerb("a", host.ActorSleep, nil, nil)
		broken = true
		g.doFrom("a", sampledFrom, add(1))
		synctest.Wait()
		spans := g.spans("a", trace.ReadInput{TraceID: parentTrace})
		if wake, call := named(t, spans, "wake"), named(t, spans, "call p.do"); wake.Status != "error" || call.Status != "error" || wake.ParentID != call.SpanID {
			t.Errorf("the wake is %+v, and the call %+v", wake, call)
		}
	})
}

func TestFailedAndSlowTurnsAreKeptThoughTheirTraceIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, func(o *Options) { o.Traces = parttrace.Options{Share: 1e-300} })
		const unsampled = "00-" + parentTrace + "-" + parentSpan + "-00"
		g.doFrom("a", unsampled, add(1))
		if s := g.spans("a", trace.ReadInput{}); len(s) != 0 {
			t.Fatalf("there are %q", spanNames(s))
		}
		g.doFrom("a", unsampled, func(*puppet, host.Turn) error { return host.Errorf(host.FailedPrecondition, "not now") })
		if s := g.spans("a", trace.ReadInput{}); len(s) != 0 {
			t.Fatalf("there are %q after a refusal", spanNames(s))
		}
		g.doFrom("a", unsampled, func(*puppet, host.Turn) error { return errors.New("secret") })
		s := g.spans("a", trace.ReadInput{Errors: true, Name: "turn do"})
		if len(s) != 1 || s[0].TraceID != parentTrace || s[0].ParentID != parentSpan || s[0].Status != "error" {
			t.Fatalf("after an error there is %+v", s)
		}
		g.doFrom("b", unsampled, add(1))
		g.doFrom("b", unsampled, func(*puppet, host.Turn) error { panic("p") })
		if s := g.spans("b", trace.ReadInput{Errors: true, Name: "turn do"}); len(s) != 1 {
			t.Fatalf("after a panic there is %+v", s)
		}
		g.doFrom("c", unsampled, func(*puppet, host.Turn) error { time.Sleep(time.Second); return nil })
		if s := g.spans("c", trace.ReadInput{}); len(s) != 1 || s[0].End.Sub(s[0].Start) != time.Second {
			t.Fatalf("after a slow turn there is %+v", s)
		}
		g.doFrom("d", unsampled, add(1))
		for _, look := range []glance{
			func(*puppetState, host.Reader) error { time.Sleep(time.Second); return nil },
			func(*puppetState, host.Reader) error { return nil },
			func(*puppetState, host.Reader) error { return host.Errorf(host.FailedPrecondition, "not now") },
			func(*puppetState, host.Reader) error { return errors.New("secret") },
		} {
			g.look("d", look)
		}
		s = g.spans("d", trace.ReadInput{})
		if len(s) != 2 || s[0].Name != "call p.look" || s[1].Status != "error" || s[0].End.Sub(s[0].Start) != time.Second {
			t.Fatalf("after queries there is %+v", s)
		}
	})
}

func TestRateBoundsTheTracesThatBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, func(o *Options) { o.Traces = parttrace.Options{PerSecond: 10} })
		count := func() int { return len(g.spans("a", trace.ReadInput{Name: "call p.do"})) }
		for range 30 {
			g.must("a", add(1))
		}
		if n := count(); n != 10 {
			t.Fatalf("%d traces at once, want 10", n)
		}
		time.Sleep(10 * time.Second)
		for range 30 {
			g.must("a", add(1))
		}
		if n := count(); n != 20 {
			t.Fatalf("%d traces, want 20", n)
		}
	})
}

func TestTraceSpansSeveralActorsAndTheirMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		if err := g.doFrom("a", sampledFrom, func(p *puppet, h host.Turn) error {
			r := request(func(p *puppet, h host.Turn) error {
				if _, err := h.SQL().ExecContext(h, "CREATE TABLE t (x)"); err != nil {
					return err
				}
				h.Go("later", func(k host.Task) error {
					return k.Turn(context.Background(), func(any, host.Turn) error { return nil })
				})
				return h.Send(&host.Message{Type: "p", Key: []string{"c"}, Method: "do", Input: remember(add(1))})
			})
			r.Address = pAddr("b")
			_, err := h.Call(h, r)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		all := map[string][]trace.Span{}
		for _, key := range []string{"a", "b", "c"} {
			all[key] = g.spans(key, trace.ReadInput{TraceID: parentTrace})
		}
		request := named(t, all["a"], "request p.do")
		call := named(t, all["b"], "call p.do")
		send := named(t, all["b"], "send p.do")
		sql := named(t, all["b"], "sql CREATE")
		task := named(t, all["b"], "task later")
		delivery := named(t, all["c"], "turn do")
		if request.ParentID != named(t, all["a"], "turn do").SpanID || call.ParentID != request.SpanID || !call.Remote {
			t.Errorf("the request is %+v, the call %+v", request, call)
		}
		if sql.Attributes["db.query.text"] != "CREATE TABLE t (x)" {
			t.Errorf("the statement is %+v", sql)
		}
		if delivery.ParentID != send.SpanID || delivery.Kind != "consumer" || len(delivery.Links) != 1 || delivery.Links[0].SpanID != send.SpanID {
			t.Errorf("the message is sent by %+v and delivered by %+v", send, delivery)
		}
		page, err := g.FindTrace(context.Background(), trace.FindQuery{TraceID: parentTrace})
		if n := len(all["a"]) + len(all["b"]) + len(all["c"]); err != nil || len(page.Spans) != n || page.Actors != 3 || page.Cursor != "" {
			t.Errorf("together they have %d spans, found %d: %v", n, len(page.Spans), err)
		}
		if page, err := g.FindTrace(context.Background(), trace.FindQuery{TraceID: strings.Repeat("1", 32)}); err != nil || len(page.Spans) != 0 {
			t.Errorf("another trace has %+v, %v", page, err)
		}
		for id, field := range map[string]string{"": "trace", "x": "trace_id"} {
			_, err := g.FindTrace(context.Background(), trace.FindQuery{TraceID: id})
			if e := wantCode(t, err, host.InvalidArgument); e.Metadata["field"] != field {
				t.Errorf("the field of %v is %q", e, e.Metadata["field"])
			}
		}
		inner := 0
		for _, s := range all["b"] {
			if s.ParentID == task.SpanID {
				inner++
			}
		}
		if inner == 0 {
			t.Errorf("the task has no turn: %q", spanNames(all["b"]))
		}
	})
}

func TestRangesAndCursorsOfTracesAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		for i := range 20 {
			g.must("a", add(i))
		}
		var page trace.ReadOutput
		g.mustVerb("a", host.TraceRead, trace.ReadInput{Limit: 7}, &page)
		g.must("b", add(1))
		other, err := json.Marshal(trace.ReadInput{Limit: 7, Cursor: page.Cursor})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Call(t.Context(), &host.Request{Address: pAddr("b"), Method: host.TraceRead, Codec: host.JSON, Input: other}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("a cursor of another actor: %v", err)
		}
		seen := spanNames(page.Spans)
		for cursor := page.Cursor; cursor != ""; cursor = page.Cursor {
			page = trace.ReadOutput{}
			g.mustVerb("a", host.TraceRead, trace.ReadInput{Limit: 7, Cursor: cursor}, &page)
			seen = append(seen, spanNames(page.Spans)...)
		}
		slices.Sort(seen)
		if all := spanNames(g.spans("a", trace.ReadInput{})); len(seen) > len(all) || len(seen) < 20 {
			t.Errorf("the pages have %d spans, one reading %d", len(seen), len(all))
		}
		for in, field := range map[string]string{
			`{"start":"2026-01-02T00:00:00Z","end":"2026-01-01T00:00:00Z"}`: "end",
			`{"start":"9999-12-31T00:00:00Z","end":"2026-01-01T00:00:00Z"}`: "end",
			`{"cursor":"x"}`:           "cursor",
			`{"trace_id":"x"}`:         "trace_id",
			`{"limit":10001}`:          "limit",
			`{"max_bytes":1000000000}`: "max_bytes",
			`{"start":"yesterday"}`:    "start",
		} {
			if e := wantCode(t, g.raw(host.TraceRead, host.JSON, []byte(in)), host.InvalidArgument); e.Metadata["field"] != field {
				t.Errorf("%s: the field is %q in %v", in, e.Metadata["field"], e)
			}
		}
	})
}

// TestRangesOfTracesReachAsFarAsTimes reads with bounds that have no Unix nanoseconds.
func TestRangesOfTracesReachAsFarAsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		g.must("a", add(1))
		time.Sleep(time.Second)
		all := len(g.spans("a", trace.ReadInput{}))
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
			if len(out.Spans) != want || all == 0 {
				t.Errorf("%s: %d spans, want %d", in, len(out.Spans), want)
			}
		}
	})
}

// TestAPageOfATraceIsBounded has actors whose spans are small where they are stored, because their texts are alike, and large where
// they are shown.
func TestAPageOfATraceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		long := strings.Repeat("x", 4000)
		want := 0
		for i := range 3 {
			key := fmt.Sprint("k", i)
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
			want += len(g.spans(key, trace.ReadInput{TraceID: parentTrace, Limit: 10_000, MaxBytes: 64 << 20}))
		}
		seen, actors, pages := map[string]bool{}, 0, 0
		for q := (trace.FindQuery{TraceID: parentTrace}); ; pages++ {
			page, err := g.FindTrace(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(page)
			if err != nil || len(text) > 5<<20 {
				t.Fatalf("a page has %d bytes, %v", len(text), err)
			}
			for _, s := range page.Spans {
				seen[s.SpanID] = true
			}
			actors += page.Actors
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
			if pages == 0 { // cursors that are none
				for _, cursor := range []string{"x", q.Cursor + "x", ".", strings.SplitN(q.Cursor, ".", 2)[0] + ".x.y"} {
					if _, err := g.FindTrace(context.Background(), trace.FindQuery{TraceID: parentTrace, Cursor: cursor}); err != nil && host.CodeOf(err) != host.InvalidArgument {
						t.Errorf("%q: %v", cursor, err)
					}
				}
			}
		}
		if len(seen) != want || actors != 3 || pages < 1 {
			t.Errorf("%d spans of %d actors on %d pages; there are %d", len(seen), actors, pages+1, want)
		}
	})
}

func TestAlarmIsATraceOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t, &puppetType{name: "p", alarm: add(1)})
		g.must("a", func(_ *puppet, h host.Turn) error {
			return h.SetAlarm(host.Alarm{Name: "ring", Due: h.Now().Add(time.Minute)})
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		var found []string
		for _, s := range g.spans("a", trace.ReadInput{}) {
			if s.Attributes["cairn.work"] == "alarm" {
				found = append(found, fmt.Sprint(s.Name, " ", s.ParentID))
			}
		}
		if len(found) != 1 || !strings.HasPrefix(found[0], "turn ") || !strings.HasSuffix(found[0], " ") {
			t.Errorf("the alarm has the spans %q", found)
		}
	})
}
