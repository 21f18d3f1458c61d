// Package collector sends spans and metrics to a collector of OpenTelemetry, by OTLP over HTTP.
package collector

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/traces"
)

const (
	maxQueued  = 8 << 20 // bytes of the spans queued for a collector
	maxRequest = 3 << 20 // bytes of spans in a request; collectors accept 4 MiB
)

// batching is how an exporter collects spans, with the defaults of OpenTelemetry's batch processor.
type batching struct {
	queue, batch   int
	delay, timeout time.Duration
}

var defaultBatching = batching{queue: 2048, batch: 512, delay: 5 * time.Second, timeout: 30 * time.Second}

// Exporter sends spans to a collector by OTLP over HTTP. Export does not wait: if the collector is
// slow, spans are dropped and counted. An Exporter has one goroutine, and Close waits for it.
type Exporter struct {
	client  uploader
	o       batching
	health  health
	dropped atomic.Uint64
	ctx     context.Context // of uploads
	cancel  context.CancelFunc
	wake    chan struct{} // a batch is full
	closing chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	queue  []queued
	bytes  int
	closed bool
}

type queued struct {
	resource *traces.Resource
	span     traces.Span
	size     int
}

// NewExporter returns the exporter configured by the OTEL_* variables of the environment. It is nil
// if they name no endpoint, or turn traces off with OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER. The
// protocols are http/protobuf and http/json. It logs when the collector begins to fail, and when it
// accepts spans again.
func NewExporter(log *slog.Logger) (*Exporter, error) {
	on, err := spans.enabled()
	if !on {
		return nil, err
	}
	o := defaultBatching
	for _, v := range [...]struct {
		name string
		set  func(n int)
	}{
		{"OTEL_BSP_MAX_QUEUE_SIZE", func(n int) { o.queue = n }},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", func(n int) { o.batch = n }},
		{"OTEL_BSP_SCHEDULE_DELAY", func(n int) { o.delay = time.Duration(n) * time.Millisecond }},
		{"OTEL_BSP_EXPORT_TIMEOUT", func(n int) { o.timeout = time.Duration(n) * time.Millisecond }},
	} {
		n, err := spans.positive(v.name)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			v.set(n)
		}
	}
	c, err := newClient(spans, "")
	if err != nil {
		return nil, err
	}
	return startExporter(c, o, log), nil
}

func startExporter(client uploader, o batching, log *slog.Logger) *Exporter {
	o.batch = min(o.batch, o.queue)
	e := &Exporter{client: client, o: o, health: health{log: log, what: "spans"},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.run()
	return e
}

// Export queues an ended span. It copies the span.
func (e *Exporter) Export(r *traces.Resource, s *traces.Span) {
	size := s.Size()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || size > maxRequest || len(e.queue) >= e.o.queue || e.bytes+size > maxQueued {
		e.dropped.Add(1)
		return
	}
	e.queue = append(e.queue, queued{r, s.Clone(), size})
	e.bytes += size
	if len(e.queue) >= e.o.batch {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// Dropped returns how many spans were not sent.
func (e *Exporter) Dropped() uint64 { return e.dropped.Load() }

// Close sends the queued spans, and waits for that until ctx ends. Spans not sent by then are
// dropped and counted.
func (e *Exporter) Close(ctx context.Context) error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.closing)
		e.client.end()
	}
	e.mu.Unlock()
	defer e.client.close()
	defer e.cancel()
	lost := e.Dropped()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		e.cancel()
		<-e.done
		if e.Dropped() == lost { // no spans were lost, as when a node fails to start
			return nil
		}
		return fmt.Errorf("traces: the last spans were not sent: %w", ctx.Err())
	}
}

// run sends batches until the exporter is closed and the queue is empty.
func (e *Exporter) run() {
	defer close(e.done)
	tick := time.NewTicker(e.o.delay)
	defer tick.Stop()
	known := uint64(0) // lost spans that were logged
	for closed := false; !closed; {
		select {
		case <-e.wake:
		case <-tick.C:
		case <-e.closing:
			closed = true
		}
		for {
			batch := e.take()
			if len(batch) == 0 {
				break
			}
			rejected, err := e.upload(batch)
			lost := e.dropped.Load() - known
			switch {
			case err != nil:
				rejected = int64(len(batch))
			case rejected > 0:
				err = fmt.Errorf("traces: the collector rejected %d of %d spans", rejected, len(batch))
			case lost > 0:
				err = fmt.Errorf("traces: %d spans did not fit into the queue", lost)
			}
			e.health.is(err)
			n := uint64(max(rejected, 0))
			e.dropped.Add(n)
			known += lost + n
		}
	}
}

// take removes a batch from the queue.
func (e *Exporter) take() []queued {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, size := 0, 0
	for n < len(e.queue) && n < e.o.batch && (n == 0 || size+e.queue[n].size <= maxRequest) {
		size += e.queue[n].size
		n++
	}
	batch := e.queue[:n:n]
	e.queue, e.bytes = e.queue[n:], e.bytes-size
	if len(e.queue) == 0 {
		e.queue = nil
	}
	return batch
}

func (e *Exporter) upload(batch []queued) (rejected int64, err error) {
	var groups []traces.Group
	index := map[*traces.Resource]int{}
	for i := range batch {
		r := batch[i].resource
		n, ok := index[r]
		if !ok {
			n = len(groups)
			index[r], groups = n, append(groups, traces.Group{Resource: r})
		}
		groups[n].Spans = append(groups[n].Spans, batch[i].span)
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.o.timeout)
	defer cancel()
	return e.client.upload(ctx, 0, groups)
}
