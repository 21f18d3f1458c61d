package kernel

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
)

// metrics are the kernel's own. Handles are resolved once, so that a turn costs a few atomic additions.
type metrics struct {
	turns      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	overloaded *prometheus.CounterVec

	commits, shared, refused, wakes, sleeps, Stuck prometheus.Counter
	Failed                                         prometheus.Gauge
	gauges                                         []prometheus.Collector
}

// typeMetrics are the metrics of one actor type.
type typeMetrics struct {
	ok, failed prometheus.Counter
	duration   prometheus.Observer
	overloaded prometheus.Counter
}

func newMetrics(s *Kernel) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	m := &metrics{
		turns: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_turns_total", Help: "Turns run, by result: ok or error."}, []string{"type", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cairn_turn_seconds", Help: "Time in handlers.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 13)}, []string{"type"}),
		overloaded: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_overloaded_total", Help: "Calls refused because a mailbox was full or they came too often."}, []string{"type"}),
		commits:    counter("cairn_commits_total", "Commits: one atomic batch each."),
		shared:     counter("cairn_commit_turns_total", "Turns in those commits; divided by commits, how many share one."),
		refused:    counter("cairn_commits_refused_total", "Commits that failed or were refused; nothing of them was kept."),
		wakes:      counter("cairn_wakes_total", "Actors woken."),
		sleeps:     counter("cairn_sleeps_total", "Actors put to sleep."),
		Stuck:      counter("cairn_turns_abandoned_total", "Turns abandoned because their handler did not return."),
		Failed:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "cairn_actors_failed", Help: "Actors that do not run; see their status."}),
	}
	m.gauges = []prometheus.Collector{
		gauge("cairn_actors_awake", "Actors in memory.", func() float64 { return float64(s.Memory.Awake.Load()) }),
		gauge("cairn_actors_awake_bytes", "Estimated memory of awake actors: their states and 2 KiB each.", func() float64 { return float64(s.Memory.Bytes.Load()) }),
		gauge("cairn_actors_paused", "Actors that operators have paused.", func() float64 { return float64(s.Pauses.Len()) }),
		gauge("cairn_actors_running", "Actors that a goroutine runs right now.", func() float64 { return float64(s.Busy.Load()) }),
	}
	return m
}

func (m *metrics) forType(b *host.Behavior) typeMetrics {
	return typeMetrics{
		ok: m.turns.WithLabelValues(b.Type, "ok"), failed: m.turns.WithLabelValues(b.Type, "error"),
		duration:   m.duration.WithLabelValues(b.Type),
		overloaded: m.overloaded.WithLabelValues(b.Type),
	}
}

func (t *typeMetrics) turn(took time.Duration, err error) {
	if err == nil {
		t.ok.Inc()
	} else {
		t.failed.Inc()
	}
	t.duration.Observe(took.Seconds())
}

func (m *metrics) register(s *Kernel, r prometheus.Registerer) error {
	var faults []error
	for _, c := range append([]prometheus.Collector{
		m.turns, m.duration, m.overloaded, m.commits, m.shared, m.refused, m.wakes, m.sleeps, m.Stuck, m.Failed,
	}, m.gauges...) {
		faults = append(faults, r.Register(c))
	}
	for p := range PartsAs[Meter](s.Parts) {
		for _, c := range p.Collectors(s) {
			faults = append(faults, r.Register(c))
		}
	}
	return errors.Join(faults...)
}
