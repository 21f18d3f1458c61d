package host

import "time"

// The bounds of schedules.
const (
	DefaultScheduleRuns = 100
	MaxScheduleRuns     = 1_000
	// MinScheduleEvery is the shortest interval.
	MinScheduleEvery = time.Second
	// DefaultScheduleCatchUp bounds the missed ticks that MissedAll makes up for;
	// MaxScheduleCatchUp is the greatest bound.
	DefaultScheduleCatchUp = 100
	MaxScheduleCatchUp     = 10_000
	// MaxSchedules bounds the schedules of one actor.
	MaxSchedules = 10_000
)

// A ScheduleMethod is one schedule that a behavior handles.
type ScheduleMethod struct {
	// Name is unique among the behavior's schedules, or AnyName.
	Name    string
	Handler string
}

// Missed is the policy for ticks that passed while the node was down, the actor was paused or an
// earlier run was under way.
type Missed string

// The policies for missed ticks. The default is MissedOnce.
const (
	// MissedOnce runs once for all missed ticks.
	MissedOnce Missed = "once"
	// MissedAll runs once for each missed tick, in order, up to a cap; the oldest beyond the cap
	// are skipped.
	MissedAll Missed = "all"
	// MissedNone runs for none of them and waits for the next tick.
	MissedNone Missed = "none"
)

// A Schedule says when an actor's schedule handler runs. Exactly one of Cron, Every and At is set.
type Schedule struct {
	// Name is the schedule's contract name, Instance tells schedules of one name apart.
	Name     string `json:"name"`
	Instance string `json:"instance,omitempty"`
	// Cron is an expression of five fields (minute, hour, day of month, month, day of week), or six
	// with seconds first, or a descriptor such as @daily. Zone is the IANA name of its time zone;
	// "" means UTC.
	Cron string `json:"cron,omitempty"`
	Zone string `json:"zone,omitempty"`
	// Every is a fixed interval in milliseconds, counted from when it was set.
	Every int64 `json:"every_ms,omitempty"`
	// At is one moment; the schedule ends with its run.
	At *time.Time `json:"at,omitempty"`
	// Missed is the policy for missed ticks, CatchUp the cap of MissedAll.
	Missed  Missed `json:"missed,omitempty"`
	CatchUp int    `json:"catch_up,omitempty"`
	// KeepRuns is how many runs the history keeps: 100 by default, negative for none.
	KeepRuns int `json:"keep_runs,omitempty"`
	// Payload is handed to the handler: CBOR inside the node, the request's encoding in requests.
	Payload Raw `json:"payload,omitempty"`

	// The runtime sets the following fields.

	// Next is the next tick; nil if there is none.
	Next *time.Time `json:"next,omitempty"`
	// Runs counts the runs, Attempts the failures of the current tick.
	Runs     uint64 `json:"runs,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	// Skipped counts ticks that were missed and not made up for.
	Skipped uint64 `json:"skipped,omitempty"`
	// LastResult is "ok", "error" or ""; LastError is the cause in words for every caller.
	LastResult string `json:"last_result,omitempty"`
	LastError  string `json:"last_error,omitempty"`
}

// A Tick describes one run of a schedule to its handler.
type Tick struct {
	Name, Instance string
	// Due is the time for which the run was due.
	Due time.Time
	// Run counts the runs, from 1; Attempt the attempts of this one, from 1.
	Run     uint64
	Attempt int
	// Missed counts ticks since the last run that get no run of their own.
	Missed uint64
}

// A ScheduleRun is the result of one run.
type ScheduleRun struct {
	Run      uint64    `json:"run"`
	Due      time.Time `json:"due"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// Result is "ok" or "error"; Error is the cause in words for operators.
	Result  string `json:"result"`
	Error   string `json:"error,omitempty"`
	Attempt int    `json:"attempt"`
	Missed  uint64 `json:"missed,omitempty"`
}
