package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/cairn-run/cairn/keyspace"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

const unsampledFrom = "00-" + parentTrace + "-" + parentSpan + "-00"

func TestTurnThatWasAbandonedIsKept(t *testing.T) {
	for _, from := range []string{sampledFrom, unsampledFrom} {
		synctest.Test(t, func(t *testing.T) {
			g := traced(t)
			g.must("a", add(1))
			g.restart()
			begun, hold := make(chan struct{}), make(chan struct{})
			go g.doFrom("a", from, func(*puppet, host.Turn) error { close(begun); <-hold; return nil })
			<-begun
			g.timeIsUp()
			synctest.Wait()
			s := g.spans("a", trace.ReadInput{TraceID: parentTrace, Name: "turn do"})
			if len(s) != 1 || s[0].End == nil || s[0].Status != "error" || s[0].Message == "actor stopped" {
				t.Errorf("from %s there is %+v", from, s)
			}
			close(hold)
			synctest.Wait()
			if again := g.spans("a", trace.ReadInput{TraceID: parentTrace, Name: "turn do"}); len(again) != 1 {
				t.Errorf("later there is %+v", again)
			}
		})
	}
}

func TestSpansOfWhatAStopCutsOffAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		g.must("a", add(1))
		begun, hold := make(chan struct{}), make(chan struct{})
		go g.doFrom("a", sampledFrom, func(*puppet, host.Turn) error { close(begun); <-hold; return nil })
		<-begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g.Close(ctx) == nil {
			t.Error("it closed")
		}
		close(hold)
		synctest.Wait()
		g.store.Close()
		g.start()
		s := named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "turn do")
		if s.End == nil || s.Status != "error" || s.Message == "actor stopped" {
			t.Errorf("the turn is %+v", s)
		}
	})
}

func TestSuccessorHasNoSpansOfItsPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		g.must("a", add(1))
		g.disk.Fail(func(op, _ string) error { // the commit is durable when the core is gone
			if op == "sync" {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		})
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
		if err := g.doFrom("a", sampledFrom, add(1)); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		// The call and the request are over after the successor has begun.
		g.EndRequest(pAddr("a"), "http", "POST p.do", late, host.ParseSpan(mine), began, nil)
		began = time.Now()
		g.EndRequest(pAddr("a"), "http", "POST p.more", late, host.ParseSpan(mine), began, nil)
		if s := spanNames(g.spans("a", trace.ReadInput{TraceID: strings.Repeat("1", 32)})); len(s) != 1 || s[0] != "http POST p.more" {
			t.Errorf("a successor shows %q", s)
		}
		named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "turn do")
	})
}

func TestSpansThatCannotBeStoredAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		registerer := prometheus.Registerer(metrics)
		g := newStage(t, func(o *Options) { o.Traces, o.Registerer = parttrace.Options{}, registerer })
		g.must("a", add(1))
		time.Sleep(6 * time.Second)
		g.disk.SetFree(0)
		if err := g.lookFrom("a", sampledFrom); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := dropped(t, metrics); n == 0 {
			t.Error("nothing is counted")
		}
		if s := g.spans("a", trace.ReadInput{TraceID: parentTrace}); len(s) != 0 {
			t.Errorf("%q are held", spanNames(s))
		}
		g.disk.SetFree(1 << 40)
		time.Sleep(10 * time.Second)
		if err := g.doFrom("a", sampledFrom, add(1)); err != nil {
			t.Fatal(err)
		}
		registerer = prometheus.NewRegistry()
		g.restart()
		named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "turn do")
	})
}

func TestManySpansOfUsersInOneTurnAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		g := newStage(t, func(o *Options) { o.Traces, o.Registerer = parttrace.Options{}, metrics })
		g.must("a", add(1))
		const spans, size = 2000, 1000
		if err := g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error {
			tracer := oteltrace.SpanFromContext(h).TracerProvider().Tracer("shop")
			for i := range spans {
				_, s := tracer.Start(h, fmt.Sprintf("%0*d", size, i))
				s.End()
				time.Sleep(time.Microsecond) // the turn goes on when the flush is over
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if n, kept := dropped(t, metrics), g.status("a").TraceBytes; n != 0 || kept < spans*size {
			t.Errorf("%v spans were dropped, %d bytes are stored", n, kept)
		}
	})
}

// A flush that is stuck in the store, or that can write nothing, is one goroutine, however many spans end meanwhile.
func TestAFlushThatDoesNotGetOnIsOneGoroutine(t *testing.T) {
	for _, stuck := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := traced(t)
			if stuck {
				g.must("a", add(1))
			}
			begun, end := 0, make(chan struct{})
			if err := g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error {
				time.Sleep(6 * time.Second) // the free space of the disk is looked at again
				if stuck {
					g.disk.Fail(func(op, _ string) error {
						if op == "usage" {
							<-end
						}
						return nil
					})
				}
				tracer := oteltrace.SpanFromContext(h).TracerProvider().Tracer("shop")
				for i := range 300 {
					_, s := tracer.Start(h, fmt.Sprintf("%0*d", 1000, i))
					s.End()
					time.Sleep(time.Nanosecond)
				}
				stacks := make([]byte, 4<<20)
				begun = strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*journal).flush(")
				close(end)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			g.disk.Fail(nil)
			if stuck && begun != 1 || !stuck && begun != 0 {
				t.Errorf("%d goroutines flush, stuck: %t", begun, stuck)
			}
			g.must("a", add(1))
			time.Sleep(6 * time.Second)
			if kept := g.status("a").TraceBytes; kept < 300*1000 {
				t.Errorf("%d bytes are stored, stuck: %t", kept, stuck)
			}
		})
	}
}

func TestRequestsThatWantToBeRecordedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, func(o *Options) { o.Traces = parttrace.Options{PerSecond: 10} })
		count := func() (n int) {
			for range 300 {
				if g.BeginRequest("p", host.ParseSpan(sampledFrom)).Sampled() {
					n++
				}
			}
			return n
		}
		if n := count(); n != 100 {
			t.Errorf("%d at once, want 100", n)
		}
		time.Sleep(10 * time.Second)
		if n := count(); n != 100 {
			t.Errorf("%d later, want 100", n)
		}
		if s := g.BeginRequest("p", host.ParseSpan(sampledFrom)); s.Sampled() || s.IsZero() || !strings.Contains(s.String(), parentTrace) {
			t.Errorf("a request too many has %v", s)
		}
		if s := g.BeginRequest("p", host.ParseSpan(unsampledFrom)); s.Sampled() || s.Trace != host.ParseSpan(unsampledFrom).Trace {
			t.Errorf("a request of an unsampled caller has %v", s)
		}
	})
}

func TestSmallRatesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, func(o *Options) { o.Traces = parttrace.Options{PerSecond: 2} })
		for range 100 {
			g.must("a", add(1))
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(g.spans("a", trace.ReadInput{Name: "call p.do"})); n < 20 || n > 23 {
			t.Errorf("%d traces in 10 seconds, want about 2 a second", n)
		}
	})
}

// lookFrom is a query of a caller with a trace.
func (g *stage) lookFrom(key, traceparent string) error {
	look := remember(glance(func(*puppetState, host.Reader) error { return nil }))
	_, err := g.Call(context.Background(), &host.Request{Address: pAddr(key), Method: "look", Codec: host.JSON, Input: look, Traceparent: traceparent})
	return err
}

func TestQueryOfAnActorThatWokeUntracedIsStoredBeforeSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		if err := g.doFrom("a", unsampledFrom, add(1)); err != nil {
			t.Fatal(err)
		}
		if err := g.lookFrom("a", sampledFrom); err != nil {
			t.Fatal(err)
		}
		g.restart()
		named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "call p.look")
	})
}

// dropped returns how many spans were dropped.
func dropped(t *testing.T, metrics *prometheus.Registry) (n float64) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "cairn_trace_spans_dropped_total" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestManyTracedActorsUnderStress(t *testing.T) {
	g := newStage(t, func(o *Options) {
		o.Traces = parttrace.Options{PerSecond: 1 << 40, MaxBytes: 64 << 10}
		o.IdleTimeout, o.TurnGrace = 2*time.Millisecond, 2*time.Minute // Close waits that long for what a busy machine has not run yet
		o.MaxAwake = 8
	}, &puppetType{name: "p", wake: func(*puppet, host.Turn) error { return nil }})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var dead sync.Map // ids of destroyed actors
	for i := range 8 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for n := 0; n < 60 && ctx.Err() == nil; n++ {
				key := string(rune('a' + r.IntN(16)))
				from := []string{"", sampledFrom, unsampledFrom}[r.IntN(3)]
				switch r.IntN(9) {
				case 0:
					g.doFrom(key, from, func(*puppet, host.Turn) error { panic("p") })
				case 1:
					id, ok, err := g.store.Lookup(g.Identity(pAddr(key)))
					if err == nil && ok && g.Destroy(ctx, pAddr(key)) == nil {
						dead.Store(id, true) // it, or one that was there before its successor
					}
				case 2:
					g.look(key, func(*puppetState, host.Reader) error { return nil })
				case 3:
					g.doFrom(key, from, func(_ *puppet, h host.Turn) error { h.DestroySelf(); return nil })
				case 4:
					hold := make(chan struct{})
					wg.Go(func() { time.Sleep(time.Millisecond); g.timeIsUp(); close(hold) }) // before the node closes
					g.doFrom(key, from, func(*puppet, host.Turn) error { <-hold; return nil })
				case 5:
					g.verb(key, host.TraceRead, nil, nil)
				case 6:
					to := string(rune('a' + r.IntN(16)))
					g.doFrom(key, from, func(_ *puppet, h host.Turn) error {
						return h.Send(&host.Message{Type: "p", Key: []string{to}, Method: "do", Input: remember(add(1))})
					})
				default:
					g.doFrom(key, from, add(1))
				}
			}
		})
	}
	wg.Wait()
	cancel()
	left := func() {
		start, end := keyspace.KindTraces.Range()
		dead.Range(func(id, _ any) bool {
			snap := g.store.Snapshot(id.(keyspace.ActorID))
			defer snap.Close()
			if err := snap.Scan(start, end, func(key, _ []byte) bool { t.Errorf("%v has %x", id, key); return false }); err != nil {
				t.Error(err)
			}
			return true
		})
	}
	left()
	g.restart()
	left()
	g.cut(1, 0)
	left()
	for c := 'a'; c < 'a'+16; c++ {
		if err := g.verb(string(c), host.TraceRead, nil, nil); err != nil && host.CodeOf(err) != host.NotFound {
			t.Error(err)
		}
	}
}

// lines is a log handler that keeps its lines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func TestLinesOfTheLogNameTheSpanThatTheyAreWrittenIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		g := newStage(t, func(o *Options) { o.Traces, o.Logger = parttrace.Options{}, slog.New(slog.NewTextHandler(&log, nil)) })
		hex := func(line string) string { return line[strings.Index(line, "trace_id="):] }
		var turns []string
		note := func(r host.Reader) { turns = append(turns, r.Traceparent()) }
		g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error { note(h); h.Logger().Info("told"); return nil })
		g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error { note(h); panic("p") })
		g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error { note(h); return errors.New("secret") })
		look := func(f func(r host.Reader) error) {
			input := remember(glance(func(_ *puppetState, r host.Reader) error { note(r); return f(r) }))
			g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON, Input: input, Traceparent: sampledFrom})
		}
		look(func(r host.Reader) error { r.Logger().Info("told"); return nil })
		look(func(host.Reader) error { panic("p") })
		look(func(host.Reader) error { return errors.New("secret") })
		var named []string
		for line := range strings.Lines(log.text.String()) {
			if strings.Contains(line, "trace_id="+parentTrace+" span_id=") {
				named = append(named, hex(line)[len("trace_id=")+32+len(" span_id="):][:16])
			}
		}
		if len(named) != len(turns) {
			t.Fatalf("%d lines for %d handlers: %s", len(named), len(turns), &log.text)
		}
		for i, of := range turns {
			if i != 2 && !strings.Contains(of, named[i]) { // an error is logged after its turn, with the span of the call
				t.Errorf("line %d names the span %s, the handler ran in %s", i, named[i], of)
			}
		}
		log.text.Reset()
		g.doFrom("a", unsampledFrom, func(_ *puppet, h host.Turn) error { h.Logger().Info("told"); return nil })
		if text := log.text.String(); !strings.Contains(text, "told") || !strings.Contains(text, "trace_id="+parentTrace) {
			t.Errorf("a turn whose trace is not recorded: %s", text)
		}
	})
}

func TestStatusSaysWhatSpansTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		g.must("a", add(1))
		if n := g.status("a").TraceBytes; n != 0 {
			t.Errorf("%d bytes before anything is stored", n)
		}
		time.Sleep(6 * time.Second)
		n := g.status("a").TraceBytes
		if n < 100 || n > 4096 {
			t.Errorf("%d bytes", n)
		}
		g.restart()
		if after := g.status("a").TraceBytes; after != n {
			t.Errorf("%d bytes after a restart, %d before", after, n)
		}
	})
}

func TestAttributesAndSpansInTheCurrentSpanAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := traced(t)
		mark := func(ctx context.Context, what string) {
			span := oteltrace.SpanFromContext(ctx)
			span.SetAttributes(attribute.String("plan", what))
			tracer := span.TracerProvider().Tracer("shop")
			own, outer := tracer.Start(ctx, "outer "+what)
			_, inner := tracer.Start(own, "inner "+what)
			inner.End()
			outer.End()
		}
		g.doFrom("a", sampledFrom, func(_ *puppet, h host.Turn) error {
			mark(h, "turn")
			h.Go("later", func(k host.Task) error {
				oteltrace.SpanFromContext(k).SetAttributes(attribute.String("plan", "begun"))
				time.Sleep(time.Second)
				mark(k, "task")
				return nil
			})
			return nil
		})
		time.Sleep(2 * time.Second)
		for _, from := range []string{sampledFrom, unsampledFrom} {
			input := remember(glance(func(_ *puppetState, r host.Reader) error { mark(r.(context.Context), "query"); return nil }))
			if _, err := g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON, Input: input, Traceparent: from}); err != nil {
				t.Fatal(err)
			}
		}
		spans := g.spans("a", trace.ReadInput{TraceID: parentTrace})
		for name, want := range map[string]string{"turn do": "turn", "task later": "task", "query look": "query"} {
			s := named(t, spans, name)
			if s.Attributes["plan"] != want || s.End == nil {
				t.Errorf("%s is %+v", name, s)
			}
			outer, inner := named(t, spans, "outer "+want), named(t, spans, "inner "+want)
			if outer.ParentID != s.SpanID || inner.ParentID != outer.SpanID || outer.Scope != "shop" || inner.End == nil {
				t.Errorf("the spans in %s are %+v and %+v", name, outer, inner)
			}
		}
		if call, query := named(t, spans, "call p.look"), named(t, spans, "query look"); query.ParentID != call.SpanID {
			t.Errorf("the query is %+v, its call %+v", query, call)
		}
	})
}
