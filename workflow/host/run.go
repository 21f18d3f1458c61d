package host

import (
	"log/slog"

	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// A Run is one activation of a workflow run: its coroutines in memory. Its methods are not safe
// for concurrent use, except Attempt.Run: the host calls them one after another. A dropped Run
// loses only memory; the next one replays the history.
//
// The host must:
//
//  1. Open a Run when the actor wakes. That reads nothing.
//  2. Advance it in a transaction, at wake and after each event that the run waits for: an
//     [Attempt] returned or called notify, Outcome.Wake was reached, a message arrived in one of
//     Outcome.Queues, the state changed while Outcome.Watching, a control row was written
//     (ControlChanged).
//  3. Commit the transaction. Once it is durable, start the attempts of Outcome.Launch, each on its
//     own goroutine.
//  4. Discard the Run when Advance returned an error, or when a transaction in which Advance
//     succeeded was undone, unless Outcome.Undo asked for that. Open another Run when the attempts
//     of the old one have returned.
//  5. When the actor goes to sleep: Leave, end the contexts of the attempts, Advance when they have
//     returned, which records their results, Rest in a transaction, and Close.
//
// Its methods:
//
//	// Advance runs the function as far as it can go within a transaction, and returns what the
//	// run waits for. An error ends the transaction: the host undoes it and discards the run.
//	func (r *Run) Advance(t Turn) (out Outcome, err error)
//	// Enter counts that this process is about to continue the run, and reports whether it did.
//	// process names the process. The transaction must be durable before Advance. Enter is for
//	// hosts whose last process ended without notice. When too many processes ended inside of
//	// Advance, the next Advance pauses the run with PausedCrashing, and only Resume continues
//	// it.
//	func (r *Run) Enter(t Turn, process uint64) (counted bool, err error)
//	// ControlChanged causes the next Advance to read the control rows again, because a request
//	// to cancel, pause or resume was committed. After Retry, Rewind, Terminate or a replacing
//	// Start, the host discards the run instead and opens another one when the attempts have
//	// returned.
//	func (r *Run) ControlChanged()
//	// TryNow causes the next Advance to try a paused run at once, because its code may have
//	// changed. It only affects runs that would be tried later: a run that an operator has paused
//	// stays paused, and so does a run whose steps have ended the process.
//	func (r *Run) TryNow()
//	// Leave announces that the host is about to close the run: Advance launches nothing more.
//	func (r *Run) Leave()
//	// Rest follows Leave when the host has ended the contexts of the attempts. These then
//	// count as not run instead of as cut off by a crash. Call it in a transaction, after the
//	// attempts have returned and an Advance has handled their results.
//	func (r *Run) Rest(t Turn) error
//	// Close ends the run in memory. Its coroutines unwind, which runs deferred functions of the
//	// user, and are gone when Close returns. Running attempts go on, and their results are
//	// dropped. Close may be called again.
//	func (r *Run) Close()
//	// Discard is Close, for a run whose transaction was undone.
//	func (r *Run) Discard()
//	// Refused reports to a run that was just opened that the host has refused, for good, the
//	// writes of the run before it. The next Advance pauses it, with PausedMisuse and the text of
//	// the error.
//	func (r *Run) Refused(err error)
//	// Moves returns a number that changes with every operation of the run's functions, and
//	// whether an Advance is waiting for a function of the run. It may be called from any
//	// goroutine.
//	func (r *Run) Moves() (n uint64, inside bool)
//	// Stalled calls do and reports true if the functions of the run have not moved since Moves
//	// returned n and inside, and no other do runs. Until do returns, Advance does not go on.
//	// It may be called from any goroutine.
//	func (r *Run) Stalled(n uint64, do func()) bool
//	// Abandon makes the run useless for good, while an Advance may be waiting for a function
//	// that does not return. If the function returns after all, Advance ends with ErrClosed, and
//	// the run is closed. It may be called from any goroutine.
//	func (r *Run) Abandon()
//	// Blame causes the next Advance to pause the run, because its function did harm and would do
//	// so again. Only Resume continues it. The run must be newly opened.
//	func (r *Run) Blame(reason PauseReason, text string)
//	// Stack returns the stack of the function that Advance waits for, and whether it waits.
//	// waits is false if it computes, or if this is unknown because a function of another run
//	// computes. If functions of several runs wait, it returns all of their stacks. It stops all
//	// goroutines for a moment, and may be called from any of them.
//	func (r *Run) Stack() (stack string, waits bool)
type Run = replay.Run

// Open returns a run that has not read any row yet.
func Open(o RunOptions) *Run {
	return replay.Open(replay.RunOptions(o))
}

// RunOptions are a host's options of a run. Zero fields have defaults.
type RunOptions struct {
	// Programs finds the program of a run by its name; nil if there is none, which pauses the
	// run.
	Programs func(name string) *Program
	// Self is the run's own actor, as a parent or child in another one names it.
	Self Destination
	// Logger returns the receiver of the messages of [Context.Logger]. It is called when the
	// function first logs. Without it, or if it returns nil, the messages are discarded.
	Logger func() *slog.Logger
	// Coroutines are shared with other runs; nil for none.
	Coroutines *Coroutines
	// MaxPayload bounds one result, state or message, in bytes; 0 means 16 MiB.
	MaxPayload int64
}

// An Outcome says what the run needs from the host after an Advance.
//
//	// Undo: a function of the user failed, or the run must pause. The host undoes the
//	// transaction, and then calls Advance in another one at once. The run stays valid.
//	Undo bool
//	// Again: there is more to do, in another transaction. The host commits this one, without
//	// waiting for the disk, and calls Advance again; other work of the actor may come in
//	// between.
//	Again bool
//	// Launch lists attempts to run when the transaction is durable. It may come with Again.
//	Launch []*Attempt
//	// Unlaunched: after Leave, there are attempts that the next activation launches.
//	Unlaunched bool
//	// Deferred: Launch need not wait until this transaction is durable, only until the earlier
//	// ones are.
//	Deferred bool
//	// Wake is the time at which the run must advance; zero for none. The host must keep it
//	// across restarts.
//	Wake time.Time
//	// Queues are the queues whose next message the run waits for; empty for none.
//	Queues []string
//	// Watching: the run waits for a condition of the host's state.
//	Watching bool
//	// Children: the run waits for children in other actors. A newly opened run asks them for
//	// their results, so advancing it when the actor wakes recovers a lost result.
//	Children bool
//	// Result has ID, Workflow, State and Output as [ReadOutcome] returns them, for a run that
//	// has completed; set with Ended.
//	Result *RunStatus
//	// Ended: the run is over, and nothing else but Result is set. Paused: it goes on after
//	// Resume, or when Wake has come.
//	Ended, Paused bool
//	// Pause says why the run is paused; nil if it is not.
//	Pause *Pause
type Outcome = replay.Outcome

// An Attempt is one execution of a step's body.
//
//	// Name returns the path of the step, for logs.
//	func (a *Attempt) Name() string
//	// Replace makes Run execute fn instead of the step's body, and encode its result. It is
//	// for tests, and called before Run.
//	func (a *Attempt) Replace(fn func(sc *StepCtx) (any, error))
//	// Run executes the body, on the calling goroutine. The host ends ctx to end the body: an
//	// error that the body returns afterwards is no outcome, and the attempt counts as not run.
//	// StepCtx.Host returns value. notify is called when the run must Advance before the body
//	// has returned. That may be on any goroutine; notify must not block, and may be nil. The
//	// next Advance after Run has returned handles the body's result. The error is only for the
//	// host's metrics and logs.
//	func (a *Attempt) Run(ctx context.Context, value any, notify func()) (err error)
type Attempt = replay.Attempt

// Coroutines keeps the goroutines of ended coroutines for new ones of any run, so that their stacks
// need not grow again. The zero value is ready. A nil *Coroutines keeps none. Safe for concurrent
// use. Its owner must call Close.
//
// A function that leaves its goroutine locked to a thread ends the process, as Go's coroutines do.
//
//	// Begin is called on the goroutine of each coroutine before it runs; nil for nothing.
//	Begin func()
//	// Close ends the goroutines that are kept. Runs may go on; theirs end with their
//	// coroutines.
//	func (s *Coroutines) Close()
type Coroutines = replay.Coroutines

// A Destination names the actor of a child run by its type and key in the host's directory. The
// zero value is the run's own actor.
//
//	Type string
//	Key []string
type Destination = replay.Destination

// A Program is a Function without its types, as hosts use it.
//
//	// EncodeInput encodes an input of the program. The error is a *CodecError.
//	func (p *Program) EncodeInput(in any) ([]byte, error)
//	// DecodeOutput decodes the output of the program into the value that out points to. The
//	// error is a *CodecError.
//	func (p *Program) DecodeOutput(data []byte, out any) error
//	// Name returns the name of the workflow.
//	func (p *Program) Name() string
//	// Version returns the version that WithVersion set.
//	func (p *Program) Version() string
//	// Err returns the error of a wrong definition; nil if it can be run.
//	func (p *Program) Err() error
//	// DecodeFailure returns the error behind a failure of a run, or of an entry of its history.
//	// errors.As and errors.Is find registered types and values in it. It is a *FailureError, or
//	// nil for nil.
//	func (p *Program) DecodeFailure(f *Failure) error
type Program = replay.Program

var (
	// ErrClosed is returned by a Run that was closed or discarded.
	ErrClosed = replay.ErrClosed
)
