package runtime_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// openWith starts a node in a directory, with its log.
func openWith(t *testing.T, dir string, drain time.Duration) (*runtime.Runtime, *strings.Builder) {
	t.Helper()
	log := &strings.Builder{}
	r, err := runtime.Open(t.Context(), runtime.Options{
		Dir: dir, Actors: []actor.Definition{botDefinition(actor.Spec[bot]{})}, DrainTimeout: drain, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	must(t, err)
	return r, log
}

func TestANodeSendsItsMetricsToACollector(t *testing.T) {
	var mu sync.Mutex
	sums, instances := map[string]float64{}, []string{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/metrics" {
			return
		}
		var m metricspb.MetricsData
		errorIf(t, err != nil || proto.Unmarshal(body, &m) != nil, "the body of %d bytes is not metrics, %v", len(body), err)
		mu.Lock()
		defer mu.Unlock()
		for _, a := range m.ResourceMetrics[0].Resource.Attributes {
			if a.Key == "service.instance.id" {
				instances = append(instances, a.Value.GetStringValue())
			}
		}
		for _, metric := range m.ResourceMetrics[0].ScopeMetrics[0].Metrics {
			for _, p := range metric.GetSum().GetDataPoints() {
				sums[metric.Name] += p.GetAsDouble()
			}
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	dir := t.TempDir()
	for range 2 {
		r, log := openWith(t, dir, 0)
		mustDo(t, r, "a", add(1))
		must(t, r.Close())
		errorIf(t, strings.Contains(log.String(), "collector"), "the log is %s", log)
	}
	mu.Lock()
	defer mu.Unlock()
	errorIf(t, sums["cairn_commits_total"] < 2 || sums["cairn_store_commits_total"] < 2, "the collector got %v", sums)
	errorIf(t, len(slices.Compact(instances)) != 1 || len(instances[0]) != 36, "the instances are %v", instances)
}

// TestVariablesCountOnlyIfTheyNameACollector: those of the other programs of a machine must not stop a node that sends nothing.
func TestVariablesCountOnlyIfTheyNameACollector(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "shop")
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL"} {
		t.Setenv(name, "none")
	}
	dir := t.TempDir()
	r, _ := openWith(t, dir, 0)
	must(t, r.Close())
	for name, value := range map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "1000", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"} {
		t.Setenv(name, value)
	}
	_, err := runtime.Open(t.Context(), runtime.Options{Dir: dir, Actors: []actor.Definition{botDefinition(actor.Spec[bot]{})}})
	errorIf(t, err == nil || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES"), "Open returned %v", err)
}

func TestACollectorThatHangsFailsNoClose(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	defer server.Close()
	defer close(gone)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	r, log := openWith(t, t.TempDir(), 3*time.Second) // which is also what a slow machine has to close the rest
	mustDo(t, r, "a", add(1))
	must(t, r.Close())
	errorIf(t, !strings.Contains(log.String(), "the last metrics did not reach the collector"), "the log is %s", log)
}
