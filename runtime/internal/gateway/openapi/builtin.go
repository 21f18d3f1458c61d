package openapi

import (
	"reflect"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// A builtinMethod is a method that every actor has, as the document describes it.
type builtinMethod struct {
	name          string
	input, output reflect.Type // nil for nothing
	query         bool
	// family says whether the method applies to a type, and whose values its input and output carry.
	family  func(*typeDocument) (*family, bool)
	summary string
}

// builtinMethods lists them all. A test compares the list with package host.
func builtinMethods() []builtinMethod {
	queues := func(t *typeDocument) (*family, bool) { return t.queues, t.queues != nil }
	workers := func(t *typeDocument) (*family, bool) { return t.workers, t.workers != nil }
	schedules := func(t *typeDocument) (*family, bool) { return t.schedules, t.schedules != nil }
	alarms := func(t *typeDocument) (*family, bool) { return nil, len(t.b.Alarms) > 0 }
	streams := func(t *typeDocument) (*family, bool) { return t.streams, t.streams != nil }
	external := func(t *typeDocument) (*family, bool) { return t.external, t.external != nil }
	workflows := func(t *typeDocument) (*family, bool) { return t.workflows, t.workflows != nil }
	runs := func(t *typeDocument) (*family, bool) { return nil, t.workflows != nil }
	always := func(*typeDocument) (*family, bool) { return nil, true }
	count := typeOf[host.CountOutput]()
	return []builtinMethod{
		{host.QueueSend, typeOf[host.QueueSendInput](), typeOf[host.QueueSendOutput](), false, queues,
			"Sends messages to a queue, all or none."},
		{host.QueueReceive, typeOf[host.QueueReceiveInput](), typeOf[host.QueueReceiveOutput](), false, workers,
			"Takes messages out of a queue and locks them for the caller."},
		{host.QueueAck, typeOf[host.QueueAckInput](), typeOf[host.QueueSettleOutput](), false, workers,
			"Says that received messages are done, with a reply for senders that want one."},
		{host.QueueNack, typeOf[host.QueueNackInput](), typeOf[host.QueueSettleOutput](), false, workers,
			"Gives received messages back as failed attempts."},
		{host.QueueExtend, typeOf[host.QueueExtendInput](), typeOf[host.QueueExtendOutput](), false, workers,
			"Locks received messages for longer."},
		{host.QueueHeld, typeOf[host.QueueHeldInput](), typeOf[host.QueueHeldOutput](), true, workers,
			"Tells which receipts are still valid."},
		{host.QueueResult, typeOf[host.QueueResultInput](), typeOf[host.QueueResultOutput](), true, queues,
			"Tells what came of a message that was sent with want_reply."},
		{host.QueueStatsMethod, typeOf[host.QueueStatsInput](), typeOf[host.QueueStatsOutput](), true, queues,
			"Counts the messages of queues."},
		{host.QueuePeek, typeOf[host.QueueListInput](), typeOf[host.QueueListOutput](), true, queues,
			"Lists the messages of a queue without receiving them."},
		{host.QueueDelete, typeOf[host.QueueSelectInput](), count, false, queues, "Deletes messages of a queue."},
		{host.QueuePurge, typeOf[host.QueueInput](), count, false, queues, "Deletes all messages of a queue."},
		{host.QueueSkip, typeOf[host.QueueInput](), count, false, queues, "Makes the next message of a queue a dead letter."},
		{host.QueueDeadList, typeOf[host.QueueListInput](), typeOf[host.QueueListOutput](), true, queues, "Lists dead letters."},
		{host.QueueDeadRequeue, typeOf[host.QueueSelectInput](), count, false, queues, "Puts dead letters into their queue again."},
		{host.QueueDeadDelete, typeOf[host.QueueSelectInput](), count, false, queues, "Deletes dead letters."},

		{host.ScheduleSet, typeOf[host.Schedule](), typeOf[host.Schedule](), false, schedules,
			"Sets a schedule, replacing one of the same name and instance."},
		{host.ScheduleCancel, typeOf[host.ScheduleInput](), count, false, schedules, "Removes a schedule and its history."},
		{host.ScheduleTrigger, typeOf[host.ScheduleInput](), typeOf[host.Schedule](), false, schedules,
			"Runs a schedule now, besides its ticks."},
		{host.ScheduleList, typeOf[host.ScheduleListInput](), typeOf[host.ScheduleListOutput](), true, schedules, "Lists schedules."},
		{host.ScheduleRuns, typeOf[host.ScheduleInput](), typeOf[host.ScheduleRunsOutput](), true, schedules,
			"Lists the latest runs of a schedule."},

		{host.AlarmList, nil, typeOf[host.AlarmListOutput](), true, alarms, "Lists armed alarms."},
		{host.AlarmCancel, typeOf[host.ScheduleInput](), count, false, alarms, "Disarms an alarm."},

		{host.StreamAppend, typeOf[host.StreamAppendInput](), typeOf[host.StreamAppendOutput](), false, external,
			"Appends items to a stream, all or none."},
		{host.StreamClose, typeOf[host.StreamInput](), typeOf[host.StreamInfo](), false, external,
			"Closes a stream: its last item is the last."},
		{host.StreamDelete, typeOf[host.StreamInput](), count, false, streams, "Deletes the items of a stream."},
		{host.StreamRead, typeOf[host.StreamReadInput](), typeOf[host.StreamReadOutput](), true, streams,
			"Reads what follows a position in a stream."},
		{host.StreamList, typeOf[host.StreamListInput](), typeOf[host.StreamListOutput](), true, streams, "Describes streams."},

		{host.ConnectionList, typeOf[host.ConnectionListInput](), typeOf[host.ConnectionListOutput](), true, always,
			"Lists connections."},
		{host.ConnectionClose, typeOf[host.ConnectionCloseInput](), count, false, always, "Closes a connection."},

		{host.ActorPause, typeOf[host.PauseInput](), typeOf[host.Pause](), false, always, "Pauses an actor until it is resumed."},
		{host.ActorResume, nil, count, false, always, "Ends a pause."},
		{host.ActorWake, nil, nil, false, always, "Wakes an actor."},
		{host.ActorSleep, nil, nil, false, always, "Puts an actor to sleep."},
		{host.ActorRetry, nil, count, false, always, "Lets a failed actor be tried again at once."},
		{host.ActorWhy, nil, typeOf[host.Explanation](), true, always, "Says what an actor waits for, without waking it."},
		{host.LimitsSet, typeOf[host.ActorLimits](), typeOf[host.ActorLimits](), false, always,
			"Sets limits of one actor, which go before those of its type, and returns all that are set."},
		{host.LimitsReset, typeOf[host.LimitsResetInput](), count, false, always, "Makes limits of one actor those of its type."},
		{host.SQLQuery, typeOf[host.SQLInput](), typeOf[host.SQLOutput](), true, always,
			"Runs SQL statements that only read, on the last commit."},
		{host.SQLExec, typeOf[host.SQLInput](), typeOf[host.SQLOutput](), false, always, "Runs SQL statements in one transaction."},
		{host.SQLMigrate, typeOf[host.SQLMigrateInput](), typeOf[host.SQLMigrateOutput](), false, always,
			"Applies the type's migrations that the actor's database lacks, or tries them."},
		{host.SQLStatus, nil, typeOf[host.SQLStatusOutput](), true, always, "Describes an actor's database."},
		{host.WorkflowStart, typeOf[host.WorkflowStartInput](), typeOf[host.RunStarted](), false, workflows,
			"Starts a workflow run, or finds the one that was started with the same input."},
		{host.WorkflowStatus, nil, typeOf[workflow.RunStatus](), true, runs, "Describes the workflow run: what it waits for, and why."},
		{host.WorkflowResult, typeOf[host.WorkflowResultInput](), typeOf[host.WorkflowResultOutput](), true, runs,
			"Tells how the workflow run ended, if it did."},
		{host.WorkflowCancel, typeOf[host.WorkflowControlInput](), nil, false, runs, "Asks the workflow run to end, undoing what it says how to undo."},
		{host.WorkflowTerminate, typeOf[host.WorkflowControlInput](), nil, false, runs, "Ends the workflow run at once, undoing nothing."},
		{host.WorkflowPause, typeOf[host.WorkflowControlInput](), nil, false, runs, "Keeps the workflow run from going on."},
		{host.WorkflowResume, typeOf[host.WorkflowControlInput](), nil, false, runs, "Lets a paused workflow run go on."},
		{host.WorkflowRetry, typeOf[host.WorkflowControlInput](), nil, false, runs, "Runs a step again that has failed for good."},
		{host.WorkflowRewind, typeOf[host.WorkflowControlInput](), nil, false, runs, "Forgets an entry of the history and what came after it. A run that is over goes on, without its result."},
		{host.WorkflowHistory, typeOf[host.WorkflowHistoryInput](), typeOf[host.WorkflowHistoryOutput](), true, runs,
			"Lists the history of the workflow run."},
		{host.WorkflowWatch, typeOf[host.WorkflowWatchInput](), typeOf[host.WorkflowWatchOutput](), true, runs,
			"Tells what has changed in the workflow run since a version."},
		{host.WorkflowExport, nil, typeOf[host.WorkflowRecording](), true, runs, "Returns the workflow run with its whole history."},
		{host.WorkflowImport, typeOf[host.WorkflowImportInput](), typeOf[host.RunStarted](), false, runs, "Makes a workflow run of a recording."},
		{host.SendSkip, typeOf[host.SendSkipInput](), count, false, always, "Moves the next message to another actor aside."},
		{host.SendDeadList, typeOf[host.SendListInput](), typeOf[host.SendListOutput](), true, always,
			"Lists the messages to other actors that were given up."},
		{host.SendDeadRequeue, typeOf[host.SendSelectInput](), count, false, always,
			"Sends messages to other actors again that were given up."},
		{host.SendDeadDelete, typeOf[host.SendSelectInput](), count, false, always,
			"Removes messages to other actors that were given up."},
	}
}
