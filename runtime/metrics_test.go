package runtime_test

import (
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
)

func TestMetricsShowTypesMailboxesQueuesAndTheStore(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		carried := carry.Of(bots.Ref(h, "a"))
		for range 3 {
			must(t, errOf(carried.Send(t.Context(), "box")))
		}
		must(t, errOf(carried.Receive(t.Context(), handle.ReceiveConfig{Max: 1})))
		must(t, errOf(run.Call(t.Context(), bots.Ref(h, "a"), named(action(func(_ *bot, ctx *actor.Context) (string, error) {
			return "", ring.After(ctx, time.Second, "")
		})))))
		time.Sleep(5 * time.Second)

		for _, c := range []struct {
			name, label string
			want        float64
		}{
			{"cairn_queue_depth", "pending", 2}, {"cairn_queue_depth", "processing", 1}, {"cairn_queue_depth", "dead", 0},
			{"cairn_queue_oldest_seconds", "bot", 5}, {"cairn_queue_depth_unread", "", 0},
			{"cairn_type_actors_awake", "bot", 1}, {"cairn_type_actors", "bot", 1}, {"cairn_mailbox_items", "bot", 0}, {"cairn_mailbox_bytes", "", 0},
			{"cairn_type_commits_total", "bot", metric(t, h, "cairn_commits_total", "")},
			{"cairn_type_commit_turns_total", "bot", metric(t, h, "cairn_commit_turns_total", "")},
			{"cairn_store_writable", "", 1}, {"cairn_wake_failures_total", "", 0}, {"cairn_store_memtables", "", 1},
		} {
			errorIf(t, metric(t, h, c.name, c.label) != c.want, "%s %s is %v, want %v", c.name, c.label, metric(t, h, c.name, c.label), c.want)
		}
		errorIf(t, metric(t, h, "cairn_commits_total", "") < 5, "%v commits", metric(t, h, "cairn_commits_total", ""))
		for _, name := range []string{"cairn_store_sync_seconds", "cairn_store_gate_seconds", "cairn_wake_seconds", "cairn_type_alarm_lag_seconds"} {
			errorIf(t, observed(t, h, name) == 0, "%s observed nothing", name)
		}
		for _, kind := range []string{"queue", "queue-stats"} {
			n := metric(t, h, "cairn_type_kind_bytes", kind)
			errorIf(t, n <= 0 || n > 2_000, "%v bytes of kind %s", n, kind)
		}
		errorIf(t, metric(t, h, "cairn_type_bytes", "bot") < 100, "%v bytes", metric(t, h, "cairn_type_bytes", "bot"))
		errorIf(t, observed(t, h, "cairn_type_alarm_lag_seconds") != observed(t, h, "cairn_alarm_lag_seconds"), "the lags differ")
	})
}

// observed returns how many values the histograms of a name have.
func observed(t *testing.T, h *actortest.Harness, name string) (n uint64) {
	t.Helper()
	families, err := h.Runtime().Gatherer().Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name {
				n += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}
