package metrics

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestTurnsAreCountedByTypeAndResult(t *testing.T) {
	m := New(func() int64 { return 1 }, func() int64 { return 2 }, func() int64 { return 3 }, func() int64 { return 4 })
	room := m.Of("room")
	room.Turn(time.Millisecond, nil)
	room.Turn(time.Millisecond, errors.New("no"))
	room.Overloaded.Inc()
	room.Committed(3)
	hall := m.Of("hall")
	hall.Committed(1)
	hall.Woke(time.Millisecond, nil)
	hall.Woke(time.Millisecond, host.Errorf(host.NotFound, "no"))
	hall.Woke(time.Millisecond, host.Errorf(host.ActorFailed, "no"))
	hall.Mailbox.Observe(1)
	r := prometheus.NewPedanticRegistry()
	for _, c := range m.Collectors() {
		must(t, r.Register(c))
	}
	families, err := r.Gather()
	must(t, err)
	got := make(map[string]float64)
	for _, f := range families {
		for _, s := range f.GetMetric() {
			got[f.GetName()] += s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"cairn_turns_total": 2, "cairn_turn_seconds": 2, "cairn_overloaded_total": 1, "cairn_commits_total": 2, "cairn_commit_turns_total": 4, "cairn_type_commits_total": 2, "cairn_type_commit_turns_total": 4,
		"cairn_wake_seconds": 1, "cairn_wake_failures_total": 1, "cairn_mailbox_seconds": 1, "cairn_wakes_total": 0,
		"cairn_actors_awake": 1, "cairn_actors_awake_bytes": 2, "cairn_actors_paused": 3, "cairn_actors_running": 4,
	} {
		v, ok := got[name]
		errorIf(t, !ok || v != want, "%s is %v, want %v", name, v, want)
	}
}

var must, errorIf = testutil.Must, testutil.ErrorIf
