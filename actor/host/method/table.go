package method

import (
	"reflect"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/actor/host/usage"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// The kinds of rows, under short names.
const act, ask = host.Action, host.Query

// facts are the columns of a row that are true.
type facts uint8

const (
	creates facts = 1 << iota
	waits
	free
	offline
	reasoned
	none facts = 0
)

// table has the rows in the order of their names. A node does not start with a method that it
// lacks.
var table []*Row

// row makes a row of the table. It is not inlined, so that it is compiled only once for each pair
// of types.
//
//go:noinline
func row[In, Out any](name string, kind host.MethodKind, about Subject, by Caller, f facts,
	summary string) Typed[In, Out] {
	return Typed[In, Out]{newRow(name, kind, about, by, f, summary).
		of(func() any { return new(In) }, reflect.TypeFor[Out]())}
}

// newRow makes a row without types, and puts it into the table.
func newRow(name string, kind host.MethodKind, about Subject, by Caller, f facts, summary string) *Row {
	r := &Row{
		Name: name, Kind: kind, Subject: about, Caller: by, Summary: summary,
		Creates: f&creates != 0, Waits: f&waits != 0, Free: f&free != 0, Offline: f&offline != 0, Reasoned: f&reasoned != 0,
	}
	at, _ := place(name)
	table = slices.Insert(table, at, r)
	return r
}

// of sets the types of a row.
func (r *Row) of(in func() any, out reflect.Type) *Row {
	r.New, r.Input, r.Output = in, shown(reflect.TypeOf(in()).Elem()), shown(out)
	return r
}

// shown returns a type as it is in rows: nil for None.
func shown(t reflect.Type) reflect.Type {
	if t == reflect.TypeFor[None]() {
		return nil
	}
	return t
}

// Short names of types that many rows have.
type (
	counted  = host.CountOutput
	selected = host.QueueSelectInput
	control  = host.WorkflowControlInput
)

// Queues.
var (
	QueueSend = row[host.QueueSendInput, host.QueueSendOutput](host.QueueSend, act, Queues, Anyone, creates,
		"Sends messages to a queue, all or none.")
	QueueReceive = row[host.QueueReceiveInput, host.QueueReceiveOutput](host.QueueReceive, act, WorkerQueues, Workers, waits,
		"Takes messages out of a queue and locks them for the caller.")
	QueueAck = row[host.QueueAckInput, host.QueueSettleOutput](host.QueueAck, act, WorkerQueues, Workers, free,
		"Says that received messages are done, with a reply for senders that want one.")
	QueueNack = row[host.QueueNackInput, host.QueueSettleOutput](host.QueueNack, act, WorkerQueues, Workers, free,
		"Gives received messages back as failed attempts.")
	QueueExtend = row[host.QueueExtendInput, host.QueueExtendOutput](host.QueueExtend, act, WorkerQueues, Workers, free,
		"Locks received messages for longer.")
	QueueHeld = row[host.QueueHeldInput, host.QueueHeldOutput](host.QueueHeld, ask, WorkerQueues, Workers, free|waits,
		"Tells which receipts are still valid.")
	QueueResult = row[host.QueueResultInput, host.QueueResultOutput](host.QueueResult, ask, Queues, Anyone, waits,
		"Returns the result of a message that was sent with want_reply.")
	QueueStats = row[host.QueueStatsInput, host.QueueStatsOutput](host.QueueStatsMethod, ask, Queues, Anyone, none,
		"Counts the messages of queues.")
	QueuePeek = row[host.QueueListInput, host.QueueListOutput](host.QueuePeek, ask, Queues, Operators, none,
		"Lists the messages of a queue without receiving them.")
	QueueDelete = row[selected, counted](host.QueueDelete, act, Queues, Operators, none,
		"Deletes messages of a queue.")
	QueuePurge = row[host.QueueInput, counted](host.QueuePurge, act, Queues, Operators, none,
		"Deletes all messages of a queue.")
	QueueSkip = row[host.QueueInput, counted](host.QueueSkip, act, Queues, Operators, none,
		"Makes the next message of a queue a dead letter.")
	QueueDeadList = row[host.QueueListInput, host.QueueListOutput](host.QueueDeadList, ask,
		Queues, Operators, none, "Lists dead letters.")
	QueueDeadRequeue = row[selected, counted](host.QueueDeadRequeue, act, Queues, Operators, none,
		"Puts dead letters into their queue again.")
	QueueReplace = row[host.QueueReplaceInput, host.ListedMessage](host.QueueReplace, act,
		Queues, Operators, reasoned, "Changes a message that waits, or a dead letter.")
	QueueDeadDelete = row[selected, counted](host.QueueDeadDelete, act, Queues, Operators, none,
		"Deletes dead letters.")
)

// Schedules and alarms.
var (
	ScheduleSet = row[host.Schedule, host.Schedule](host.ScheduleSet, act, Schedules, Operators, creates,
		"Sets a schedule, replacing one of the same name and instance.")
	ScheduleCancel = row[host.ScheduleInput, counted](host.ScheduleCancel, act, Schedules, Operators, none,
		"Removes a schedule and its history.")
	ScheduleTrigger = row[host.ScheduleInput, host.Schedule](host.ScheduleTrigger, act, Schedules, Operators, none,
		"Runs a schedule now, besides its ticks.")
	ScheduleList = row[host.ScheduleListInput, host.ScheduleListOutput](host.ScheduleList, ask,
		Schedules, Anyone, none, "Lists schedules.")
	ScheduleRuns = row[host.ScheduleInput, host.ScheduleRunsOutput](host.ScheduleRuns, ask, Schedules, Operators, none,
		"Lists the latest runs of a schedule.")

	AlarmList   = row[None, host.AlarmListOutput](host.AlarmList, ask, Alarms, Anyone, none, "Lists armed alarms.")
	AlarmCancel = row[host.ScheduleInput, counted](host.AlarmCancel, act, Alarms, Operators, none, "Disarms an alarm.")
	AlarmRun    = row[host.ScheduleInput, host.ListedAlarm](host.AlarmRun, act, Alarms, Operators,
		reasoned, "Makes an armed alarm due now.")
)

// The key-value store.
var (
	KVGet = row[kv.GetInput, kv.GetOutput](host.KVGet, ask, Actor, OpenKV, none,
		"Returns an entry of the key-value store.")
	KVGetMany = row[kv.GetManyInput, kv.GetManyOutput](host.KVGetMany, ask, Actor, OpenKV, none,
		"Returns entries of the key-value store, as of one commit.")
	KVList = row[kv.ListInput, kv.ListOutput](host.KVList, ask, Actor, OpenKV, none,
		"Lists entries of the key-value store in the order of their keys.")
	KVListMany = row[kv.ListManyInput, kv.ListManyOutput](host.KVListMany, ask, Actor, OpenKV, none,
		"Makes several listings of the key-value store, as of one commit.")
	KVCount = row[kv.CountInput, kv.CountOutput](host.KVCount, ask, Actor, OpenKV, none,
		"Counts entries of the key-value store.")
	KVSample = row[kv.SampleInput, kv.SampleOutput](host.KVSample, ask, Actor, OpenKV, none,
		"Returns some entries of the key-value store, chosen at random.")
	KVCommit = row[kv.CommitInput, kv.CommitOutput](host.KVCommit, act, Actor, OpenKV, creates,
		"Checks and changes entries of the key-value store, all or none.")
	KVWatch = row[kv.WatchInput, kv.Changes](host.KVWatch, ask, Actor, OpenKV, waits,
		"Returns the entries of the key-value store that the caller has not seen, or waits for one.")
	KVFeed = row[kv.FeedInput, kv.FeedOutput](host.KVFeed, ask, Actor, OpenKV, waits,
		"Returns changes of entries of the key-value store in order, or waits for one.")
	KVScopes = row[kv.ScopesInput, kv.ScopesOutput](host.KVScopes, ask, Actor, OpenKV, none,
		"Lists scopes of the key-value store: prefixes with a policy, and what they have.")
	KVGroups = row[kv.GroupsInput, kv.GroupsOutput](host.KVGroups, ask, Actor, OpenKV, none,
		"Lists the groups of a scope of the key-value store.")
	KVSetScope = row[kv.SetScopeInput, kv.Scope](host.KVSetScope, act, Actor, OpenKV, creates,
		"Makes a scope of the key-value store, or replaces the policy of one.")
	KVRemoveScope = row[kv.RemoveScopeInput, kv.RemoveScopeOutput](host.KVRemoveScope, act, Actor, OpenKV, none,
		"Removes a scope of the key-value store, with its entries or without.")
	KVHistory = row[kv.HistoryInput, kv.HistoryOutput](host.KVHistory, ask, Actor, OpenKV, none,
		"Lists the versions of an entry of the key-value store that are kept.")
	KVPin = row[kv.PinInput, kv.PinOutput](host.KVPin, act, Actor, OpenKV, none,
		"Keeps the present version of the key-value store readable for some time.")
	KVUnpin = row[kv.UnpinInput, kv.UnpinOutput](host.KVUnpin, act, Actor, OpenKV, none, "Ends what kv.pin began.")
	KVFork  = row[kv.ForkInput, kv.Branch](host.KVFork, act, Actor, OpenKV, none,
		"Makes a branch of the key-value store, which begins as the store is, or another branch.")
	KVBranches = row[kv.BranchesInput, kv.BranchesOutput](host.KVBranches, ask, Actor, OpenKV, none,
		"Lists the branches of the key-value store.")
	KVRemoveBranch = row[kv.RemoveBranchInput, kv.RemoveBranchOutput](host.KVRemoveBranch, act, Actor, OpenKV, none,
		"Removes a branch of the key-value store.")
	KVDiff = row[kv.DiffInput, kv.DiffOutput](host.KVDiff, ask, Actor, OpenKV, none,
		"Lists the entries that differ between two branches of the key-value store, or two versions.")
	KVMerge = row[kv.MergeInput, kv.MergeOutput](host.KVMerge, act, Actor, OpenKV, none,
		"Brings what has changed in one branch of the key-value store into another.")
	KVSetIndex = row[kv.SetIndexInput, kv.Index](host.KVSetIndex, act, Actor, OpenKV, creates,
		"Makes a search index of the key-value store, or replaces one.")
	KVRemoveIndex = row[kv.RemoveIndexInput, kv.RemoveIndexOutput](host.KVRemoveIndex, act, Actor, OpenKV, none,
		"Removes a search index of the key-value store.")
	KVIndexes = row[kv.IndexesInput, kv.IndexesOutput](host.KVIndexes, ask, Actor, OpenKV, none,
		"Lists the search indexes of the key-value store.")
	KVSearch = row[kv.SearchInput, kv.SearchOutput](host.KVSearch, ask, Actor, OpenKV, none,
		"Returns the entries of a search index that match a query, the best first.")
	KVRender = row[kv.RenderInput, kv.RenderOutput](host.KVRender, ask, Actor, OpenKV, none,
		"Fills a template with entries of the key-value store.")
	KVPurge = row[None, kv.PurgeOutput](host.KVPurge, act, Actor, OpenKV, none,
		"Removes entries of the key-value store that have expired, which happens within an hour anyway.")
)

// Tokens for the key-value store.
var (
	TokenCreate = row[token.CreateInput, token.CreateOutput](host.TokenCreate, act, Actor, Operators, none,
		"Makes a token for the key-value store, and shows it once.")
	TokenList = row[None, token.ListOutput](host.TokenList, ask, Actor, Operators, none,
		"Lists the tokens for the key-value store.")
	TokenRevoke = row[token.RevokeInput, counted](host.TokenRevoke, act, Actor, Operators, none,
		"Revokes a token for the key-value store.")
)

// Traces.
var (
	TraceRead = row[trace.ReadInput, trace.ReadOutput](host.TraceRead, ask, Actor, Operators, none,
		"Reads the spans that an actor has recorded, without waking it.")
)

// Usage.
var (
	UsageGet = row[usage.GetInput, usage.GetOutput](host.UsageGet, ask, Actor, Operators, none,
		"Says what an actor did on each day, without waking it.")
)

// Streams.
var (
	StreamAppend = row[host.StreamAppendInput, host.StreamAppendOutput](host.StreamAppend, act,
		ExternalStreams, Anyone, creates,
		"Appends items to a stream, all or none.")
	StreamClose = row[host.StreamInput, host.StreamInfo](host.StreamClose, act, ExternalStreams, Anyone, none,
		"Closes a stream: its last item is the last.")
	StreamDelete = row[host.StreamInput, counted](host.StreamDelete, act, Streams, Operators, none,
		"Deletes the items of a stream.")
	StreamRead = row[host.StreamReadInput, host.StreamReadOutput](host.StreamRead, ask, Streams, Followers, waits,
		"Reads what follows a position in a stream.")
	StreamList = row[host.StreamListInput, host.StreamListOutput](host.StreamList, ask, Streams,
		Anyone, none, "Describes streams.")
)

// The actor, its connections, its database, and its messages to other actors.
var (
	ConnectionList = row[host.ConnectionListInput, host.ConnectionListOutput](host.ConnectionList,
		ask, Actor, Operators, none,
		"Lists connections.")
	ConnectionClose = row[host.ConnectionCloseInput, counted](host.ConnectionClose, act, Actor,
		Operators, none, "Closes a connection.")

	ActorPause = row[host.PauseInput, host.Pause](host.ActorPause, act, Actor, Operators, none,
		"Pauses an actor until it is resumed.")
	ActorResume = row[None, counted](host.ActorResume, act, Actor, Operators, none, "Ends a pause.")
	ActorWake   = row[None, None](host.ActorWake, act, Actor, Operators, none, "Wakes an actor.")
	ActorSleep  = row[None, None](host.ActorSleep, act, Actor, Operators, none, "Puts an actor to sleep.")
	ActorRetry  = row[None, counted](host.ActorRetry, act, Actor, Operators, none,
		"Lets a failed actor be tried again at once.")
	ActorWhy = row[None, host.Explanation](host.ActorWhy, ask, Actor, Operators, none,
		"Says what an actor waits for, without waking it.")
	LimitsSet = row[host.ActorLimits, host.ActorLimits](host.LimitsSet, act, Actor, Operators, none,
		"Sets limits of one actor, which go before those of its type, and returns all that are set.")
	LimitsReset = row[host.LimitsResetInput, counted](host.LimitsReset, act, Actor, Operators, none,
		"Makes limits of one actor those of its type.")

	StateGet = row[None, host.StateOutput](host.StateGet, ask, Actor, Operators, none,
		"Returns the state of an actor, without waking it.")
	StateReplace = row[host.StateReplaceInput, host.StateOutput](host.StateReplace, act, Actor, Operators, reasoned,
		"Replaces the state of an actor by one of the same form.")

	SQLQuery = row[host.SQLInput, host.SQLOutput](host.SQLQuery, ask, Actor, OpenSQL, none,
		"Runs SQL statements that only read, on the last commit.")
	SQLExec = row[host.SQLInput, host.SQLOutput](host.SQLExec, act, Actor, OpenSQL, creates,
		"Runs SQL statements in one transaction.")
	SQLMigrate = row[host.SQLMigrateInput, host.SQLMigrateOutput](host.SQLMigrate, act, Actor, Operators, none,
		"Applies the type's migrations that the actor's database lacks, or tries them.")
	SQLStatus = row[None, host.SQLStatusOutput](host.SQLStatus, ask, Actor, Operators, none,
		"Describes an actor's database.")

	SendSkip = row[host.SendSkipInput, counted](host.SendSkip, act, Actor, Operators, none,
		"Moves the next message to another actor aside.")
	SendDeadList = row[host.SendListInput, host.SendListOutput](host.SendDeadList, ask, Actor, Operators, none,
		"Lists the messages to other actors that were given up.")
	SendDeadRequeue = row[host.SendSelectInput, counted](host.SendDeadRequeue, act, Actor, Operators, none,
		"Sends messages to other actors again that were given up.")
	SendDeadDelete = row[host.SendSelectInput, counted](host.SendDeadDelete, act, Actor, Operators, none,
		"Removes messages to other actors that were given up.")
)

// Workflow runs.
var (
	WorkflowStart = row[host.WorkflowStartInput, host.RunStarted](host.WorkflowStart, act, Workflows, Anyone, creates,
		"Starts a workflow run, or finds the one that was started with the same input.")
	WorkflowStatus = row[None, wfhost.RunStatus](host.WorkflowStatus, ask, Runs, Anyone, none,
		"Describes the workflow run: what it waits for, and why.")
	WorkflowResult = row[host.WorkflowResultInput, host.WorkflowResultOutput](host.WorkflowResult,
		ask, Runs, Anyone, waits,
		"Tells how the workflow run ended, if it did.")
	WorkflowCancel = row[control, None](host.WorkflowCancel, act, Runs, Operators, none,
		"Asks the workflow run to end, undoing what it says how to undo.")
	WorkflowTerminate = row[control, None](host.WorkflowTerminate, act, Runs, Operators, offline,
		"Ends the workflow run at once, undoing nothing.")
	WorkflowPause = row[control, None](host.WorkflowPause, act, Runs, Operators, offline,
		"Keeps the workflow run from going on.")
	WorkflowResume = row[control, None](host.WorkflowResume, act, Runs, Operators, none,
		"Lets a paused workflow run go on.")
	WorkflowRetry = row[control, None](host.WorkflowRetry, act, Runs, Operators, none,
		"Runs a step again that has failed for good.")
	WorkflowRewind = row[control, None](host.WorkflowRewind, act, Runs, Operators, none,
		"Forgets an entry of the history and what came after it. A run that is over goes on, without its result.")
	WorkflowHistory = row[host.WorkflowHistoryInput,
		host.WorkflowHistoryOutput](host.WorkflowHistory, ask, Runs, Operators, none,
		"Lists the history of the workflow run.")
	WorkflowWatch = row[host.WorkflowWatchInput, host.WorkflowWatchOutput](host.WorkflowWatch, ask,
		Runs, Operators, waits,
		"Tells what has changed in the workflow run since a version.")
	WorkflowExport = row[None, host.WorkflowRecording](host.WorkflowExport, ask, Runs, Operators, none,
		"Returns the workflow run with its whole history.")
	WorkflowImport = row[host.WorkflowImportInput, host.RunStarted](host.WorkflowImport, act, Runs, Operators, creates,
		"Makes a workflow run of a recording.")
)
