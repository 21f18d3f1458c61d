package journal

import (
	"strconv"
	"time"
)

// A Kind says what an entry of the history is.
type Kind uint8

const (
	KindStep       Kind = 0 // Step, Do, Update, Compensated
	KindLoop       Kind = 1
	KindSleep      Kind = 2 // Sleep, SleepUntil, Timer
	KindMessage    Kind = 3 // a message, as version 1 stores it
	KindCheckpoint Kind = 4 // of version 1: undo handlers are allowed from here
	KindJoin       Kind = 5
	KindRace       Kind = 6
	KindRemoved    Kind = 7
	KindVersion    Kind = 8
	KindReceive    Kind = 9
	KindForEach    Kind = 10
	KindSaga       Kind = 11
	KindScope      Kind = 12 // Scope, and a branch of a join, race or map
	KindAwait      Kind = 13
	KindSpawn      Kind = 14
	KindCall       Kind = 15

	KindLast = KindCall
)

// String returns the word for the kind.
func (k Kind) String() string {
	words := [...]string{"step", "loop", "sleep", "message", "checkpoint", "join", "race",
		"removed", "version", "receive", "foreach", "saga", "scope", "await", "spawn", "call"}
	if int(k) < len(words) {
		return words[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// An EntryStatus says whether and how an entry has ended. The numbers are stored; 0 to 4 come from
// version 1.
type EntryStatus uint8

const (
	Pending   EntryStatus = 0 // has begun, and waits
	Running   EntryStatus = 1 // an attempt that must not be repeated was begun
	Completed EntryStatus = 2
	Failed    EntryStatus = 3 // ended in an error
	Exhausted EntryStatus = 4 // ended in the error of its last attempt
	Canceled  EntryStatus = 5 // ended because its scope was canceled
	TimedOut  EntryStatus = 6 // ended by its own time limit

	StatusLast = TimedOut
)

// String returns the word for the status.
func (s EntryStatus) String() string {
	words := [...]string{"pending", "running", "completed", "failed", "exhausted", "cancelled", "timed_out"}
	if int(s) < len(words) {
		return words[s]
	}
	return "status " + strconv.Itoa(int(s))
}

// Over reports whether the status is final.
func (s EntryStatus) Over() bool { return s >= Completed }

// An Entry is the history's record of one operation.
type Entry struct {
	Kind   Kind
	Status EntryStatus
	// Ordinal is the position among the operations of its scope, in the order in which the function
	// began them.
	Ordinal uint32
	// Seq is the number of the resolution that ended the operation, from 1; 0 while it lasts. It
	// orders the ends of a run's operations. An ended iteration of a loop has the number of the
	// last resolution before it began.
	Seq uint64
	// Created is the time at which the operation began, Ended the time of its end, by the host's
	// clock in milliseconds.
	Created, Ended time.Time
	// ID is the number of the entry's Metadata, 0 if it has none.
	ID uint32
	// Codec is the encoding of Output, State and Failure.Data: CodecCBOR, or the number that the
	// run's codec declares.
	Codec uint8

	// Output is the result, encoded by the run's codec; nil if there is none (a function that
	// returns nothing has an encoded nil). For a loop it is the argument of Break.
	Output []byte
	// Failure is the error; nil if the operation did not fail.
	Failure *Failure
	// Sensitive hides Output from readers of the history.
	Sensitive bool

	// Owed is not 0 for a step that has begun, may have to be undone, and has not ended: its
	// effects are unknown. It is the epoch that is part of the step's idempotency key, plus 1.
	Owed uint32

	// Deadline is the time at which a sleep, a receive or an await ends by itself; zero for never.
	Deadline time.Time
	// Iteration is the number of a loop's current iteration, State the state at its begin.
	Iteration uint32
	State     []byte
	// Winner is the name of the branch that won a race.
	Winner string
	// Queues are the queues that a receive waits for, and Messages the messages that it received.
	// Other entries list the messages that they answered, without bodies. These entries are steps
	// and, in a race, also loops and races that have dropped such a step.
	Queues   []string
	Messages []Delivery
	// Resolved is the result of a version gate, and Latest the latest version in the code at that
	// time.
	Resolved, Latest uint32
	// Child is the actor of a spawned child, and Program its workflow. OnClose is the effect on the
	// child if the run ends before it: 0 nothing, 1 it is canceled, 2 it is terminated.
	Child   Destination
	Program string
	OnClose uint8
	// Count is the number of branches of a map; Branches has the indices of the branch names of a
	// join or a race.
	Count    uint32
	Branches []uint32

	// Large names the payloads above that are stored in other rows, and are nil here until they are
	// fetched.
	Large []LargeRef
}

// Metadata is the part of an entry that is not its result, such as a step's attempts. Most entries
// have none.
type Metadata struct {
	// Attempts counts the executions of a step so far, including attempts cut off by a crash.
	Attempts uint32
	// LastAttempt is the time at which the last attempt began, Due the earliest time of the next.
	LastAttempt, Due time.Time
	// Failure is the error of the last attempt.
	Failure *Failure
	// Progress is the value that the attempt has saved for the next.
	Progress []byte
	// Undone is the time at which the undo handler ended, zero if it has not; UndoFailure is its
	// last error. A loop with a trimmed history has the time of the last undo of one of its steps.
	Undone      time.Time
	UndoFailure *Failure
	// Held is the end of a step while its run was paused; nil if it did not end.
	Held *Held
}

// Held is the end of a step while its run was paused; the run handles it when it goes on.
type Held struct {
	Status EntryStatus
	// Doubt means that it may have had an effect although it failed.
	Doubt   bool
	Output  []byte
	Failure *Failure // nil if it succeeded
}

// A Failure is an error as it is stored.
type Failure struct {
	// Type is the name under which the error's type was registered, or "".
	Type string `cbor:"1,keyasint,omitempty" json:"type,omitempty"`
	// Code is the error's code, if it has one that crosses wires.
	Code string `cbor:"2,keyasint,omitempty" json:"code,omitempty"`
	// Message is the error's text.
	Message string `cbor:"3,keyasint,omitempty" json:"message"`
	// Data is the encoded error, if its type was registered.
	Data []byte `cbor:"4,keyasint,omitempty" json:"-"`
	// Reason is the package's own reason for the end of an operation: "canceled", "timeout",
	// "unknown" (the outcome of an attempt was lost in a crash), "exhausted", "permanent" or "".
	Reason string `cbor:"5,keyasint,omitempty" json:"reason,omitempty"`
	// Metadata is the error's metadata, if it has any that crosses wires.
	Metadata map[string]string `cbor:"6,keyasint,omitempty" json:"metadata,omitempty"`
	// Own is the text of the error that has the code, if Message is the text of an error around it.
	// Readers without access to Message get Own.
	Own string `cbor:"7,keyasint,omitempty" json:"-"`
}
