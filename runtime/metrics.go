package runtime

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/engine"
)

// storeMetrics shows the store's figures as Prometheus metrics.
type storeMetrics struct{ store *engine.Store }

// storeMetric is one of them.
type storeMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*engine.Metrics) float64
}

func storeMetricTable() []storeMetric {
	m := func(name, help string, kind prometheus.ValueType, value func(*engine.Metrics) float64) storeMetric {
		return storeMetric{prometheus.NewDesc("cairn_store_"+name, help, nil, nil), kind, value}
	}
	return []storeMetric{
		m("commits_total", "Commits applied.", prometheus.CounterValue, func(m *engine.Metrics) float64 { return float64(m.Commits) }),
		m("commit_bytes_total", "Bytes of their batches.", prometheus.CounterValue, func(m *engine.Metrics) float64 { return float64(m.CommitBytes) }),
		m("commits_waiting", "Commits that are not durable yet.", prometheus.GaugeValue, func(m *engine.Metrics) float64 { return float64(m.Waiting) }),
		m("stalls_total", "Times that writes were held back until compactions caught up.", prometheus.CounterValue, func(m *engine.Metrics) float64 { return float64(m.Stalls) }),
		m("disk_bytes", "Bytes of all files of the store.", prometheus.GaugeValue, func(m *engine.Metrics) float64 { return float64(m.DiskBytes) }),
		m("log_bytes", "Live bytes of the write-ahead log.", prometheus.GaugeValue, func(m *engine.Metrics) float64 { return float64(m.LogBytes) }),
		m("memtable_bytes", "Bytes of the memtables.", prometheus.GaugeValue, func(m *engine.Metrics) float64 { return float64(m.MemTableBytes) }),
		m("cache_bytes", "Bytes in the block cache.", prometheus.GaugeValue, func(m *engine.Metrics) float64 { return float64(m.CacheBytes) }),
		m("cache_hits_total", "Blocks found in the cache.", prometheus.CounterValue, func(m *engine.Metrics) float64 { return float64(m.CacheHits) }),
		m("cache_misses_total", "Blocks read from disk.", prometheus.CounterValue, func(m *engine.Metrics) float64 { return float64(m.CacheMisses) }),
		m("read_amplification", "Sorted runs that a read may have to look at.", prometheus.GaugeValue, func(m *engine.Metrics) float64 { return float64(m.ReadAmp) }),
		m("compaction_debt_bytes", "Bytes that compactions are behind.", prometheus.GaugeValue, func(m *engine.Metrics) float64 { return float64(m.DebtBytes) }),
	}
}

// Describe implements prometheus.Collector.
func (s storeMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range storeMetricTable() {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (s storeMetrics) Collect(ch chan<- prometheus.Metric) {
	v := s.store.Metrics()
	for _, m := range storeMetricTable() {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&v))
	}
}
