package replay

import "github.com/cairn-run/cairn/workflow/internal/journal"

// Names that this package shares with package journal.
type (
	CorruptError  = journal.CorruptError
	Delivery      = journal.Delivery
	Destination   = journal.Destination
	Entry         = journal.Entry
	EntryStatus   = journal.EntryStatus
	Failure       = journal.Failure
	Journal       = journal.Journal
	Kind          = journal.Kind
	Metadata      = journal.Metadata
	Held          = journal.Held
	NameError     = journal.NameError
	NewPutter     = journal.NewPutter
	Reader        = journal.Reader
	SyntaxError   = journal.SyntaxError
	TooLargeError = journal.TooLargeError
)

// Kinds, statuses and limits.
const (
	Canceled          = journal.Canceled
	CodecCBOR         = journal.CodecCBOR
	Completed         = journal.Completed
	DefaultMaxPayload = journal.DefaultMaxPayload
	Exhausted         = journal.Exhausted
	Failed            = journal.Failed
	KindAwait         = journal.KindAwait
	KindCall          = journal.KindCall
	KindCheckpoint    = journal.KindCheckpoint
	KindForEach       = journal.KindForEach
	KindJoin          = journal.KindJoin
	KindLoop          = journal.KindLoop
	KindMessage       = journal.KindMessage
	KindRace          = journal.KindRace
	KindReceive       = journal.KindReceive
	KindRemoved       = journal.KindRemoved
	KindSaga          = journal.KindSaga
	KindScope         = journal.KindScope
	KindSleep         = journal.KindSleep
	KindSpawn         = journal.KindSpawn
	KindStep          = journal.KindStep
	KindVersion       = journal.KindVersion
	MaxName           = journal.MaxName
	MaxNames          = journal.MaxNames
	Pending           = journal.Pending
	Running           = journal.Running
	TimedOut          = journal.TimedOut
)

// Errors.
var (
	ErrNewer    = journal.ErrNewer
	ErrTooLarge = journal.ErrTooLarge
)
