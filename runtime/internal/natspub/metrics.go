package natspub

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
)

// The reasons for dropping a change, as the metric's label shows them.
const (
	dropOutboxFull = "outbox_full" // best effort, and the outbox was over its limit
	dropMemoryFull = "memory_full" // a life transition without a row, and the memory was full
	dropSubject    = "subject"     // the key makes the subject too long for NATS
	dropTooLarge   = "too_large"   // too large for the server or the stream even without its payload
	dropInvalid    = "invalid"     // the record in the outbox does not decode; its row stays
)

var dropReasons = []string{dropOutboxFull, dropMemoryFull, dropSubject, dropTooLarge, dropInvalid}

// metrics are the publisher's numbers.
type metrics struct {
	published  *prometheus.CounterVec // by family
	repeated   prometheus.Counter
	omitted    prometheus.Counter
	unstored   prometheus.Counter
	dropped    *prometheus.CounterVec // by reason
	refused    prometheus.Counter
	connects   prometheus.Counter
	errors     prometheus.Counter
	calls      *prometheus.CounterVec // by code
	collectors []prometheus.Collector
}

func newMetrics(p *Publisher) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "cairn", Name: name, Help: help})
	}
	vector := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cairn", Name: name,
			Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "cairn", Name: name, Help: help}, read)
	}
	calls := make([]string, 0, 1+len(host.Codes()))
	calls = append(calls, "ok")
	for _, c := range host.Codes() {
		calls = append(calls, string(c))
	}
	m := &metrics{
		published: vector("nats_published_total", "Messages that the server, or a stream, has.",
			"family", familyEvent, familyChange, familyLife, familyAudit),
		repeated: counter("nats_repeated_total", "Messages sent again because it is not known whether they arrived."),
		omitted:  counter("nats_omitted_total", "Messages published without their payload, which was too large."),
		unstored: counter("nats_unstored_total",
			"Messages published with JetStream demanded, whose subject no stream covers."),
		dropped:  vector("nats_dropped_total", "Changes never published.", "reason", dropReasons...),
		refused:  counter("nats_refused_total", "Commits with durable events refused because the outbox was full."),
		connects: counter("nats_connects_total", "Connections opened for publishing."),
		errors: counter("nats_server_errors_total",
			"Errors that the server reported, such as a subject that may not be published to."),
		calls: vector("nats_calls_total", "Calls answered, by the error code or ok.", "code", calls...),
	}
	m.collectors = []prometheus.Collector{
		m.published, m.repeated, m.omitted, m.unstored, m.dropped, m.refused, m.connects, m.errors, m.calls,
		gauge("outbox_rows", "Rows of the outbox.",
			func() float64 { rows, _ := p.outbox.OutboxSize(); return float64(rows) }),
		gauge("outbox_bytes", "Bytes of the outbox's records.",
			func() float64 { _, bytes := p.outbox.OutboxSize(); return float64(bytes) }),
		gauge("outbox_lag_seconds", "Age of the oldest change that waits to be published.",
			func() float64 { return p.Lag().Seconds() }),
		gauge("nats_connected", "1 while there is a connection for publishing.", func() float64 {
			if p.Connected() {
				return 1
			}
			return 0
		}),
		gauge("nats_calls_in_flight", "Calls being served.",
			func() float64 { return float64(p.calls.inFlight.Load()) }),
	}
	return m
}

// register registers the metrics with r, all or none.
func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for i, c := range m.collectors {
		if err := r.Register(c); err != nil {
			for _, done := range m.collectors[:i] {
				r.Unregister(done)
			}
			return err
		}
	}
	return nil
}

func (m *metrics) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.collectors {
		r.Unregister(c)
	}
}

// since returns how long ago a time in Unix milliseconds was, at least 0.
func since(timeMS int64) time.Duration {
	return max(0, time.Since(time.UnixMilli(timeMS)))
}
