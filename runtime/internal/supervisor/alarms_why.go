package supervisor

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// report implements reporter.
func (*alarmPart) report(rows *engine.Snapshot, st *host.Status) error {
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

// explain implements explainer.
func (*alarmPart) explain(q *inquiry, rows *engine.Snapshot) error {
	alarms, err := listAlarms(rows, "")
	if err != nil {
		return err
	}
	for _, al := range alarms {
		text := "alarm " + label(al.Name, al.Instance)
		if al.Attempts > 0 {
			text += ", which has failed " + times(al.Attempts)
		}
		q.appoint(al.Due, text, "alarm", al.Name)
	}
	return nil
}
