package collector

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/traces"
)

// collector is a client that keeps its uploads.
type collector struct {
	mu      sync.Mutex
	batches [][]traces.Group
	send    func(ctx context.Context) error
	rejects int64
}

func (c *collector) end()   {}
func (c *collector) close() {}

func (c *collector) upload(ctx context.Context, _ int64, groups []traces.Group) (int64, error) {
	c.mu.Lock()
	c.batches = append(c.batches, groups)
	c.mu.Unlock()
	if c.send != nil {
		return 0, c.send(ctx)
	}
	return c.rejects, nil
}

// count returns the numbers of spans in the uploads.
func (c *collector) count() (counts []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.batches {
		n := 0
		for _, g := range b {
			n += len(g.Spans)
		}
		counts = append(counts, n)
	}
	return counts
}

func TestSpansAreExportedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		e := startExporter(c, batching{queue: 100, batch: 10, delay: 5 * time.Second, timeout: time.Second}, quiet)
		one, two := &traces.Resource{Attributes: []traces.Attribute{traces.String("k", "1")}}, &traces.Resource{}
		b := traces.NewBuffer(traces.Options{Incarnation: 1, Resource: one, Exporter: e})
		for i := range 10 {
			b.Add(made(i+1, hour0, hour0+1))
		}
		synctest.Wait()
		got := c.count()
		errorIf(t, len(got) != 1 || got[0] != 10, "a full batch: %v", got)
		s := made(11, hour0, hour0+1)
		e.Export(two, &s)
		b.Add(s)
		time.Sleep(6 * time.Second) // virtual
		synctest.Wait()
		if got := c.count(); len(got) != 2 || got[1] != 2 || len(c.batches[1]) != 2 {
			t.Errorf("after the delay: %v", got)
		}
		e.Export(two, &s)
		err := e.Close(t.Context())
		errorIf(t, err != nil, "%v", err)
		if got := c.count(); len(got) != 3 || e.Dropped() != 0 {
			t.Errorf("at the end: %v, dropped %d", got, e.Dropped())
		}
		e.Export(two, &s)
		errorIf(t, e.Dropped() != 1, "dropped %d after the end", e.Dropped())
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestACollectorThatHangsBlocksNothing: spans are dropped and counted, and Close ends with its
// context.
func TestACollectorThatHangsBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{send: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		var log strings.Builder
		e := startExporter(c, batching{queue: 20, batch: 10, delay: time.Second, timeout: time.Hour},
			slog.New(slog.NewTextHandler(&log, nil)))
		s := made(1, hour0, hour0+1)
		for range 10 {
			e.Export(nil, &s)
		}
		synctest.Wait() // the upload hangs
		for range 100 {
			e.Export(nil, &s)
		}
		errorIf(t, e.Dropped() != 80, "dropped %d", e.Dropped())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := e.Close(ctx)
		errorIf(t, !errors.Is(err, context.DeadlineExceeded), "Close returned %v", err)
		if e.Dropped() != 110 || strings.Count(log.String(), "the collector does not take spans") != 1 {
			t.Errorf("dropped %d at the end; the log is %s", e.Dropped(), log.String())
		}
	})
}

// A slow collector fails no request, so the loss itself is logged.
func TestSpansThatAreLostWithoutAFaultAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{send: func(context.Context) error { time.Sleep(time.Second); return nil }}
		var log strings.Builder
		e := startExporter(c, batching{queue: 20, batch: 10, delay: time.Second, timeout: time.Hour},
			slog.New(slog.NewTextHandler(&log, nil)))
		s := made(1, hour0, hour0+1)
		for range 100 {
			e.Export(nil, &s)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		c.send, c.rejects = nil, 1
		e.Export(nil, &s)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		c.rejects = 0
		e.Export(nil, &s)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		want := []string{"spans did not fit into the queue", "takes spans again", "rejected 1 of 1 spans", "takes spans again"}
		errorIf(t, !slices.EqualFunc(lines, want, strings.Contains), "the log is %s", log.String())
		err := e.Close(t.Context())
		errorIf(t, err != nil, "%v", err)
	})
}

func TestClosingWithoutSpansIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 { // it is random which of two ends Close sees first
			must(t, startExporter(&collector{}, defaultBatching, quiet).Close(ctx))
		}
	})
}

func TestQueuesAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{send: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		e := startExporter(c, batching{queue: 100_000, batch: 100_000, delay: time.Hour, timeout: time.Hour}, quiet)
		s := made(1, hour0, hour0+1)
		s.Attributes = []traces.Attribute{traces.String("text", strings.Repeat("x", 4000))}
		for range 5000 {
			e.Export(nil, &s)
		}
		errorIf(t, e.bytes > maxQueued || e.Dropped() == 0, "%d bytes wait, dropped %d", e.bytes, e.Dropped())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := e.Close(ctx)
		errorIf(t, !errors.Is(err, context.Canceled) || e.Dropped() != 5000, "Close returned %v, dropped %d", err, e.Dropped())
	})
}

func TestTheEnvironmentHasAttributes(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test %ff")
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	got, err := traces.EnvironmentAttributes(context.Background())
	if err != nil || len(got) != 2 || got[0] != traces.String("deployment.environment.name", "test \uFFFD") ||
		got[1] != traces.String("service.name", "shop") {
		t.Errorf("the attributes are %v, %v", got, err)
	}
}
