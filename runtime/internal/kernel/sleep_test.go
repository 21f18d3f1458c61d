package kernel

import "testing"

func TestOneSleepEndsOneWaking(t *testing.T) {
	now, slept, lost := new(Core), new(Core), new(Core)
	slept.asleep.Store(true)
	for _, c := range []struct {
		what string
		core *Core
		job  Sleeping
		away bool
	}{
		{"any waking", now, Sleeping{Force: true}, false},
		{"this waking", now, Sleeping{Force: true, Waking: now}, false},
		{"one that has ended in sleep", now, Sleeping{Force: true, Waking: slept}, true},
		{"one that was lost in a crash", now, Sleeping{Force: true, Waking: lost}, false},
		{"any, of an actor that sleeps", nil, Sleeping{Force: true}, true},
		{"one that was lost, of an actor that sleeps", nil, Sleeping{Force: true, Waking: lost}, true},
	} {
		w := &Work{Done: make(chan struct{}, 1)}
		away := c.job.TurnedAway(c.core, w)
		errorIf(t, away != c.away || w.Err != nil, "%s: turned away: %v, with %v", c.what, away, w.Err)
	}
}
