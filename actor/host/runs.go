package host

import (
	"context"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A RunQuery selects workflow runs that are paused or have failed. All fields are optional.
type RunQuery struct {
	// Type is the type of their actors.
	Type string
	// State is workflow/host.StatePaused or workflow/host.StateFailed.
	State wfhost.State
	// Reason is why they are paused. No failed run has one.
	Reason wfhost.PauseReason
	// Before selects runs that have been paused, or had failed, at that time.
	Before time.Time
	// Limit bounds the runs of a page: 1 to 1,000; 0 means 100.
	Limit int
	// Cursor continues an earlier page.
	Cursor string
}

// A ListedRun is a workflow run that is paused or has failed.
type ListedRun struct {
	Type string   `json:"type"`
	Key  []string `json:"key"`
	// Run is the id of the run, in hex.
	Run      string             `json:"run"`
	Workflow string             `json:"workflow"`
	State    wfhost.State       `json:"state"`
	Reason   wfhost.PauseReason `json:"reason,omitempty"`
	// Text is the report of the pause or the message of the failure, cut to 1,024 bytes.
	Text string `json:"text,omitempty"`
	// Since is when the run was paused or failed. Next is when a paused run is tried again by
	// itself; zero for never.
	Since time.Time `json:"since"`
	Next  time.Time `json:"next,omitzero"`
}

// A RunSummary describes an actor's workflow run in its status.
type RunSummary struct {
	Workflow string `json:"workflow"`
	// State is the stored state: a run that only waits is running.
	State wfhost.State `json:"state"`
	// Reason is why it is paused.
	Reason wfhost.PauseReason `json:"reason,omitempty"`
	// Since is when it was started, paused or ended.
	Since time.Time `json:"since,omitzero"`
}

// A RunPage is one page of runs, in no particular order. It may have fewer runs than the limit, or
// none, even if another page follows. Cursor is "" at the end.
type RunPage struct {
	Runs   []ListedRun `json:"runs"`
	Cursor string      `json:"cursor,omitempty"`
	// Uncertain names the actors of the type, or of all, that each page leaves out: the disk failed
	// before their last commit was durable. A restart of the node shows what was kept.
	Uncertain []Address `json:"uncertain,omitempty"`
}

// A RunCount is how many runs of a type are paused for a reason, or have failed.
type RunCount struct {
	Type   string             `json:"type"`
	State  wfhost.State       `json:"state"`
	Reason wfhost.PauseReason `json:"reason,omitempty"`
	Count  int64              `json:"count"`
}

// RunCounts are the counts of all runs that are paused or have failed, by type, state and reason,
// in that order.
type RunCounts struct {
	Counts []RunCount `json:"counts"`
	// Uncertain names the actors whose runs are not counted, for the reason of RunPage.Uncertain.
	Uncertain []Address `json:"uncertain,omitempty"`
}

// A RunLister finds the workflow runs of a node that are paused or have failed. It reads an index
// and those runs; it wakes nothing. A local node and a client implement it.
type RunLister interface {
	// Runs pages through the runs that a query selects.
	Runs(ctx context.Context, q RunQuery) (RunPage, error)
	// CountRuns counts all runs.
	CountRuns(ctx context.Context) (RunCounts, error)
}
