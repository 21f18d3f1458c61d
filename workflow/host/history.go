package host

import (
	"iter"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// History returns the entries of a run as they are read, in the order of their places: each entry
// before the entries inside it. It reads only rows, so the run need not be in memory. It also reads
// runs of form 1. An error ends the sequence.
func History(r Reader, f Filter) iter.Seq2[HistoryEntry, error] {
	return replay.History(r, replay.Filter(f))
}

// A Filter selects entries of a history. An entry must match every field; the zero value matches
// all entries.
type Filter struct {
	// Under selects the subtree of an entry, including the entry; "" for all.
	Under EntryID
	// After is the entry after which to begin, in the order of History; "" for the beginning.
	After EntryID
	// Kinds and Statuses list the kinds and statuses to return; empty for all.
	Kinds    []Kind
	Statuses []EntryStatus
	// Name is a pattern for the name of the entry itself: * stands for any text, ? for any one
	// character. "" is all.
	Name string
	// Since and Before bound the time at which the entry began; zero for no bound.
	Since, Before time.Time
}

// A HistoryEntry is an entry of a history in the form for programs and people.
//
//	ID EntryID
//	Path string // of names; for people
//	Kind Kind
//	Status EntryStatus
//	Ordinal uint32
//	Seq uint64
//	Created time.Time
//	Ended time.Time
//	// Output is the result, and State the state with which the iteration of a loop began, as
//	// Codec encodes them: 0 is CBOR. Large payloads are stored elsewhere and nil here; Large is
//	// their size in bytes. Payloads of Sensitive entries are nil as well.
//	Output []byte
//	State []byte
//	// OutputJSON and StateJSON are Output and State in JSON, after Show.
//	OutputJSON json.RawMessage
//	StateJSON json.RawMessage
//	Codec uint8
//	Large uint64
//	Sensitive bool
//	Failure *Failure
//	Deadline time.Time
//	Iteration uint32
//	Winner string
//	Queues []string
//	Messages int // how many were received
//	Resolved uint32
//	Latest uint32
//	Child *Destination
//	Program string
//	Branches int
//	// The executions of a step; zero for a step that succeeded at once.
//	Attempts uint32
//	LastAttempt time.Time
//	Due time.Time
//	LastFailure *Failure
//	// Undone is the time at which its undo handler ended.
//	Undone time.Time
//	UndoFailure *Failure
//	Bytes int // of the key and value of its row
//	// Show fills the fields for JSON, as RunStatus.Show does.
//	func (h *HistoryEntry) Show()
type HistoryEntry = replay.HistoryEntry

// An EntryID names an entry of a history: its location in hexadecimal digits. It is the same as
// long as the entry is there.
type EntryID = replay.EntryID

// A Kind says what an entry of the history is. Package workflow has the kinds of operations that
// functions call; the others are here.
type Kind = replay.Kind

const (
	KindMessage    = replay.KindMessage    // a message, as version 1 stores it
	KindCheckpoint = replay.KindCheckpoint // of version 1: undo handlers are allowed from here
	KindRemoved    = replay.KindRemoved
	KindCall       = replay.KindCall
)

// An EntryStatus says whether and how an entry has ended. The numbers are stored.
//
//	// Over reports whether the status is final.
//	func (s EntryStatus) Over() bool
type EntryStatus = replay.EntryStatus

const (
	Pending   = replay.Pending // has begun, and waits
	Running   = replay.Running // an attempt that must not be repeated was begun
	Completed = replay.Completed
	Failed    = replay.Failed    // ended in an error
	Exhausted = replay.Exhausted // ended in the error of its last attempt
	Canceled  = replay.Canceled  // ended because its scope was canceled
	TimedOut  = replay.TimedOut  // ended by its own time limit
)

// A CorruptError says that a row of a run is invalid.
//
//	Key []byte // of the row; nil if it is not known
//	Err error
type CorruptError = replay.CorruptError

var (
	// ErrNewer is wrapped by errors about rows that a newer version of this package has written.
	ErrNewer = replay.ErrNewer
)
