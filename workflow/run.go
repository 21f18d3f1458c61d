package workflow

import (
	"time"
)

// A Run is one activation of a workflow run: its coroutines in memory. It is not safe for concurrent use: the host calls its
// methods one after another. Nothing but memory is lost when it is dropped; the next one replays the history.
//
// The host's part:
//
//  1. Open when the actor wakes, which reads nothing.
//  2. Advance in a transaction, at wake, and whenever something may have happened that the run waits for: an attempt
//     returned ([Attempt.Run]), Outcome.Wake came, a message arrived in one of Outcome.Queues, the state changed while
//     Outcome.Watching, a control row was written ([Cancel], [Resume]).
//  3. Commit the transaction and then start what Outcome.Launch lists, each on a goroutine of its own; not before the
//     transaction is durable.
//  4. Discard if a transaction was undone that Advance had succeeded in, unless Outcome.Undo asked for it.
type Run struct {
	program *Program
	options RunOptions

	image *image // what is recorded and not yet consumed; nil when the replay has come to its end
	names *names
	turn  Turn // the transaction of the Advance that is going on
	wrote bool // something was written in it
	err   error
	fault *Pause
	gone  bool

	coroutines map[*coroutine]struct{}
	runnable   []*coroutine
	replays    replayQueue // ops that the history has resolved, by seq
	due        []*op       // live ops that can be resolved, first come first served
	seq        uint64      // of the last resolution
	now        time.Time   // of the last resolution: the logical clock
}

// RunOptions are what a host gives a run. Zero fields have defaults.
type RunOptions struct {
	// Programs finds the program of a run by its name; nil if there is none, which pauses the run.
	Programs func(name string) *Program
	// Strict false lets operations of a scope be found by name in any order. For prototypes.
	NameOnly bool
}

// An Outcome says what a run wants of its host after an Advance.
type Outcome struct {
	// Undo: a function of the user failed, so the host undoes the transaction, and then calls Advance in another one at
	// once. The run stays valid.
	Undo bool
	// Again: there is more to do, in a transaction of its own. The host commits this one, without waiting for the disk, and
	// calls Advance again; other work of the actor may come in between.
	Again bool
	// Launch lists attempts to run when the transaction is durable.
	Launch []*Attempt
	// Wake is when the run wants to advance because of the time; zero for not at all. It is to survive restarts.
	Wake time.Time
	// Queues are those in which a message would let the run go on; empty for none.
	Queues []string
	// Watching: the run waits for a condition of the host's state.
	Watching bool
	// Ended: the run is over, and nothing else is set. Paused: it goes on after Resume, or when Wake has come.
	Ended, Paused bool
}
