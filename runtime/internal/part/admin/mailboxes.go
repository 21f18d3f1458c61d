package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// Collectors implements kernel.Meter.
func (*Part) Collectors(s *kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{mailboxes{s}}
}

// mailboxes counts the waiting work in the mailboxes of the actors in memory when it collects.
type mailboxes struct{ of *kernel.Kernel }

func mailboxDescs() (actors, items, deepest, bytes *prometheus.Desc) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return desc("cairn_type_actors_awake", "Actors in memory, by actor type.", "type"),
		desc("cairn_mailbox_items", "Work that waits in mailboxes.", "type"),
		desc("cairn_mailbox_items_max", "Work that waits in the fullest mailbox of an actor type.", "type"),
		desc("cairn_mailbox_bytes", "Estimated memory of the work that waits in all mailboxes.")
}

// Describe implements prometheus.Collector.
func (mailboxes) Describe(ch chan<- *prometheus.Desc) {
	actors, items, deepest, bytes := mailboxDescs()
	for _, d := range []*prometheus.Desc{actors, items, deepest, bytes} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m mailboxes) Collect(ch chan<- prometheus.Metric) {
	type sum struct{ actors, items, deepest int64 }
	sums := make(map[*kernel.Type]*sum, len(m.of.Types))
	for _, t := range m.of.Types {
		sums[t] = new(sum)
	}
	m.of.Each(func(a *kernel.Actor) {
		s, n := sums[a.Type], a.Mailbox.Count()
		s.actors++
		s.items += n
		s.deepest = max(s.deepest, n)
	})
	actors, items, deepest, bytes := mailboxDescs()
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	for t, s := range sums {
		gauge(actors, s.actors, t.Type)
		gauge(items, s.items, t.Type)
		gauge(deepest, s.deepest, t.Type)
	}
	gauge(bytes, m.of.WaitingBytes.Load())
}
