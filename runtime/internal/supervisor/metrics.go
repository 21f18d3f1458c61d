package supervisor

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
)

// metrics are the supervisor's own. Handles are resolved once, so that a turn costs a few atomic additions.
type metrics struct {
	turns      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	queries    *prometheus.CounterVec
	overloaded *prometheus.CounterVec

	commits, shared, refused, wakes, sleeps, stuck prometheus.Counter
	queueSent, queueFailures, queueDead            prometheus.Counter
	queueLag                                       prometheus.Histogram
	connectionsSlow, connectionsResumed            prometheus.Counter
	tasksFailed, tasksLost                         prometheus.Counter
	tasksRunning                                   prometheus.Gauge
	alarmLag, scheduleLag                          prometheus.Histogram
	failed                                         prometheus.Gauge
	runsStarted, runsEnded                         *prometheus.CounterVec
	steps, stepFailures, replays, runPauses        prometheus.Counter
	replaySeconds, runLag                          prometheus.Histogram
	runsPaused                                     *prometheus.GaugeVec
	gauges                                         []prometheus.Collector
}

// typeMetrics are the metrics of one actor type.
type typeMetrics struct {
	ok, failed         prometheus.Counter
	duration           prometheus.Observer
	queryOK, queryFail prometheus.Counter
	overloaded         prometheus.Counter
}

func newMetrics(s *Supervisor) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	total := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f)
	}
	m := &metrics{
		turns: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_turns_total", Help: "Turns run, by result: ok or error."}, []string{"type", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cairn_turn_seconds", Help: "Time in handlers.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 13)}, []string{"type"}),
		queries:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_queries_total", Help: "Queries answered, by result: ok or error."}, []string{"type", "result"}),
		overloaded:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_overloaded_total", Help: "Calls refused because a mailbox was full or they came too often."}, []string{"type"}),
		commits:       counter("cairn_commits_total", "Commits: one atomic batch each."),
		shared:        counter("cairn_commit_turns_total", "Turns in those commits; divided by commits, how many share one."),
		refused:       counter("cairn_commits_refused_total", "Commits that failed or were refused; nothing of them was kept."),
		wakes:         counter("cairn_wakes_total", "Actors woken."),
		sleeps:        counter("cairn_sleeps_total", "Actors put to sleep."),
		stuck:         counter("cairn_turns_abandoned_total", "Turns abandoned because their handler did not return."),
		queueSent:     counter("cairn_queue_messages_total", "Messages sent to queues."),
		queueFailures: counter("cairn_queue_failures_total", "Attempts of messages that failed."),
		queueDead:     counter("cairn_queue_dead_total", "Messages that became dead letters."),
		queueLag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_queue_lag_seconds", Help: "Time from sending a message to an attempt to handle it.",
			Buckets: prometheus.ExponentialBuckets(1e-4, 4, 13)}),
		tasksFailed:  counter("cairn_tasks_failed_total", "Tasks that ended with an error or a panic."),
		tasksLost:    counter("cairn_tasks_abandoned_total", "Tasks left behind because they did not return when their actor went to sleep."),
		tasksRunning: prometheus.NewGauge(prometheus.GaugeOpts{Name: "cairn_tasks_running", Help: "Tasks that run beside their actors."}),
		failed:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "cairn_actors_failed", Help: "Actors that do not run; see their status."}),
		alarmLag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_alarm_lag_seconds", Help: "How late alarms fire.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 4, 10)}),
		scheduleLag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_schedule_lag_seconds", Help: "How late runs of schedules begin.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 4, 10)}),
	}
	m.runsStarted = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_workflow_runs_started_total", Help: "Workflow runs started."}, []string{"type"})
	m.runsEnded = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_workflow_runs_ended_total", Help: "Workflow runs that ended, by outcome."}, []string{"type", "outcome"})
	m.steps = counter("cairn_workflow_steps_total", "Attempts of steps begun.")
	m.stepFailures = counter("cairn_workflow_step_failures_total", "Attempts of steps, and functions inside turns of runs, that failed.")
	m.runPauses = counter("cairn_workflow_paused_total", "How often a workflow run was paused or found paused: its code diverged, an operator held it, or the like.")
	m.runsPaused = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "cairn_workflow_runs_paused", Help: "Workflow runs that are paused, by reason; cairn workflow list shows them."}, []string{"type", "reason"})
	m.replays = counter("cairn_workflow_replays_total", "Workflow runs brought into memory.")
	m.replaySeconds = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_workflow_replay_seconds", Help: "How long it took to bring a run into memory, what it did at once included.",
		Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10)})
	m.runLag = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_workflow_lag_seconds", Help: "How late runs go on that waited for a time.",
		Buckets: prometheus.ExponentialBuckets(1e-3, 4, 10)})
	m.connectionsSlow = counter("cairn_connections_slow_total", "Connections cut off because the client read too slowly.")
	m.connectionsResumed = counter("cairn_connections_resumed_total", "Connections that a client came back to.")
	m.gauges = []prometheus.Collector{
		gauge("cairn_connections", "Clients that are connected to actors.", func() float64 { return float64(s.hub.total()) }),
		gauge("cairn_events_held_bytes", "Estimated memory of the events that streams and connections hold for their readers.", func() float64 { return float64(s.hub.held.Load()) }),
		gauge("cairn_actors_awake", "Actors in memory.", func() float64 { return float64(s.memory.awake.Load()) }),
		gauge("cairn_actors_awake_bytes", "Estimated memory of awake actors: their states and 2 KiB each.", func() float64 { return float64(s.memory.bytes.Load()) }),
		gauge("cairn_sql_connections", "Open connections to databases of actors.", func() float64 { return float64(s.sql.Stats().Open) }),
		gauge("cairn_sql_connections_used", "Those of them that a turn or query uses right now.", func() float64 { return float64(s.sql.Stats().InUse) }),
		gauge("cairn_sql_bytes", "Estimated memory of open connections.", func() float64 { return float64(s.sql.Stats().Bytes) }),
		total("cairn_sql_opened_total", "Connections opened.", func() float64 { return float64(s.sql.Stats().Opened) }),
		total("cairn_sql_evictions_total", "Connections closed to make room for others.", func() float64 { return float64(s.sql.Stats().Evicted) }),
		gauge("cairn_actors_paused", "Actors that operators have paused.", func() float64 { return float64(s.pauses.n.Load()) }),
		gauge("cairn_actors_running", "Actors that a goroutine runs right now.", func() float64 { return float64(s.busy.Load()) }),
	}
	return m
}

func (m *metrics) forType(b *host.Behavior) typeMetrics {
	return typeMetrics{
		ok: m.turns.WithLabelValues(b.Type, "ok"), failed: m.turns.WithLabelValues(b.Type, "error"),
		duration: m.duration.WithLabelValues(b.Type),
		queryOK:  m.queries.WithLabelValues(b.Type, "ok"), queryFail: m.queries.WithLabelValues(b.Type, "error"),
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

func (t *typeMetrics) query(err error) {
	if err == nil {
		t.queryOK.Inc()
	} else {
		t.queryFail.Inc()
	}
}

func (m *metrics) register(s *Supervisor, r prometheus.Registerer) error {
	var faults []error
	for _, c := range append([]prometheus.Collector{
		m.turns, m.duration, m.queries, m.overloaded, m.commits, m.shared, m.refused, m.wakes, m.sleeps, m.stuck, m.failed, m.alarmLag,
		m.queueSent, m.queueFailures, m.queueDead, m.queueLag,
		m.connectionsSlow, m.connectionsResumed,
		m.tasksFailed, m.tasksLost, m.tasksRunning,
		m.scheduleLag,
		m.runsStarted, m.runsEnded, m.steps, m.stepFailures, m.runPauses, m.runsPaused, m.replays, m.replaySeconds, m.runLag,
	}, m.gauges...) {
		faults = append(faults, r.Register(c))
	}
	for _, p := range s.parts {
		if p, ok := p.(meter); ok {
			for _, c := range p.collectors(s) {
				faults = append(faults, r.Register(c))
			}
		}
	}
	return errors.Join(faults...)
}
