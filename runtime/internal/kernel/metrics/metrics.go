// Package metrics counts what a kernel does.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Set has the metrics of one kernel.
type Set struct {
	turns      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	overloaded *prometheus.CounterVec

	// Commits counts commits, Shared the turns in them, and Refused the commits that failed.
	Commits, Shared, Refused prometheus.Counter
	Wakes, Sleeps            prometheus.Counter
	Stuck                    prometheus.Counter // turns that were abandoned
	Failed                   prometheus.Gauge   // actors that do not run
	gauges                   []prometheus.Collector
}

// A Type has the metrics of one actor type, resolved once, so that a turn costs a few atomic additions.
type Type struct {
	ok, failed prometheus.Counter
	duration   prometheus.Observer
	Overloaded prometheus.Counter // calls that were refused
}

// A Source returns the value of a gauge.
type Source func() int64

// New makes the metrics of a kernel. The sources are how many actors are awake, their memory in bytes, how many are
// paused, and how many run.
func New(awake, bytes, paused, running Source) *Set {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, f Source) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(f()) })
	}
	return &Set{
		turns: counters("cairn_turns_total", "Turns run, by result: ok or error.", "type", "result"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cairn_turn_seconds", Help: "Time in handlers.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 13)}, []string{"type"}),
		overloaded: counters("cairn_overloaded_total", "Calls refused because a mailbox was full or they came too often.", "type"),
		Commits:    counter("cairn_commits_total", "Commits: one atomic batch each."),
		Shared:     counter("cairn_commit_turns_total", "Turns in those commits; divided by commits, how many share one."),
		Refused:    counter("cairn_commits_refused_total", "Commits that failed or were refused; nothing of them was kept."),
		Wakes:      counter("cairn_wakes_total", "Actors woken."),
		Sleeps:     counter("cairn_sleeps_total", "Actors put to sleep."),
		Stuck:      counter("cairn_turns_abandoned_total", "Turns abandoned because their handler did not return."),
		Failed:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "cairn_actors_failed", Help: "Actors that do not run; see their status."}),
		gauges: []prometheus.Collector{
			gauge("cairn_actors_awake", "Actors in memory.", awake),
			gauge("cairn_actors_awake_bytes", "Estimated memory of awake actors: their states and 2 KiB each.", bytes),
			gauge("cairn_actors_paused", "Actors that operators have paused.", paused),
			gauge("cairn_actors_running", "Actors that a goroutine runs right now.", running),
		},
	}
}

// Of returns the metrics of an actor type.
func (m *Set) Of(typ string) Type {
	return Type{
		ok: m.turns.WithLabelValues(typ, "ok"), failed: m.turns.WithLabelValues(typ, "error"),
		duration: m.duration.WithLabelValues(typ), Overloaded: m.overloaded.WithLabelValues(typ),
	}
}

// Turn counts a turn.
func (t *Type) Turn(took time.Duration, err error) {
	if err == nil {
		t.ok.Inc()
	} else {
		t.failed.Inc()
	}
	t.duration.Observe(took.Seconds())
}

// Collectors returns everything to register.
func (m *Set) Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{
		m.turns, m.duration, m.overloaded, m.Commits, m.Shared, m.Refused, m.Wakes, m.Sleeps, m.Stuck, m.Failed,
	}, m.gauges...)
}
