package runtime

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/engine"
)

// storeMetrics shows the store's figures as Prometheus metrics.
type storeMetrics struct{ store *engine.Store }

// A storeMetric is one figure of the store.
type storeMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*engine.Metrics) float64
}

func storeMetricTable() []storeMetric {
	m := func(name, help string, kind prometheus.ValueType, value func(*engine.Metrics) float64) storeMetric {
		return storeMetric{storeDesc(name, help), kind, value}
	}
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	return []storeMetric{
		m("commits_total", "Commits applied.", prometheus.CounterValue,
			func(m *engine.Metrics) float64 { return float64(m.Commits) }),
		m("commit_bytes_total", "Bytes of their batches.", prometheus.CounterValue,
			func(m *engine.Metrics) float64 { return float64(m.CommitBytes) }),
		m("commits_waiting", "Commits that are not durable yet.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.Waiting) }),
		m("stalls_total", "Times that writes were held back until compactions caught up.",
			prometheus.CounterValue, func(m *engine.Metrics) float64 { return float64(m.Stalls) }),
		m("disk_bytes", "Bytes of all files of the store.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.DiskBytes) }),
		m("log_bytes", "Live bytes of the write-ahead log.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.LogBytes) }),
		m("memtable_bytes", "Bytes of the memtables.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.MemTableBytes) }),
		m("cache_bytes", "Bytes in the block cache.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.CacheBytes) }),
		m("cache_hits_total", "Blocks found in the cache.", prometheus.CounterValue,
			func(m *engine.Metrics) float64 { return float64(m.CacheHits) }),
		m("cache_misses_total", "Blocks read from disk.", prometheus.CounterValue,
			func(m *engine.Metrics) float64 { return float64(m.CacheMisses) }),
		m("read_amplification", "Sorted runs that a read may have to look at.",
			prometheus.GaugeValue, func(m *engine.Metrics) float64 { return float64(m.ReadAmp) }),
		m("compaction_debt_bytes", "Bytes that compactions are behind.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.DebtBytes) }),
		m("compactions_total", "Compactions of tables.", prometheus.CounterValue,
			func(m *engine.Metrics) float64 { return float64(m.Compactions) }),
		m("compactions_running", "Compactions that run.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.CompactionsRunning) }),
		m("compaction_seconds_total", "Time that compactions took, all together.",
			prometheus.CounterValue, func(m *engine.Metrics) float64 { return m.CompactionTime.Seconds() }),
		m("flushes_total", "Memtables written to tables.", prometheus.CounterValue,
			func(m *engine.Metrics) float64 { return float64(m.Flushes) }),
		m("stall_seconds_total", "How long writes were held back until compactions caught up.",
			prometheus.CounterValue, func(m *engine.Metrics) float64 { return m.Stalled.Seconds() }),
		m("memtables", "Memtables.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.MemTables) }),
		m("write_amplification",
			"Bytes written to the log and to tables for each byte of the log, since the start.", prometheus.GaugeValue, func(m *engine.Metrics) float64 { return m.WriteAmp }),
		m("table_cache_hits_total", "Tables that were open when they were read.",
			prometheus.CounterValue, func(m *engine.Metrics) float64 { return float64(m.TableCacheHits) }),
		m("table_cache_misses_total", "Tables opened to be read.", prometheus.CounterValue,
			func(m *engine.Metrics) float64 { return float64(m.TableCacheMisses) }),
		m("tombstones", "Estimated number of deletions in the tables.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.Tombstones) }),
		m("writable", "1 while the store accepts commits, 0 while it is read-only or the disk is nearly full.", prometheus.GaugeValue, func(m *engine.Metrics) float64 { return is(m.Writable) }),
		m("free_bytes", "Free space of the disk; 0 if it does not say.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.FreeBytes) }),
		m("free_min_bytes", "Free space below which commits are refused.", prometheus.GaugeValue,
			func(m *engine.Metrics) float64 { return float64(m.MinFree) }),
	}
}

func storeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cairn_store_"+name, help, labels, nil)
}

// A storeLatency is a histogram of the store.
type storeLatency struct {
	desc  *prometheus.Desc
	value func(*engine.Metrics) *engine.Latency
}

func storeLatencyTable() []storeLatency {
	return []storeLatency{
		{storeDesc("sync_seconds",
			"Time that commits waited for a sync of the log, once for each round of commits."),
			func(m *engine.Metrics) *engine.Latency { return &m.Sync }},
		{storeDesc("gate_seconds",
			"Time from applying a commit until it was durable: the first commit of each round."),
			func(m *engine.Metrics) *engine.Latency { return &m.Gate }},
	}
}

// A levelMetric is a figure of each level of the store.
type levelMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*engine.Level) float64
}

func levelMetricTable() []levelMetric {
	m := func(name, help string, kind prometheus.ValueType, value func(*engine.Level) float64) levelMetric {
		return levelMetric{storeDesc("level_"+name, help, "level"), kind, value}
	}
	return []levelMetric{
		m("tables", "Tables of a level.", prometheus.GaugeValue,
			func(l *engine.Level) float64 { return float64(l.Tables) }),
		m("bytes", "Bytes of the tables of a level.", prometheus.GaugeValue,
			func(l *engine.Level) float64 { return float64(l.Bytes) }),
		m("sublevels", "Sorted runs of a level.", prometheus.GaugeValue,
			func(l *engine.Level) float64 { return float64(l.Sublevels) }),
		m("score", "How urgently a level needs a compaction.", prometheus.GaugeValue,
			func(l *engine.Level) float64 { return l.Score }),
		m("read_bytes_total", "Bytes read by compactions into a level.", prometheus.CounterValue,
			func(l *engine.Level) float64 { return float64(l.Read) }),
		m("written_bytes_total", "Bytes written to a level by flushes and compactions.",
			prometheus.CounterValue, func(l *engine.Level) float64 { return float64(l.Written) }),
	}
}

// Describe implements prometheus.Collector.
func (s storeMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range storeMetricTable() {
		ch <- m.desc
	}
	for _, m := range storeLatencyTable() {
		ch <- m.desc
	}
	for _, m := range levelMetricTable() {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (s storeMetrics) Collect(ch chan<- prometheus.Metric) {
	v := s.store.Metrics()
	for _, m := range storeMetricTable() {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&v))
	}
	for _, m := range storeLatencyTable() {
		l := m.value(&v)
		buckets := make(map[float64]uint64, len(l.Buckets))
		for _, b := range l.Buckets {
			buckets[b.Below.Seconds()] = b.Count
		}
		ch <- prometheus.MustNewConstHistogram(m.desc, l.Count, l.Sum.Seconds(), buckets)
	}
	for _, m := range levelMetricTable() {
		for i := range v.Levels {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&v.Levels[i]), strconv.Itoa(i))
		}
	}
}
