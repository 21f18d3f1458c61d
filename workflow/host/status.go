package host

import "github.com/cairn-run/cairn/workflow/internal/replay"

// ReadStatus returns the status of a run, as far as its rows say. The error is ErrNoRun, a
// *CorruptError, or one of r.
func ReadStatus(r Reader) (RunStatus, error) {
	return replay.ReadStatus(r)
}

// ReadOutcome is a cheaper ReadStatus for a run that is over. It does not read the history: Wake,
// Waiting, Entries, Names, Bytes and related fields are zero. For a run that is not over it
// returns the stored state.
func ReadOutcome(r Reader) (RunStatus, error) {
	return replay.ReadOutcome(r)
}

// A RunStatus says what a run does. It omits plain steps that are being executed: those have no
// row, and only the host of a run in memory knows them.
//
//	ID string // hexadecimal; "" for a run of form 1
//	Workflow string
//	Version string
//	State State
//	// Epoch counts how often the run began anew: by Restart, or by a rewind.
//	Epoch uint32
//	Started time.Time
//	Ended time.Time
//	// Waiting lists the events that the run waits for, Wake is the earliest time among them;
//	// zero if it waits for no time.
//	Waiting []Waiting
//	Wake time.Time
//	// Cancel is set if cancellation was requested.
//	Cancel *CancelRequest
//	Pause *Pause
//	// Failure is why it failed or was canceled; nil otherwise.
//	Failure *Failure
//	// Published is the published value, Output the result of the run, both encoded by its codec:
//	// CBOR if Codec is 0.
//	Published []byte
//	Output []byte
//	Codec uint8
//	// Input is the input of the run, encoded as they are.
//	Input []byte
//	// InputJSON, PublishedJSON and OutputJSON are these payloads in JSON, after Show.
//	InputJSON json.RawMessage
//	PublishedJSON json.RawMessage
//	OutputJSON json.RawMessage
//	// Entries counts the entries of the history, Bytes are those of their keys and values,
//	// Names counts distinct names: a run whose Crowded is set has so many that it probably
//	// makes them from data.
//	Entries int
//	Bytes int64
//	Names int
//	Crowded bool
//	// Undo counts the steps that will be undone if the run fails, including running steps that
//	// may have to be undone. It is 0 for a run that has completed.
//	Undo int
//	// Show fills the fields for JSON: the payloads, or a text with their size if they have more
//	// than 64 KiB or are not CBOR.
//	func (s *RunStatus) Show()
type RunStatus = replay.RunStatus

// A State is the state of a whole run. States marked as derived follow from the history, so that
// a wait costs no row; the others are stored as these words.
//
//	// Over reports whether the state is final.
//	func (s State) Over() bool
type State = replay.State

const (
	StatePending     = replay.StatePending // started, and nothing has run yet
	StateRunning     = replay.StateRunning
	StateSleeping    = replay.StateSleeping // derived: waits only for a time
	StateWaiting     = replay.StateWaiting  // derived: waits for a message, a condition or a child
	StatePaused      = replay.StatePaused   // derived: see Pause
	StateCancelling  = replay.StateCancelling
	StateRollingBack = replay.StateRollingBack // undo handlers run, and then it is failed or cancelled
	StateCompleted   = replay.StateCompleted
	StateFailed      = replay.StateFailed
	StateCancelled   = replay.StateCancelled
	StateTerminated  = replay.StateTerminated
)

// A Waiting is one event that a run waits for.
//
//	ID EntryID
//	Path string // of names; for people
//	Kind Kind
//	// Since is the time at which the wait began, Until the time at which it ends by itself;
//	// zero for never.
//	Since time.Time
//	Until time.Time
//	// Queues are the queues that a receive waits for; Child is the actor of a child that the
//	// run waits for.
//	Queues []string
//	Child *Destination
//	// Attempts counts the executions of a step that waits for the next one, Failure is the
//	// error of the last one.
//	Attempts uint32
//	Failure *Failure
type Waiting = replay.Waiting

// A CancelRequest says when cancellation of a run was requested, and why.
//
//	Reason string
//	Time time.Time
type CancelRequest = replay.CancelRequest

// A Failure is an error as it is stored.
//
//	// Type is the name under which the error's type was registered, or "".
//	Type string
//	// Code is the error's code, if it has one that crosses wires.
//	Code string
//	// Message is the error's text.
//	Message string
//	// Data is the encoded error, if its type was registered.
//	Data []byte
//	// Reason is the package's own reason for the end of an operation: "canceled", "timeout",
//	// "unknown" (the outcome of an attempt was lost in a crash), "exhausted", "permanent" or
//	// "".
//	Reason string
//	// Metadata is the error's metadata, if it has any that crosses wires.
//	Metadata map[string]string
//	// Own is the text of the error that has the code, if Message is the text of an error
//	// around it. Readers without access to Message get Own.
//	Own string
type Failure = replay.Failure

// A Pause says why a run does not go on.
//
//	Reason PauseReason
//	// Text explains it to people; for a divergence it is the report.
//	Text string
//	// Since is when the run was paused first.
//	Since time.Time
//	// Attempts counts how often the run was tried again; Next is the time of the next try
//	// without an operator, zero for none.
//	Attempts uint32
//	Next time.Time
type Pause = replay.Pause

// A PauseReason says why a run is paused.
type PauseReason = replay.PauseReason

// PauseReasons returns the reasons for which a run can be paused.
func PauseReasons() []PauseReason {
	return replay.PauseReasons()
}

const (
	PausedCorrupt   = replay.PausedCorrupt   // a row cannot be read
	PausedCrashing  = replay.PausedCrashing  // the process ends each time the run goes on
	PausedDiverged  = replay.PausedDiverged  // the code has another operation than the history
	PausedExhausted = replay.PausedExhausted // a step has used up its attempts, with PauseRun
	PausedMisuse    = replay.PausedMisuse    // the code breaks a rule of the package
	PausedOperator  = replay.PausedOperator  // see Hold
	PausedPanicked  = replay.PausedPanicked  // outside of a step
	PausedUnknown   = replay.PausedUnknown   // the program is not registered
)
