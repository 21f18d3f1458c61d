package host

import "github.com/cairn-run/cairn/workflow/internal/replay"

// Start writes the first rows of a run of a program, with its encoded input. If there is a run of
// the same workflow with the same input, ended or not, nothing happens, unless the options name
// another id. The error is ErrExists if there is a different run, a *TooLargeError, or one of t.
func Start(t Turn, p *Program, input []byte, o StartOptions) (Started, error) {
	return replay.Start(t, p, input, o)
}

// StartOptions are the options of a new run.
//
//	// ID is the run's id; zero for a random one.
//	ID [16]byte
//	// Replace removes a run that has ended, with its history. A run that has not ended is not
//	// replaced.
//	Replace bool
//	// UpTo is, for Import, the last entry of the recording that the new run gets: it continues
//	// from there. "" for all.
//	UpTo EntryID
//	// Restore is, for Import: the run continues as the recorded run, not as a new one.
//	Restore bool
type StartOptions = replay.StartOptions

// Started is the result of a start.
//
//	ID string // hexadecimal
//	// Started is false if the run existed already.
//	Started bool
type Started = replay.Started

// Deliver handles a message from a run of another actor: start, cancel or terminate a child, or the
// result of a child. programs finds workflows by name. If a child cannot start, Deliver answers the
// sender; a message that no longer matters is dropped. The error is one of the turn, or wraps
// ErrLetter. Afterwards the host must advance the run.
func Deliver(t Turn, programs func(name string) *Program, body []byte) error {
	return replay.Deliver(t, programs, body)
}

// Undeliverable reports to a run that its message could not be delivered, for example because the
// destination does not exist. It runs in a transaction of the sender's actor. The host then
// advances the run.
func Undeliverable(t Turn, m *Outgoing, reason error) error {
	return replay.Undeliverable(t, m, reason)
}

// Destroyed reports to the parent, if it waits, that the actor of the run is being destroyed. It
// ends the run's children as Terminate does. It runs in the transaction that destroys the actor, or
// in one before.
func Destroyed(t Turn) error {
	return replay.Destroyed(t)
}

var (
	// ErrExists is the error of a start when the actor has another run.
	ErrExists = replay.ErrExists
	// ErrLetter is wrapped by errors of Deliver about a malformed body.
	ErrLetter = replay.ErrLetter
	// ErrNoRun is returned where there is no run.
	ErrNoRun = replay.ErrNoRun
)
