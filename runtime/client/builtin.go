package client

import "github.com/cairn-run/cairn/actor/host"

// builtinQuery reports whether a method that every actor has only reads, so that repeating it does
// nothing twice. All other methods need an idempotency key for that: with it, what a repeated
// queue.receive returns are the messages that the first one locked.
func builtinQuery(method string) bool {
	switch method {
	case host.QueueHeld, host.QueueResult, host.QueueStatsMethod, host.QueuePeek, host.QueueDeadList,
		host.ScheduleList, host.ScheduleRuns, host.AlarmList, host.StreamRead, host.StreamList,
		host.ConnectionList, host.ActorWhy, host.SendDeadList, host.SQLQuery, host.SQLStatus,
		host.WorkflowStatus, host.WorkflowResult, host.WorkflowHistory, host.WorkflowWatch, host.WorkflowExport:
		return true
	}
	return false
}
