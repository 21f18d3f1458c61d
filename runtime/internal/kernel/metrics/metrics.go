// Package metrics counts the work of a kernel.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/mailbox"
)

// A Set has the metrics of one kernel.
type Set struct {
	turns      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	overloaded *prometheus.CounterVec

	wakeFailures *prometheus.CounterVec
	wake, wait   *prometheus.HistogramVec
	commits      commits

	Refused       prometheus.Counter // commits that failed
	Wakes, Sleeps prometheus.Counter
	Stuck         prometheus.Counter // turns that were abandoned
	Failed        prometheus.Gauge   // actors that do not run
	gauges        []prometheus.Collector
}

// A Type has the metrics of one actor type, resolved once, so that a turn costs a few atomic
// additions.
type Type struct {
	ok, failed prometheus.Counter
	duration   prometheus.Observer
	Overloaded prometheus.Counter // calls that were refused
	Mailbox    *mailbox.Waits
	wake       prometheus.Observer
	unwoken    prometheus.Counter
	commits    *typeCommits
}

// A Source returns the value of a gauge.
type Source func() int64

// New makes the metrics of a kernel. The sources are how many actors are awake, their memory in
// bytes, how many are paused, and how many run.
func New(awake, bytes, paused, running Source) *Set {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, f Source) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(f()) })
	}
	return &Set{
		turns: counters("cairn_turns_total", "Turns run, by result: ok or error.", "type", "result"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cairn_turn_seconds",
			Help:    "Time in handlers.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 13)}, []string{"type"}),
		overloaded: counters("cairn_overloaded_total",
			"Calls refused because a mailbox was full or they came too often.", "type"),
		wakeFailures: counters("cairn_wake_failures_total",
			"Attempts to wake actors that failed, and calls refused since.", "type"),
		wake: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cairn_wake_seconds",
			Help:    "Time to bring actors into memory, their wake hooks included.",
			Buckets: prometheus.ExponentialBuckets(16e-6, 4, 11)}, []string{"type"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cairn_mailbox_seconds",
			Help:    "Time that work waited in mailboxes: one item in 64, at random.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 13)}, []string{"type"}),
		Refused: counter("cairn_commits_refused_total",
			"Commits that failed or were refused; nothing of them was kept."),
		Wakes:  counter("cairn_wakes_total", "Actors woken."),
		Sleeps: counter("cairn_sleeps_total", "Actors put to sleep."),
		Stuck:  counter("cairn_turns_abandoned_total", "Turns abandoned because their handler did not return."),
		Failed: prometheus.NewGauge(prometheus.GaugeOpts{Name: "cairn_actors_failed",
			Help: "Actors that do not run; see their status."}),
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
	c, wait := m.commits.of(typ), m.wait.WithLabelValues(typ)
	return Type{
		commits: c, wake: m.wake.WithLabelValues(typ), unwoken: m.wakeFailures.WithLabelValues(typ), Mailbox: &mailbox.Waits{Observe: wait.Observe},
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

// Committed counts a commit of so many turns.
func (t *Type) Committed(turns int) {
	t.commits.commits.Add(1)
	t.commits.turns.Add(uint64(turns))
}

// Woke counts an attempt to bring an actor into memory. An actor that is not there is no failure.
func (t *Type) Woke(took time.Duration, err error) {
	if err == nil {
		t.wake.Observe(took.Seconds())
		return
	}
	switch host.CodeOf(err) {
	case host.NotFound, host.Destroyed, host.Canceled, host.DeadlineExceeded:
	default:
		t.unwoken.Inc()
	}
}

// Collectors returns everything to register.
func (m *Set) Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{
		m.turns, m.duration, m.overloaded, &m.commits, m.wakeFailures, m.wake, m.wait, m.Refused, m.Wakes, m.Sleeps, m.Stuck, m.Failed,
	}, m.gauges...)
}
