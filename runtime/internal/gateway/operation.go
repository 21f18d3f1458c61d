package gateway

import (
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// OperationOf is what calling a method means to Authorize: Call for an actor's own methods and for those built-in ones that
// any caller may need, Work, Follow or Operate for the other built-in ones. A built-in name that is not known here counts
// as Operate, so that what a later version adds is not open to everybody. openSQL says whether the actor's type lets its
// callers use SQL.
func OperationOf(method string, openSQL bool) Operation {
	switch method {
	case host.SQLQuery, host.SQLExec:
		if openSQL {
			return Call
		}
		return Operate
	case host.QueueReceive, host.QueueAck, host.QueueNack, host.QueueExtend, host.QueueHeld:
		return Work
	case host.StreamRead:
		return Follow
	case host.QueueSend, host.QueueResult, host.QueueStatsMethod,
		host.ScheduleList, host.ScheduleRuns, host.AlarmList,
		host.StreamAppend, host.StreamClose, host.StreamList,
		host.WorkflowStart, host.WorkflowStatus, host.WorkflowResult:
		return Call
	case host.QueuePeek, host.QueueDelete, host.QueuePurge, host.QueueSkip,
		host.QueueDeadList, host.QueueDeadRequeue, host.QueueDeadDelete,
		host.ScheduleSet, host.ScheduleCancel, host.ScheduleTrigger, host.AlarmCancel,
		host.StreamDelete, host.ConnectionList, host.ConnectionClose, host.SendSkip,
		host.ActorPause, host.ActorResume, host.ActorWake, host.ActorSleep, host.ActorRetry, host.ActorWhy,
		host.SQLMigrate, host.SQLStatus,
		host.WorkflowCancel, host.WorkflowTerminate, host.WorkflowPause, host.WorkflowResume, host.WorkflowRetry, host.WorkflowRewind,
		host.WorkflowHistory, host.WorkflowWatch, host.WorkflowExport, host.WorkflowImport:
		return Operate
	}
	if builtin(method) {
		return Operate
	}
	return Call
}

// operation is what calling a method of an actor of a type means to Authorize.
func (g *Gateway) operation(typ, method string) Operation { return OperationOf(method, g.openSQL[typ]) }

// builtin reports whether a method is one that every actor has: names of behaviors' methods have no dot.
func builtin(method string) bool { return strings.IndexByte(method, '.') >= 0 }

// maxWait is the longest that a built-in method can be asked to wait.
const maxWait = time.Minute

// waits reports whether a method may be asked to wait for something.
func waits(method string) bool {
	switch method {
	case host.QueueReceive, host.QueueHeld, host.QueueResult, host.StreamRead, host.WorkflowResult, host.WorkflowWatch:
		return true
	}
	return false
}
