package collector

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/cairn-run/cairn/traces"
)

// MetricExporter sends all metrics to a collector by OTLP over HTTP, periodically. A collector that
// is slow or away delays nothing. A MetricExporter has one goroutine, and Close waits for it.
type MetricExporter struct {
	client   *client
	gather   func() ([]*dto.MetricFamily, error)
	resource *resourcepb.Resource
	health   health
	start    time.Time // of sums without a start time
	interval time.Duration
	timeout  time.Duration
	ctx      context.Context // of uploads
	cancel   context.CancelFunc
	closing  chan struct{}
	done     chan struct{}
}

// NewMetricExporter returns the exporter configured by the OTEL_* variables of the environment. It
// is nil if they name no endpoint, or turn metrics off with OTEL_SDK_DISABLED or
// OTEL_METRICS_EXPORTER. The protocols are http/protobuf and http/json, and sums are cumulative.
// gather returns the metrics in Prometheus' form; attributes describe the program. It logs when the
// collector begins to fail, and when it accepts metrics again.
func NewMetricExporter(gather func() ([]*dto.MetricFamily, error), attributes []traces.Attribute,
	log *slog.Logger) (*MetricExporter, error) {
	e, err := newMetricExporter(gather, attributes, log)
	if e != nil {
		go e.run()
	}
	return e, err
}

func newMetricExporter(gather func() ([]*dto.MetricFamily, error), attributes []traces.Attribute,
	log *slog.Logger) (*MetricExporter, error) {
	on, err := metrics.enabled()
	if !on {
		return nil, err
	}
	if value, name := metrics.variable("TEMPORALITY_PREFERENCE"); value != "" &&
		!strings.EqualFold(value, "cumulative") {
		return nil, fmt.Errorf("metrics: %s is %q: sums are cumulative; the cumulativetodelta processor of a collector makes others of them", name, value)
	}
	e := &MetricExporter{
		gather: gather, resource: traces.Protobuf(0,
			traces.Group{Resource: &traces.Resource{Attributes: attributes}})[0].Resource,
		health: health{log: log, what: "metrics"}, start: time.Now(), interval: time.Minute, timeout: 30 * time.Second,
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	for name, d := range map[string]*time.Duration{"OTEL_METRIC_EXPORT_INTERVAL": &e.interval,
		"OTEL_METRIC_EXPORT_TIMEOUT": &e.timeout} {
		n, err := metrics.positive(name)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			*d = time.Duration(n) * time.Millisecond
		}
	}
	if e.client, err = newClient(metrics, ""); err != nil {
		return nil, err
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// Close sends the metrics a last time, and waits for that until ctx ends. Call it only once.
func (e *MetricExporter) Close(ctx context.Context) error {
	defer e.client.close()
	defer e.cancel()
	if ctx.Err() != nil {
		e.cancel()
	}
	close(e.closing)
	e.client.end()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		e.cancel()
		<-e.done
		return fmt.Errorf("metrics: the last of them were not sent: %w", ctx.Err())
	}
}

// run sends the metrics until the exporter is closed.
func (e *MetricExporter) run() {
	defer close(e.done)
	tick := time.NewTicker(e.interval)
	defer tick.Stop()
	for closed := false; !closed; {
		select {
		case <-tick.C:
		case <-e.closing:
			closed = true
		}
		if e.ctx.Err() != nil {
			return
		}
		e.health.is(e.export())
	}
}

// export sends the metrics once. If some cannot be gathered, it sends the others.
func (e *MetricExporter) export() error {
	ctx, cancel := context.WithTimeout(e.ctx, e.timeout)
	defer cancel()
	families, fault := e.gather()
	for _, list := range batches(otlpMetrics(families, e.start, time.Now())) {
		rejected, err := e.client.uploadMetrics(ctx,
			&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
				Resource: e.resource, ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: scope, Metrics: list}},
			}}})
		if err == nil && rejected > 0 {
			err = fmt.Errorf("metrics: the collector rejected %d values", rejected)
		}
		if err != nil {
			return err
		}
	}
	return fault
}

// batches divides metrics into requests that collectors accept.
func batches(list []*metricspb.Metric) (out [][]*metricspb.Metric) {
	first, size := 0, 0
	for i, m := range list {
		n := proto.Size(m)
		if size += n; size > maxRequest && i > first {
			out, first, size = append(out, list[first:i]), i, n
		}
	}
	if first < len(list) {
		out = append(out, list[first:])
	}
	return out
}

// health logs when a collector begins to fail, and when it recovers.
type health struct {
	log  *slog.Logger
	what string // the name of the data
	bad  bool
}

func (h *health) is(err error) {
	switch bad := err != nil; {
	case bad && !h.bad:
		h.log.Warn("the collector does not take "+h.what, "error", err)
	case h.bad && !bad:
		h.log.Info("the collector takes " + h.what + " again")
	}
	h.bad = err != nil
}

// enabled reports whether the environment names a collector for the signal and does not turn it
// off.
func (s signal) enabled() (bool, error) {
	endpoint, _ := s.variable("ENDPOINT")
	if endpoint == "" || strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true") {
		return false, nil
	}
	name := "OTEL_" + s.upper() + "_EXPORTER"
	kinds := strings.TrimSpace(os.Getenv(name))
	if kinds == "" {
		return true, nil
	}
	on := false
	for kind := range strings.SplitSeq(kinds, ",") {
		switch kind = strings.TrimSpace(kind); {
		case kind == "otlp":
			on = true
		case kind == "none", kind == "prometheus" && s == metrics: // GET /metrics exists in any case
		default:
			return false, fmt.Errorf("%s: %s is %q: the exporters are otlp and none", s, name, kinds)
		}
	}
	return on, nil
}
