package schedule

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	schedulerows "github.com/cairn-run/cairn/runtime/internal/part/schedule/rows"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Report implements survey.Reporter. Schedules count as alarms.
func (*Part) Report(rows *engine.Snapshot, st *host.Status) error {
	wakes, err := schedulerows.Wakes(rows)
	st.Alarms += len(wakes)
	for _, w := range wakes {
		if due := clock.TimeMS(w.Due).UTC(); st.NextAlarm == nil || due.Before(*st.NextAlarm) {
			st.NextAlarm = &due
		}
	}
	return err
}

// Explain implements survey.Explainer.
func (*Part) Explain(q *survey.Inquiry, rows *engine.Snapshot) error {
	schedules, err := schedulerows.List(rows, "")
	if err != nil {
		return err
	}
	for _, sc := range schedules {
		if sc.Next != nil {
			q.Appoint(*sc.Next, "schedule "+survey.Label(sc.Name, sc.Instance), "schedule", sc.Name)
		}
	}
	return nil
}
