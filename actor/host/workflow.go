package host

import (
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A Workflow is a workflow that actors of a type can run. An actor has one run at a time.
type Workflow struct {
	// Name is that of the program, unique within the behavior.
	Name    string
	Handler string
	Program *wfhost.Program
	// Input makes the program's input of a value that came in a request; the error says what is
	// wrong with that.
	Input func(from Codec, value []byte) ([]byte, error)
	// Output makes a value for a reply of what the program returned.
	Output func(output []byte, to Codec) ([]byte, error)
}

// A RunTurn is what functions of a workflow have that run inside a turn of the actor:
// workflow.Tx.Host is one. What they do is one commit with the entry in the history.
type RunTurn interface {
	Turn
	// Instance returns the actor's instance, whose state may be changed.
	Instance() Instance
	// View returns it to look at: changes of the state may be lost.
	View() Instance
	// Answer replies to a message that the run has received. Only the first answer to a message
	// counts.
	Answer(queue string, id uint64, reply []byte, failure *Error) error
}

// A RunTask is what the body of a step has of its actor: workflow.StepCtx.Host is one.
type RunTask interface {
	Task
	// Instance returns the actor's instance, none of whose methods may be called.
	Instance() Instance
}

// A RunStart says how to start a run.
type RunStart struct {
	Workflow string
	// Input is the input, encoded in Codec.
	Codec Codec
	Input []byte
	// Replace drops the history of a run that has ended. Without it a start with the same input
	// finds that run.
	Replace bool
}

// A RunStarted is the result of a start.
type RunStarted struct {
	// Run is the id of the run, in hex.
	Run string `json:"run"`
	// Started is false if the run was there already.
	Started bool `json:"started"`
}

// A RunControl is something that is done to an actor's run.
type RunControl struct {
	// Verb is one of the names WorkflowCancel to WorkflowRewind.
	Verb string
	// Reason is kept with the run; at most 1,024 bytes. Entry is the id of an entry of the history,
	// for retry and rewind.
	Reason, Entry string
	// Run, if not "", is the id of the run that is meant; the error code is FailedPrecondition if
	// the actor has another.
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

// WorkflowStartInput starts a run. Starting what runs already, or has ended, with the same input
// finds that run.
type WorkflowStartInput struct {
	Workflow string `json:"workflow"`
	Input    Raw    `json:"input,omitempty"`
	// Replace starts anew if a run has ended, and drops its history.
	Replace bool `json:"replace,omitempty"`
}

// WorkflowResultInput asks how a run ended.
type WorkflowResultInput struct {
	// WaitMS is how long to wait for it, at most 60,000.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// WorkflowResultOutput is how a run ended, if it did.
type WorkflowResultOutput struct {
	Done bool `json:"done"`
	// State is that of workflow/host.RunStatus.
	State wfhost.State `json:"state"`
	// Output is what the workflow returned, Failure why it failed.
	Output  Raw             `json:"output,omitempty"`
	Failure *wfhost.Failure `json:"failure,omitempty"`
	// Run is the id of the run.
	Run string `json:"run"`
}

// WorkflowControlInput says why, and what about.
type WorkflowControlInput struct {
	// Reason is kept with the run; at most 1,024 bytes.
	Reason string `json:"reason,omitempty"`
	// Entry is the id of an entry of the history, for retry and rewind.
	Entry string `json:"entry,omitempty"`
	// Run, if not "", is the id of the run that is meant; the error code is FailedPrecondition if
	// the actor has another.
	Run string `json:"run,omitempty"`
}

// WorkflowHistoryInput pages through the history of a run, in the order of its entries' places.
type WorkflowHistoryInput struct {
	// After continues after an entry, by its id. Under selects what is below an entry.
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

// WorkflowWatchInput asks for what changed in a run since a version of the actor.
type WorkflowWatchInput struct {
	After uint64 `json:"after,omitempty"`
	// WaitMS is how long to wait for a change, at most 60,000.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// WorkflowWatchOutput is what changed. Removed entries, such as those of old iterations, are not
// listed: if Count differs from a watcher's number, it reads the history anew.
type WorkflowWatchOutput struct {
	// Version is what to ask after next; it is that of the last change.
	Version uint64                `json:"version"`
	Status  wfhost.RunStatus      `json:"status"`
	Changed []wfhost.HistoryEntry `json:"changed"`
	// Count is how many entries there are. More says that more has changed than one answer holds.
	Count int  `json:"count"`
	More  bool `json:"more,omitempty"`
}

// WorkflowRecording is a run with its whole history.
type WorkflowRecording struct {
	Recording []byte    `json:"recording"`
	Time      time.Time `json:"time"`
}

// WorkflowImportInput makes a run of a recording, as of the moment at which that was made.
type WorkflowImportInput struct {
	Recording []byte `json:"recording"`
	// UpTo is the last entry of the recording that the run has, by its id; "" for all.
	UpTo string `json:"up_to,omitempty"`
	// Replace drops the history of a run that has ended.
	Replace bool `json:"replace,omitempty"`
}
