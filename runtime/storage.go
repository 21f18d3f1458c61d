package runtime

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/engine"
)

// storageShare bounds the time for counting the storage of actors: a count is shown again until
// this many times its own duration has passed.
const storageShare = 100

// storageMetrics shows the storage of the actor types.
type storageMetrics struct {
	store               *engine.Store
	namespace           string
	actors, size, kinds *prometheus.Desc

	mu     sync.Mutex // held while counting
	counts []engine.TypeStorage
	until  time.Time // the time up to which counts is shown
}

func newStorageMetrics(store *engine.Store, namespace string) *storageMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("cairn_type_"+name, help, append([]string{"type"}, labels...), nil)
	}
	return &storageMetrics{store: store, namespace: namespace,
		actors: desc("actors", "Actors that exist, asleep ones included, by actor type."),
		size: desc("bytes",
			"Bytes of the keys and values of actors, by actor type. Traces are not in them; each actor's are rounded down to four binary digits."),
		kinds: desc("kind_bytes",
			"Bytes of the rows of actors, by actor type and kind of key: an estimate from a sample.", "kind"),
	}
}

// Describe implements prometheus.Collector.
func (s *storageMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- s.actors
	ch <- s.size
	ch <- s.kinds
}

// Collect implements prometheus.Collector. It shows nothing while the index of actors is built.
func (s *storageMetrics) Collect(ch chan<- prometheus.Metric) {
	show := func(desc *prometheus.Desc, value int64, labels ...string) {
		// A label may not be valid UTF-8.
		if m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...); err == nil {
			ch <- m
		}
	}
	for _, t := range s.count() {
		show(s.actors, t.Actors, t.Type)
		show(s.size, t.Bytes, t.Type)
		for kind, n := range t.Kinds {
			show(s.kinds, n, t.Type, kind.String())
		}
	}
}

func (s *storageMetrics) count() []engine.TypeStorage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if began := time.Now(); began.After(s.until) {
		s.counts, _ = s.store.Storage(s.namespace) // the call that meets the damage reports it
		s.until = time.Now().Add(storageShare * time.Since(began))
	}
	return s.counts
}
