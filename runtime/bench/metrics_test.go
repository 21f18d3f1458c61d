package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cairn-run/cairn/traces"
	"github.com/cairn-run/cairn/traces/collector"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// TestCollectorsDecodeMetrics decodes both forms of OTLP with the decoder of the OpenTelemetry
// collector.
func TestCollectorsDecodeMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector()) // has a summary
	turns := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_type_turns_total", Help: "Turns <b>."}, []string{"type"})
	turns.WithLabelValues("cell \u2028").Add(3)
	wakes := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_wake_seconds", Buckets: []float64{1, 2}})
	for _, v := range []float64{0.5, 1, 1.5, 9} {
		wakes.Observe(v)
	}
	awake := prometheus.NewGauge(prometheus.GaugeOpts{Name: "cairn_actors_awake"})
	awake.Set(-2.5)
	registry.MustRegister(turns, wakes, awake)

	for form, decode := range map[string]func([]byte) (pmetric.Metrics, error){
		"http/protobuf": (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics,
		"http/json":     (&pmetric.JSONUnmarshaler{DisallowUnknownFields: true}).UnmarshalMetrics,
	} {
		t.Run(form, func(t *testing.T) {
			var body []byte
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) }))
			defer server.Close()
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", server.URL)
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", form)
			e, err := collector.NewMetricExporter(registry.Gather,
				[]traces.Attribute{traces.String("service.name", "shop")}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			data, err := decode(body)
			if err != nil {
				t.Fatal(err)
			}
			r := data.ResourceMetrics().At(0)
			got := map[string]pmetric.Metric{}
			for _, m := range r.ScopeMetrics().At(0).Metrics().All() {
				got[m.Name()] = m
			}
			check := func(what string, got, want any) {
				t.Helper()
				if got != want {
					t.Errorf("%s is %v, want %v", what, got, want)
				}
			}
			name, _ := r.Resource().Attributes().Get("service.name")
			check("the service", name.Str(), "shop")
			sum := got["cairn_type_turns_total"].Sum()
			label, _ := sum.DataPoints().At(0).Attributes().Get("type")
			check("the type", label.Str(), "cell \u2028")
			check("the sum", sum.DataPoints().At(0).DoubleValue(), 3.0)
			check("its form",
				[2]bool{sum.IsMonotonic(), sum.AggregationTemporality() == pmetric.AggregationTemporalityCumulative}, [2]bool{true, true})
			check("its start", sum.DataPoints().At(0).StartTimestamp() > 0 &&
				sum.DataPoints().At(0).Timestamp() >= sum.DataPoints().At(0).StartTimestamp(), true)
			check("its description", got["cairn_type_turns_total"].Description(), "Turns <b>.")
			check("the gauge", got["cairn_actors_awake"].Gauge().DataPoints().At(0).DoubleValue(), -2.5)
			h := got["cairn_wake_seconds"].Histogram().DataPoints().At(0)
			check("the unit", got["cairn_wake_seconds"].Unit(), "s")
			check("the bounds", [2]float64{h.ExplicitBounds().At(0), h.ExplicitBounds().At(1)}, [2]float64{1, 2})
			check("the buckets", [3]uint64{h.BucketCounts().At(0), h.BucketCounts().At(1), h.BucketCounts().At(2)}, [3]uint64{2, 1, 1})
			check("the histogram's sum", h.Sum(), 12.0)
			check("the summary", got["go_gc_duration_seconds"].Type(), pmetric.MetricTypeSummary)
		})
	}
}
