package runtime

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/engine"
)

func TestMetricsOfStorageLeaveOutTypesThatAreNoText(t *testing.T) {
	store, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	must(t, err)
	defer store.Close()
	for _, typ := range []string{"cart", "\xff"} { // no node makes the second
		identity := engine.Identity{Namespace: "ns", Type: typ, Key: []string{"a"}}
		sp, err := store.NewSpace(store.NewActorID(identity))
		must(t, err)
		if err = sp.Writes().Create(identity); err == nil {
			_, err = sp.Commit(nil)
		}
		must(t, err)
		sp.Close()
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newStorageMetrics(store, "ns"))
	families, err := r.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "cairn_type_actors" && len(f.GetMetric()) == 1 && f.GetMetric()[0].GetLabel()[0].GetValue() == "cart" {
			return
		}
	}
	t.Errorf("the metrics have not the type cart alone: %v", families)
}
