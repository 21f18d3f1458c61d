package supervisor

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/schedule"
)

// report implements reporter. Schedules count as alarms.
func (*schedulePart) report(rows *engine.Snapshot, st *host.Status) error {
	wakes, err := schedule.Wakes(rows)
	st.Alarms += len(wakes)
	for _, w := range wakes {
		if due := timeMS(w.Due).UTC(); st.NextAlarm == nil || due.Before(*st.NextAlarm) {
			st.NextAlarm = &due
		}
	}
	return err
}

// explain implements explainer.
func (*schedulePart) explain(q *inquiry, rows *engine.Snapshot) error {
	schedules, err := schedule.List(rows, "")
	if err != nil {
		return err
	}
	for _, sc := range schedules {
		if sc.Next != nil {
			q.appoint(*sc.Next, "schedule "+label(sc.Name, sc.Instance), "schedule", sc.Name)
		}
	}
	return nil
}
