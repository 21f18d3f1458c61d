package alarm

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Report implements survey.Reporter.
func (*Part) Report(rows *engine.Snapshot, st *host.Status) error {
	alarms, err := listAlarms(rows, "")
	if err != nil {
		return err
	}
	st.Alarms += len(alarms)
	for i := range alarms {
		if st.NextAlarm == nil || alarms[i].Due.Before(*st.NextAlarm) {
			due := alarms[i].Due.UTC()
			st.NextAlarm = &due
		}
	}
	return nil
}

// Explain implements survey.Explainer.
func (*Part) Explain(q *survey.Inquiry, rows *engine.Snapshot) error {
	alarms, err := listAlarms(rows, "")
	if err != nil {
		return err
	}
	for _, al := range alarms {
		text := "alarm " + survey.Label(al.Name, al.Instance)
		if al.Attempts > 0 {
			text += ", which has failed " + survey.Times(al.Attempts)
		}
		q.Appoint(al.Due, text, "alarm", al.Name)
	}
	return nil
}
