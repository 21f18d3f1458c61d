package collector

import (
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cairn-run/cairn/traces"
)

var scope = &commonpb.InstrumentationScope{Name: traces.RuntimeScope}

// otlpMetrics returns metrics in the form of OTLP, under the same names. The mapping is that of
// OpenTelemetry's "Prometheus and OpenMetrics Compatibility"; bounds of histograms are classic
// ones. A value without a creation time counts since start, or since the process began if it is of
// Go's runtime or of the process. A metric larger than a request is divided into several with a
// part of its points.
func otlpMetrics(families []*dto.MetricFamily, start, now time.Time) (list []*metricspb.Metric) {
	began := nanoseconds(start)
	for _, f := range families {
		if f.GetName() == "process_start_time_seconds" && len(f.Metric) == 1 {
			began = uint64(f.Metric[0].GetGauge().GetValue() * 1e9)
		}
	}
	for _, f := range families {
		p := points{nanoseconds(now), nanoseconds(start), f.Metric}
		if strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_") {
			p.start = began
		}
		list = p.metrics(list, f)
	}
	return list
}

// metrics appends the metrics of a family with these points.
func (p *points) metrics(list []*metricspb.Metric, f *dto.MetricFamily) []*metricspb.Metric {
	m := &metricspb.Metric{Name: f.GetName(), Description: f.GetHelp(), Unit: unitOf(f.GetName())}
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: p.counters(),
			IsMonotonic: true, AggregationTemporality: cumulative}}
	case dto.MetricType_HISTOGRAM:
		m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{DataPoints: p.histograms(), AggregationTemporality: cumulative}}
	case dto.MetricType_SUMMARY:
		m.Data = &metricspb.Metric_Summary{Summary: &metricspb.Summary{DataPoints: p.summaries()}}
	case dto.MetricType_GAUGE, dto.MetricType_UNTYPED:
		m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: p.gauges()}}
	default:
		return list
	}
	if n := len(p.list); n > 1 && proto.Size(m) > maxRequest {
		first, rest := *p, *p
		first.list, rest.list = p.list[:n/2], p.list[n/2:]
		return rest.metrics(first.metrics(list, f), f)
	}
	return append(list, m)
}

const cumulative = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

// unitOf returns the unit, in UCUM's form, from the end of a metric's name.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, u := range [...]struct{ suffix, unit string }{{"_seconds", "s"}, {"_bytes", "By"}, {"_ratio", "1"}} {
		if strings.HasSuffix(name, u.suffix) {
			return u.unit
		}
	}
	return ""
}

func nanoseconds(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

// points are the values of one metric.
type points struct {
	now, start uint64
	list       []*dto.Metric
}

// since returns the time from which a value counts.
func (p *points) since(created *timestamppb.Timestamp) uint64 {
	if created == nil {
		return p.start
	}
	return nanoseconds(created.AsTime())
}

func labels(m *dto.Metric) []*commonpb.KeyValue {
	list := make([]*commonpb.KeyValue, len(m.Label))
	for i, l := range m.Label {
		list[i] = &commonpb.KeyValue{Key: l.GetName(),
			Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: l.GetValue()}}}
	}
	return list
}

func (p *points) counters() []*metricspb.NumberDataPoint {
	list := make([]*metricspb.NumberDataPoint, len(p.list))
	for i, m := range p.list {
		list[i] = &metricspb.NumberDataPoint{Attributes: labels(m),
			StartTimeUnixNano: p.since(m.GetCounter().GetCreatedTimestamp()), TimeUnixNano: p.now,
			Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: m.GetCounter().GetValue()}}
	}
	return list
}

func (p *points) gauges() []*metricspb.NumberDataPoint {
	list := make([]*metricspb.NumberDataPoint, len(p.list))
	for i, m := range p.list {
		value := m.GetGauge().GetValue()
		if m.Untyped != nil {
			value = m.Untyped.GetValue()
		}
		list[i] = &metricspb.NumberDataPoint{Attributes: labels(m), TimeUnixNano: p.now,
			Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: value}}
	}
	return list
}

func (p *points) histograms() []*metricspb.HistogramDataPoint {
	list := make([]*metricspb.HistogramDataPoint, len(p.list))
	for i, m := range p.list {
		h := m.GetHistogram()
		d := &metricspb.HistogramDataPoint{Attributes: labels(m),
			StartTimeUnixNano: p.since(h.GetCreatedTimestamp()), TimeUnixNano: p.now,
			Count: h.GetSampleCount(), Sum: h.SampleSum}
		below := uint64(0) // in Prometheus a bucket includes the lower ones, in OTLP it does not
		for _, b := range h.Bucket {
			if math.IsInf(b.GetUpperBound(), 1) {
				continue
			}
			d.ExplicitBounds = append(d.ExplicitBounds, b.GetUpperBound())
			d.BucketCounts = append(d.BucketCounts, b.GetCumulativeCount()-below)
			below = b.GetCumulativeCount()
		}
		d.BucketCounts = append(d.BucketCounts, d.Count-below)
		list[i] = d
	}
	return list
}

func (p *points) summaries() []*metricspb.SummaryDataPoint {
	list := make([]*metricspb.SummaryDataPoint, len(p.list))
	for i, m := range p.list {
		s := m.GetSummary()
		d := &metricspb.SummaryDataPoint{Attributes: labels(m),
			StartTimeUnixNano: p.since(s.GetCreatedTimestamp()), TimeUnixNano: p.now,
			Count: s.GetSampleCount(), Sum: s.GetSampleSum()}
		for _, q := range s.Quantile {
			d.QuantileValues = append(d.QuantileValues,
				&metricspb.SummaryDataPoint_ValueAtQuantile{Quantile: q.GetQuantile(), Value: q.GetValue()})
		}
		// A quantile without observations is NaN, which collectors refuse in JSON.
		d.QuantileValues = slices.DeleteFunc(d.QuantileValues,
			func(q *metricspb.SummaryDataPoint_ValueAtQuantile) bool { return math.IsNaN(q.Value) })
		list[i] = d
	}
	return list
}
