package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// Version selects the code that this run, or iteration, must follow, so that code can change under
// existing runs. Its result is recorded and stays. It is latest if nothing further is recorded, and
// 1 if the run went past this place before the call was added. latest is at least 1. It may be
// called again under the same name within a scope.
func Version(ctx Context, name string, latest int) int {
	return replay.Version(ctx, name, latest)
}

// Patched is Version for a single change: it reports whether the run should follow the changed
// code.
func Patched(ctx Context, name string) bool {
	return replay.Patched(ctx, name)
}

// Renamed declares that an operation has a new name: in histories that have it as from, to finds
// it. Call it before the operation. A new operation of the scope does not get the old name.
func Renamed(ctx Context, from, to string) {
	replay.Renamed(ctx, from, to)
}

// Removed declares, in its place, that an operation was removed from the code. Runs whose history
// has it skip it, with all that is recorded inside it. For other runs Removed does nothing. A new
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
