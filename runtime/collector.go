package runtime

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-run/cairn/runtime/internal/part/trace"
	"github.com/cairn-run/cairn/traces"
	"github.com/cairn-run/cairn/traces/collector"
)

// collectorTimeout is how long Close waits for a collector.
const collectorTimeout = 5 * time.Second

// instances is OpenTelemetry's namespace for instance ids that are derived from known facts.
var instances = uuid.MustParse("4d63009a-8d0f-11ee-aad7-4c796ed8e320")

// openCollector makes the exporters of spans and metrics that the environment configures. It also
// sets the attributes that name the sender: those of the environment, or else an id that is the
// same after each start in a directory.
func (r *Runtime) openCollector(ctx context.Context) (err error) {
	o := &r.options
	var fault error // matters only if there is a collector
	r.attributes, fault = traces.EnvironmentAttributes(ctx)
	id := uuid.New()
	if hostname, err := os.Hostname(); err == nil && o.Disk == nil {
		dir, _ := filepath.Abs(o.Dir)
		id = uuid.NewSHA1(instances, []byte(hostname+"\x00"+dir))
	}
	for _, a := range []traces.Attribute{traces.String("service.name", "cairn"),
		traces.String("service.instance.id", id.String())} {
		if !slices.ContainsFunc(r.attributes, func(b traces.Attribute) bool { return a.Key == b.Key }) {
			r.attributes = append(r.attributes, a)
		}
	}
	if !o.Traces.Off {
		if r.exporter, err = collector.NewExporter(o.Logger); err != nil {
			return fmt.Errorf("runtime: %w", err)
		}
	}
	if r.metrics, err = collector.NewMetricExporter(r.registry.Gather, r.attributes, o.Logger); err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	if fault != nil && (r.exporter != nil || r.metrics != nil) {
		return fmt.Errorf("runtime: %w", fault)
	}
	return nil
}

// traceOptions returns the options of the part that records spans.
func (r *Runtime) traceOptions() trace.Options {
	o := &r.options.Traces
	t := trace.Options{Off: o.Off, PerSecond: o.PerSecond, Share: o.Share, Slow: o.Slow,
		Types: o.Types, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes}
	if r.exporter != nil {
		t.Exporter, t.Attributes = r.exporter, r.attributes
	}
	return t
}

// unsent returns how many spans did not reach the collector.
func (r *Runtime) unsent() float64 {
	if r.exporter == nil {
		return 0
	}
	return float64(r.exporter.Dropped())
}

// closeCollector sends the last spans and metrics at the same time. Those not sent within the
// timeout are lost, and it logs that.
func (r *Runtime) closeCollector(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var both sync.WaitGroup
	end := func(what string, close func(context.Context) error) {
		both.Go(func() {
			if err := close(ctx); err != nil && timeout > 0 {
				r.options.Logger.Warn("the last "+what+" did not reach the collector", "error", err)
			}
		})
	}
	if r.exporter != nil {
		end("spans", r.exporter.Close)
	}
	if r.metrics != nil {
		end("metrics", r.metrics.Close)
	}
	both.Wait()
}
