package collector

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/cairn-run/cairn/traces"
)

// families has one metric of each type, in the text form of Prometheus' messages.
func families(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	var list []*dto.MetricFamily
	for _, text := range []string{
		`name:"cairn_commit_bytes_total" help:"Bytes." type:COUNTER metric:{counter:{value:7 created_timestamp:{seconds:5}}} metric:{label:{name:"type" value:"cell"} counter:{value:1.5}}`,
		`name:"cairn_awake" type:GAUGE metric:{gauge:{value:-2}}`,
		`name:"other" type:UNTYPED metric:{untyped:{value:3}}`,
		`name:"cairn_wake_seconds" type:HISTOGRAM metric:{histogram:{sample_count:9 sample_sum:4.5 bucket:{cumulative_count:2 upper_bound:0.1} bucket:{cumulative_count:6 upper_bound:1} bucket:{cumulative_count:9 upper_bound:inf}}}`,
		`name:"empty_seconds" type:HISTOGRAM metric:{histogram:{sample_count:2 sample_sum:1}}`,
		`name:"go_gc_seconds" type:SUMMARY metric:{summary:{sample_count:3 sample_sum:6 quantile:{quantile:0.5 value:2} quantile:{quantile:1 value:nan}}}`,
	} {
		f := &dto.MetricFamily{}
		must(t, prototext.Unmarshal([]byte(text), f))
		list = append(list, f)
	}
	return list
}

func TestMetricsInTheFormOfOTLP(t *testing.T) {
	got := otlpMetrics(families(t), time.Unix(0, 1), time.Unix(0, 9))
	want := []string{
		`name:"cairn_commit_bytes_total" description:"Bytes." unit:"By" sum:{aggregation_temporality:AGGREGATION_TEMPORALITY_CUMULATIVE is_monotonic:true data_points:{start_time_unix_nano:5000000000 time_unix_nano:9 as_double:7} data_points:{attributes:{key:"type" value:{string_value:"cell"}} start_time_unix_nano:1 time_unix_nano:9 as_double:1.5}}`,
		`name:"cairn_awake" gauge:{data_points:{time_unix_nano:9 as_double:-2}}`,
		`name:"other" gauge:{data_points:{time_unix_nano:9 as_double:3}}`,
		`name:"cairn_wake_seconds" unit:"s" histogram:{aggregation_temporality:AGGREGATION_TEMPORALITY_CUMULATIVE data_points:{start_time_unix_nano:1 time_unix_nano:9 count:9 sum:4.5 explicit_bounds:[0.1,1] bucket_counts:[2,4,3]}}`,
		`name:"empty_seconds" unit:"s" histogram:{aggregation_temporality:AGGREGATION_TEMPORALITY_CUMULATIVE data_points:{start_time_unix_nano:1 time_unix_nano:9 count:2 sum:1 bucket_counts:2}}`,
		`name:"go_gc_seconds" unit:"s" summary:{data_points:{start_time_unix_nano:1 time_unix_nano:9 count:3 sum:6 quantile_values:{quantile:0.5 value:2}}}`,
	}
	fatalIf(t, len(got) != len(want), "%d metrics, want %d", len(got), len(want))
	for i, text := range want {
		m := &metricspb.Metric{}
		must(t, prototext.Unmarshal([]byte(text), m))
		errorIf(t, !proto.Equal(got[i], m), "got %v\nwant %v", got[i], m)
	}
}

// exporter returns an exporter with a transport, and its log. It is not running yet.
func exporter(t *testing.T, transport http.RoundTripper, gather func() ([]*dto.MetricFamily, error)) (*MetricExporter, *strings.Builder) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector/base")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "10000")
	t.Setenv("OTEL_METRIC_EXPORT_TIMEOUT", "2000")
	log := &strings.Builder{}
	e, err := newMetricExporter(gather, []traces.Attribute{traces.String("service.name", "shop")}, slog.New(slog.NewTextHandler(log, nil)))
	must(t, err)
	e.client.http.Transport = transport
	return e, log
}

func TestMetricsAreSentAgainAndAgainAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replies{list: []*http.Response{reply(200)}}
		e, log := exporter(t, r, func() ([]*dto.MetricFamily, error) { return families(t), nil })
		begun := time.Now()
		go e.run()
		time.Sleep(25 * time.Second)
		err := e.Close(t.Context())
		errorIf(t, err != nil || log.Len() > 0, "Close returned %v; the log is %s", err, log)
		var at []time.Duration
		for i, body := range r.bodies {
			at = append(at, r.times[i].Sub(begun))
			var m metricspb.MetricsData
			if err := proto.Unmarshal([]byte(body), &m); err != nil || len(m.ResourceMetrics[0].ScopeMetrics[0].Metrics) != 6 ||
				m.ResourceMetrics[0].Resource.Attributes[0].Value.GetStringValue() != "shop" ||
				m.ResourceMetrics[0].ScopeMetrics[0].Scope.Name != "cairn" {
				t.Errorf("the collector got %v, %v", &m, err)
			}
		}
		if !slices.Equal(at, []time.Duration{10 * time.Second, 20 * time.Second, 25 * time.Second}) ||
			e.client.url != "http://collector/base/v1/metrics" {
			t.Errorf("sent after %v to %s", at, e.client.url)
		}
	})
}

// hangs is a transport to a collector that never replies.
type hangs struct{ requests int }

func (h *hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	h.requests++
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestACollectorThatHangsHoldsMetricsUpForTheirTimeoutOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hangs{}
		e, log := exporter(t, h, func() ([]*dto.MetricFamily, error) { return families(t), nil })
		go e.run()
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if h.requests != 3 || strings.Count(log.String(), "the collector does not take metrics") != 1 {
			t.Errorf("%d requests; the log is %s", h.requests, log)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := e.Close(ctx)
		errorIf(t, !errors.Is(err, context.DeadlineExceeded), "Close returned %v", err)
	})
}

func TestFaultsOfMetricsAreLoggedOnceUntilTheyEnd(t *testing.T) {
	r := &replies{list: []*http.Response{reply(400), reply(400), reply(200)}}
	e, log := exporter(t, r, func() ([]*dto.MetricFamily, error) {
		if len(r.bodies) == 3 {
			return families(t)[:1], errors.New("queues cannot be read")
		}
		return families(t), nil
	})
	for i, want := range [...]string{"replied Bad Request", "", "takes metrics again", "queues cannot be read", "takes metrics again"} {
		log.Reset()
		e.health.is(e.export())
		errorIf(t, !strings.Contains(log.String(), want) || log.Len() > 0 != (want != ""), "round %d: the log is %q", i, log)
	}
	errorIf(t, len(r.bodies) != 5, "%d requests", len(r.bodies))
}

func TestAMetricThatIsLargerThanARequestIsDivided(t *testing.T) {
	const points = 7
	f := &dto.MetricFamily{Name: proto.String("large_total"), Type: dto.MetricType_COUNTER.Enum()}
	for i := range points {
		label := &dto.LabelPair{Name: proto.String("text"), Value: proto.String(strings.Repeat("x", maxRequest/3))}
		f.Metric = append(f.Metric, &dto.Metric{Label: []*dto.LabelPair{label}, Counter: &dto.Counter{Value: proto.Float64(float64(i))}})
	}
	r := &replies{list: []*http.Response{reply(200)}}
	e, _ := exporter(t, r, func() ([]*dto.MetricFamily, error) { return []*dto.MetricFamily{f}, nil })
	must(t, e.export())
	var values []float64
	for _, body := range r.bodies {
		var m metricspb.MetricsData
		err := proto.Unmarshal([]byte(body), &m)
		errorIf(t, err != nil || len(body) > maxRequest+1000, "a request of %d bytes: %v", len(body), err)
		for _, part := range m.ResourceMetrics[0].ScopeMetrics[0].Metrics {
			errorIf(t, part.Name != "large_total" || !part.GetSum().GetIsMonotonic(), "a part is called %q", part.Name)
			for _, p := range part.GetSum().DataPoints {
				values = append(values, p.GetAsDouble())
			}
		}
	}
	want := []float64{0, 1, 2, 3, 4, 5, 6}
	errorIf(t, !slices.Equal(values, want), "the values are %v, want %v", values, want)
}

// TestValuesBeginWithWhatCountsThem: a rate since the start of the node must not include earlier
// counts of the process.
func TestValuesBeginWithWhatCountsThem(t *testing.T) {
	list := families(t)[:1]
	for _, name := range []string{"process_cpu_seconds_total", "go_memstats_frees_total", "gone_total"} {
		list = append(list,
			&dto.MetricFamily{Name: &name, Type: dto.MetricType_COUNTER.Enum(),
				Metric: []*dto.Metric{{Counter: &dto.Counter{Value: proto.Float64(1)}}}})
	}
	starts := func() (all []uint64) {
		for _, m := range otlpMetrics(list, time.Unix(7, 0), time.Unix(9, 0)) {
			for _, p := range m.GetSum().GetDataPoints() {
				all = append(all, p.StartTimeUnixNano/1e9)
			}
		}
		return all
	}
	got, want := starts(), []uint64{5, 7, 7, 7, 7}
	errorIf(t, !slices.Equal(got, want), "without the start of the process values begin at %v, want %v", got, want)
	list = append(list, &dto.MetricFamily{Name: proto.String("process_start_time_seconds"), Type: dto.MetricType_GAUGE.Enum(),
		Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: proto.Float64(3)}}}})
	if got, want := starts(), []uint64{5, 7, 3, 3, 7}; !slices.Equal(got, want) {
		t.Errorf("values begin at %v, want %v", got, want)
	}
}

func TestMetricsAsJSON(t *testing.T) {
	r := &replies{list: []*http.Response{reply(200)}}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	e, _ := exporter(t, r, func() ([]*dto.MetricFamily, error) { return families(t), nil })
	must(t, e.export())
	var m metricspb.MetricsData
	if err := protojson.Unmarshal([]byte(r.bodies[0]), &m); err != nil ||
		len(m.ResourceMetrics[0].ScopeMetrics[0].Metrics) != 6 || !strings.Contains(r.bodies[0], "emporality\":2") {
		t.Errorf("the body is %s, %v", r.bodies[0], err)
	}
}
