package host

import "github.com/cairn-run/cairn/workflow/internal/replay"

// Export returns a recording of a run. Its time is for the caller to set. The error is ErrNoRun,
// a *CorruptError, or one of r.
func Export(r Reader) (*Recording, error) {
	return replay.Export(r)
}

// Import makes a run of a recording. It is a new run, with its own id and no parent. It does not
// undo steps of the recorded run, and is neither paused nor canceled. If StartOptions.UpTo is set,
// it continues from there. A recorded run that waits for children in other actors cannot become a
// new run, because the children answer to their parent. With Restore the run is the recorded one,
// row by row. Import checks payloads and keys only as far as a run does when it goes on. The error
// is ErrExists, a *ControlError, a *CorruptError, or one of t.
func Import(t Turn, rec *Recording, o StartOptions) (Started, error) {
	return replay.Import(t, rec, o)
}

// A Recording is all rows of a run at one time, and their origin. Its file is text, so that two of
// them can be compared line by line. The first line is the manifest, each further line a row, the
// last one the end with a checksum of the rest. All are JSON objects.
//
//	Manifest Manifest
//	Rows []Row // by key, which is unique
//	// Encode returns the file of the recording. The error is a *TooLargeError.
//	func (rec *Recording) Encode() ([]byte, error)
type Recording = replay.Recording

// DecodeRecording reads the file of a recording. The recording shares no memory with the file. The
// error is a *SyntaxError, whose offset is that of a line, a *TooLargeError, or matches ErrNewer.
func DecodeRecording(file []byte) (*Recording, error) {
	return replay.DecodeRecording(file)
}

// A SyntaxError says where the bytes of a value become invalid.
//
//	What string // the value that was read, such as "entry"
//	Offset int // of the byte at fault
//	Reason string
type SyntaxError = replay.SyntaxError

const (
	// MaxRecording is the maximum size of the file of a recording, in bytes.
	MaxRecording = replay.MaxRecording
)

// Verify replays the history of a run with the programs that lookup finds, up to its end. It writes
// nothing, and runs the workflow function but no step. A run that has ended agrees with every
// program. The error is one of r, or matches ErrNoRun.
func Verify(r Reader, lookup func(name string) *Program) (Report, error) {
	return replay.Verify(r, lookup)
}

// Replay is Verify, but it also replays the history of runs that have ended. It is for tests of
// programs against recordings.
func Replay(r Reader, lookup func(name string) *Program) (Report, error) {
	return replay.Replay(r, lookup)
}

// A Report says whether a program agrees with the history of a run.
//
//	// Workflow is the name of the program, RunID that of the run.
//	Workflow, RunID string
//	// State is the recorded state of the run.
//	State State
//	// Problem says why the run would be paused; nil if it would go on.
//	Problem *Pause
//	// MissingUndos lists undo functions that the run would need if it failed, and that the
//	// program no longer has: undo handlers by name, such as `undo handler "refund"`, and steps
//	// without their undo function.
//	MissingUndos []string
//	// Resolutions counts the replayed resolutions of the history.
//	Resolutions uint64
//	// Ended is set if the function has returned, with Output, which the program's codec has
//	// encoded, or with Failure.
//	Ended bool
//	Output []byte
//	Failure *Failure
type Report = replay.Report
