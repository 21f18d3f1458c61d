package traffic

import (
	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/workflow"
)

// Definitions returns the actor types of this package with their handlers, for runtime.Options or
// actortest.Run.
func Definitions() []actor.Definition {
	return []actor.Definition{
		actor.Define(Airports, actor.Spec[Airport]{OnCreate: (*Airport).create, Migrations: migrations},
			actor.On(Depart, (*Airport).depart),
			actor.On(Arrive, (*Airport).arrive),
			actor.OnQuery(AirportStats, Airport.stats),
			actor.OnQuery(Worst, Airport.worst),
			actor.OnAlarm(Quiet, (*Airport).quiet),
		),
		actor.Define(Routes, actor.Spec[Route]{OnCreate: (*Route).create},
			actor.On(Fly, (*Route).fly),
			actor.OnQuery(RouteStats, Route.stats),
		),
		actor.Define(Claims, actor.Spec[Claim]{OnCreate: (*Claim).create},
			actor.On(File, (*Claim).file),
			actor.OnQuery(LookAt, Claim.look),
			actor.OnRun(handling, handle, workflow.WithErrorValue("refused", errRefused)),
		),
		actor.Define(Funds, actor.Spec[Fund]{Migrations: fundTables},
			actor.On(Reserve, (*Fund).reserve),
			actor.On(Book, (*Fund).book),
			actor.On(Release, (*Fund).release),
			actor.OnQuery(Totals, Fund.totals),
		),
		actor.Define(Imports, actor.Spec[Import]{},
			actor.On(Advance, (*Import).advance),
			actor.OnQuery(Position, Import.position),
		),
	}
}
