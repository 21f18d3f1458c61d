package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// Version lets the code change under runs that exist: it returns how new the code is that this
// run, or iteration, should follow. What it answered is recorded and stays; where nothing further
// is recorded it is latest, and where the run has gone past this place without having asked, 1.
// latest is at least 1. It may be asked again under the same name within a scope.
func Version(ctx Context, name string, latest int) int {
	return replay.Version(ctx, name, latest)
}

// Patched is Version for a single change: it reports whether the run should follow the changed
// code.
func Patched(ctx Context, name string) bool {
	return replay.Patched(ctx, name)
}

// Renamed says that an operation has another name now: in histories that have it as from, to
// finds it. It is said before the operation. A new operation of the scope does not get the
// old name.
func Renamed(ctx Context, from, to string) {
	replay.Renamed(ctx, from, to)
}

// Removed says that an operation was removed from the code, where it stood: runs whose history
// has it skip it, with all that is recorded inside it. For other runs it does nothing. A new
// operation of the scope does not get its name.
func Removed(ctx Context, name string, kind Kind) {
	replay.Removed(ctx, name, kind)
}

// A Kind says what an operation is, for Removed.
type Kind = replay.Kind

const (
	KindStep    = replay.KindStep // Step, Do, Update, Compensated
	KindLoop    = replay.KindLoop
	KindSleep   = replay.KindSleep // Sleep, SleepUntil, Timer
	KindJoin    = replay.KindJoin
	KindRace    = replay.KindRace
	KindVersion = replay.KindVersion
	KindReceive = replay.KindReceive
	KindForEach = replay.KindForEach
	KindSaga    = replay.KindSaga
	KindScope   = replay.KindScope // Scope, and a branch of Join, Race or ForEach
	KindAwait   = replay.KindAwait
	KindSpawn   = replay.KindSpawn
)
