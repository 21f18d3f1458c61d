package queue

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/runtime/internal/kernel"
	queuerows "github.com/cairn-run/cairn/runtime/internal/part/queue/rows"
)

// maxDepthTime bounds how long one collection reads queues. The actors that it does not reach are
// counted.
const maxDepthTime = 50 * time.Millisecond

// depths counts the messages in the queues of awake actors when it collects. To count those of
// sleeping actors it would have to read the whole store.
type depths struct{ of *kernel.Kernel }

func depthDescs() (messages, oldest, unread *prometheus.Desc) {
	return prometheus.NewDesc("cairn_queue_depth",
			"Messages in the queues of awake actors, by state: pending, delayed, processing or dead.", []string{"type", "state"}, nil),
		prometheus.NewDesc("cairn_queue_oldest_seconds",
			"Age of the oldest message that can be received, in the queues of awake actors.", []string{"type"}, nil),
		prometheus.NewDesc("cairn_queue_depth_unread",
			"Awake actors whose queues were not counted, because that took too long.", nil, nil)
}

// Describe implements prometheus.Collector.
func (depths) Describe(ch chan<- *prometheus.Desc) {
	messages, oldest, unread := depthDescs()
	ch <- messages
	ch <- oldest
	ch <- unread
}

// A depth has the totals of the queues of an actor type.
type depth struct {
	pending, delayed, processing, dead int64
	age                                time.Duration
}

// Collect implements prometheus.Collector.
func (d depths) Collect(ch chan<- prometheus.Metric) {
	all := make(map[*kernel.Type]*depth)
	for _, t := range d.of.Types {
		if len(t.Queues) > 0 {
			all[t] = new(depth)
		}
	}
	unread := 0
	if len(all) > 0 {
		began := time.Now()
		d.of.Each(func(a *kernel.Actor) {
			if s := all[a.Type]; s == nil {
			} else if now := time.Now(); now.Sub(began) > maxDepthTime || !s.read(a, now) {
				unread++
			}
		})
	}
	messages, oldest, skipped := depthDescs()
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	for t, s := range all {
		gauge(messages, float64(s.pending), t.Type, "pending")
		gauge(messages, float64(s.delayed), t.Type, "delayed")
		gauge(messages, float64(s.processing), t.Type, "processing")
		gauge(messages, float64(s.dead), t.Type, "dead")
		gauge(oldest, s.age.Seconds(), t.Type)
	}
	gauge(skipped, float64(unread))
}

// read adds the queues of an actor, and reports whether it could.
func (d *depth) read(a *kernel.Actor, now time.Time) bool {
	v := a.AcquireView()
	if v == nil {
		return true // it sleeps, or does not exist
	}
	id := v.ID
	a.ReleaseView(v)
	snap := a.Kernel.Store.Snapshot(id)
	defer snap.Close()
	stats, err := queuerows.AllStats(snap)
	for i := range stats {
		s := &stats[i]
		d.pending += s.Pending
		d.delayed += s.Delayed
		d.processing += s.Processing
		d.dead += s.Dead
		if s.Oldest != nil {
			d.age = max(d.age, now.Sub(*s.Oldest))
		}
	}
	return err == nil
}
