package keyspace

import "strconv"

// WakeKind is the number of a reason to wake an actor, in a row of the wake index.
type WakeKind uint8

const (
	WakeAlarm       WakeKind = 1  // an alarm of the actor, named by name and instance
	WakeSends       WakeKind = 2  // messages to other actors to deliver or to retry
	WakeExpiry      WakeKind = 3  // keys of the actor that expire
	WakeQueue       WakeKind = 4  // a queue, by name, whose next delayed or locked message is due; at 0: messages for the actor's own handlers
	WakeSchedule    WakeKind = 5  // a schedule of the actor, named by name and instance
	WakeConnections WakeKind = 6  // a connection, by name, that was lost and has not come back; at 0: connections that a restart loses
	WakePaused      WakeKind = 7  // at 0 only: the actor is paused
	WakeRun         WakeKind = 8  // a workflow run that waits for a time; at 0: one that a restart must continue
	WakeListed      WakeKind = 9  // at PausedRunsDue and FailedRunsDue only: a workflow run of the type name, listed with the reason instance
	WakeIndex       WakeKind = 10 // a search index of the key-value store, by its number, that is being built
	WakeChange      WakeKind = 11 // changes of entries of a map, by name, that its handler has not handled
)

// The times of rows that are never due. They keep lists of workflow runs in the wake index: the
// runs that are paused or have failed. A commit of the actor changes a list, and a node reads the
// list without reading the actors.
const (
	PausedRunsDue int64 = 1 << 61
	FailedRunsDue int64 = 1<<61 + 1
)

var wakeNames = [...]string{
	WakeAlarm: "alarm", WakeSends: "sends", WakeExpiry: "expiry", WakeQueue: "queue", WakeSchedule: "schedule",
	WakeConnections: "connections", WakePaused: "paused", WakeRun: "run", WakeListed: "listed run", WakeIndex: "index", WakeChange: "change",
}

// String returns the name of the kind, such as "alarm", or "wake kind N".
func (k WakeKind) String() string {
	if k > 0 && int(k) < len(wakeNames) {
		return wakeNames[k]
	}
	return "wake kind " + strconv.Itoa(int(k))
}

// WakeRow is an entry of the wake index, taken apart.
type WakeRow struct {
	Due      int64 // Unix milliseconds
	ID       ActorID
	Kind     WakeKind
	Name     string // of an alarm, schedule, queue or connection, or a type; else empty
	Instance string // of an alarm or schedule, or a reason; else empty
}
