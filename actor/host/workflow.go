package host

import (
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A Workflow is a workflow that actors of a type can run. An actor has one run at a time.
type Workflow struct {
	// Name is the name of the program, unique within the behavior.
	Name    string
	Handler string
	Program *wfhost.Program
	// Input converts a value from a request into the program's input. The error describes the fault
	// of the value.
	Input func(from Codec, value []byte) ([]byte, error)
	// Output converts the program's output into a value for a reply.
	Output func(output []byte, to Codec) ([]byte, error)
}

// A RunTurn is a turn of the actor for functions of a workflow, such as workflow.Tx.Host. Their
// effects are one commit with the entry in the history.
type RunTurn interface {
	Turn
	// Instance returns the actor's instance, whose state may be changed.
	Instance() Instance
	// View returns the instance for reading: changes of the state may be lost.
	View() Instance
	// Answer replies to a message that the run has received. Only the first answer to a message
	// counts.
	Answer(queue string, id uint64, reply []byte, failure *Error) error
}

// A RunTask is the actor's task for the body of a step, such as workflow.StepCtx.Host.
type RunTask interface {
	Task
	// Instance returns the actor's instance. None of its methods may be called.
	Instance() Instance
}

// A RunStart describes the start of a run.
type RunStart struct {
	Workflow string
	// Input is the input, encoded in Codec.
	Codec Codec
	Input []byte
	// Replace drops the history of a run that has ended. Without it a start with the same input
	// returns that run.
	Replace bool
}

// A RunStarted is the result of a start.
type RunStarted struct {
	// Run is the id of the run, in hex.
	Run string `json:"run"`
	// Started is false if the run was there already.
	Started bool `json:"started"`
}

// A RunControl is an operation on an actor's run.
type RunControl struct {
	// Verb is one of the names WorkflowCancel to WorkflowRewind.
	Verb string
	// Reason is kept with the run; up to 1,024 bytes. Entry is the id of an entry of the history,
	// for retry and rewind.
	Reason, Entry string
	// Run, if not "", is the id of the run to control; the error code is FailedPrecondition if the
	// actor has another.
	Run string
}

// The built-in methods of workflow runs. Queries of runs wake nothing.
const (
	WorkflowStart     = "workflow.start"
	WorkflowStatus    = "workflow.status"
	WorkflowResult    = "workflow.result"
	WorkflowCancel    = "workflow.cancel"
	WorkflowTerminate = "workflow.terminate"
	WorkflowPause     = "workflow.pause"
	WorkflowResume    = "workflow.resume" // also tries a paused run again at once
	WorkflowRetry     = "workflow.retry"  // with an entry
	WorkflowRewind    = "workflow.rewind" // with an entry
	WorkflowHistory   = "workflow.history"
	WorkflowWatch     = "workflow.watch"
	WorkflowExport    = "workflow.export"
	WorkflowImport    = "workflow.import"
)

// WorkflowStartInput starts a run. Starting again with the same input returns the existing run,
// live or ended.
type WorkflowStartInput struct {
	Workflow string `json:"workflow"`
	Input    Raw    `json:"input,omitempty"`
	// Replace starts anew if a run has ended, and drops its history.
	Replace bool `json:"replace,omitempty"`
}

// WorkflowResultInput asks for the result of a run.
type WorkflowResultInput struct {
	// WaitMS is how long to wait for it, up to 60,000.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// WorkflowResultOutput is the result of a run, if it has ended.
type WorkflowResultOutput struct {
	Done bool `json:"done"`
	// State is the State of workflow/host.RunStatus.
	State wfhost.State `json:"state"`
	// Output is the output of the workflow, Failure why it failed.
	Output  Raw             `json:"output,omitempty"`
	Failure *wfhost.Failure `json:"failure,omitempty"`
	// Run is the id of the run.
	Run string `json:"run"`
}

// WorkflowControlInput has the arguments of an operation on a run.
type WorkflowControlInput struct {
	// Reason is kept with the run; up to 1,024 bytes.
	Reason string `json:"reason,omitempty"`
	// Entry is the id of an entry of the history, for retry and rewind.
	Entry string `json:"entry,omitempty"`
	// Run, if not "", is the id of the run to control; the error code is FailedPrecondition if the
	// actor has another.
	Run string `json:"run,omitempty"`
}

// WorkflowHistoryInput pages through the history of a run, in the order of its entries' places.
type WorkflowHistoryInput struct {
	// After continues after an entry, by its id. Under selects the entries below one.
	After string `json:"after,omitempty"`
	Under string `json:"under,omitempty"`
	// Limit is 1 to 1,000; absent means 100.
	Limit int `json:"limit,omitempty" range:"1,1000"`
}

// WorkflowHistoryOutput is one page; More says that there is another, after the last entry.
type WorkflowHistoryOutput struct {
	Entries []wfhost.HistoryEntry `json:"entries"`
	More    bool                  `json:"more,omitempty"`
}

// WorkflowWatchInput asks for the changes of a run since a version of the actor.
type WorkflowWatchInput struct {
	After uint64 `json:"after,omitempty"`
	// WaitMS is how long to wait for a change, up to 60,000.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// WorkflowWatchOutput has the changes. Removed entries, such as those of old iterations, are not
// listed: if Count differs from a watcher's number, it reads the history anew.
type WorkflowWatchOutput struct {
	// Version is the version of the last change, for the next call.
	Version uint64                `json:"version"`
	Status  wfhost.RunStatus      `json:"status"`
	Changed []wfhost.HistoryEntry `json:"changed"`
	// Count is the number of entries. More is set if one answer does not hold all changes.
	Count int  `json:"count"`
	More  bool `json:"more,omitempty"`
}

// WorkflowRecording is a run with its whole history.
type WorkflowRecording struct {
	Recording []byte    `json:"recording"`
	Time      time.Time `json:"time"`
}

// WorkflowImportInput makes a run from a recording, as of the time of the recording.
type WorkflowImportInput struct {
	Recording []byte `json:"recording"`
	// UpTo is the last entry of the recording that the run has, by its id; "" for all.
	UpTo string `json:"up_to,omitempty"`
	// Replace drops the history of a run that has ended.
	Replace bool `json:"replace,omitempty"`
}
