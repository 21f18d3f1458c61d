package handle

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Rule determines when and how a schedule runs. Set one of Cron, Every and At. The other zero
// fields have defaults. Rules are comparable.
type Rule struct {
	// Cron is an expression of five fields: minute, hour, day of month, month and day of week; of
	// six with seconds first; or a descriptor such as "@daily".
	Cron string
	// Zone is the time zone of Cron, an IANA name such as "Europe/Zurich"; "" is UTC.
	Zone string
	// Every is a fixed interval of at least a second, in whole milliseconds, counted from the time
	// when the schedule is set.
	Every time.Duration
	// At is the time of a single run. A past time runs after the commit. The schedule ends with its
	// run.
	At time.Time

	// Missed is the policy for missed ticks; "" is MissedOnce.
	Missed host.Missed
	// CatchUp is how many of the latest missed ticks MissedAll makes up for, up to 10,000; 0 is
	// 100.
	CatchUp int
	// KeepRuns is how many runs the history keeps, up to 1,000; 0 is 100, negative is none.
	KeepRuns int
}

// String returns the time of the rule for people, such as "0 3 * * *", "every 1m0s" or "at
// 2030-01-02T03:04:05Z".
func (r Rule) String() string {
	switch {
	case r.Cron != "":
		return r.Cron
	case !r.At.IsZero():
		return "at " + r.At.Format(time.RFC3339Nano)
	}
	return "every " + r.Every.String()
}

// A Scheduled describes a schedule that is set.
type Scheduled[T any] struct {
	// Name is the schedule's contract name; Instance is "" unless it was set through
	// actor.Schedule.Named.
	Name, Instance string
	Rule           Rule
	Payload        T
	// Next is the next tick; zero if there is none.
	Next time.Time
	// Runs counts the runs, Attempts the failures of the current tick, Skipped the ticks that were
	// missed and not made up for.
	Runs     uint64
	Attempts int
	Skipped  uint64
	// LastResult is "ok", "error" or "", if there was no run yet; LastError says why.
	LastResult, LastError string
}

// A ScheduleRun is the result of one run of a schedule.
type ScheduleRun = host.ScheduleRun

// A Schedule is one schedule of one actor, for callers and operators. Made by actor.Schedule.Of.
// Safe for concurrent use.
type Schedule[T any] struct {
	_ [0]func(T) // keeps types of other values from being converted into it
	*schedule
}

// A schedule is a Schedule without its Go type.
type schedule struct {
	site     site.Site
	instance string
	payload  *codec.Value
	// all is the site that List reads. mine reports whether a name belongs to the contract.
	all  site.Site
	mine func(name string) bool
}

// Set sets or replaces the schedule, and returns it. The first call creates the actor. If the rule
// is the same as before, the ticks stay as they are. The error code is InvalidArgument if the rule
// is wrong.
func (s Schedule[T]) Set(ctx context.Context, rule Rule, payload T) (Scheduled[T], error) {
	out, err := s.set(ctx, rule, &payload)
	if err != nil {
		return Scheduled[T]{}, err
	}
	return ReadSchedule[T](out, s.payload, s.site.Contract)
}

func (s *schedule) set(ctx context.Context, rule Rule, payload any) (*host.Schedule, error) {
	data, err := s.payload.Append(host.CBOR, nil, payload)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "payload of %s: %s", s.site.Contract, err)
	}
	in := host.Schedule{Name: s.site.Name, Instance: s.instance, Payload: data}
	if err := FillSchedule(&in, rule, s.site.Contract); err != nil {
		return nil, err
	}
	out, err := site.Ask(ctx, &s.site, method.ScheduleSet, &in)
	return &out, err
}

// Get describes the schedule; false means that it is not set.
func (s Schedule[T]) Get(ctx context.Context) (Scheduled[T], bool, error) {
	h, err := s.get(ctx)
	if err != nil || h == nil {
		return Scheduled[T]{}, false, err
	}
	one, err := ReadSchedule[T](h, s.payload, s.site.Contract)
	return one, err == nil, err
}

// get returns the schedule, or nil if it is not set.
func (s *schedule) get(ctx context.Context) (*host.Schedule, error) {
	found, err := schedules(ctx, &s.site)
	for i := range found {
		if h := &found[i]; h.Name == s.site.Name && h.Instance == s.instance {
			return h, nil
		}
	}
	return nil, err
}

func schedules(ctx context.Context, at *site.Site) ([]host.Schedule, error) {
	out, err := site.Ask(ctx, at, method.ScheduleList, &host.ScheduleListInput{Name: at.Name})
	return out.Schedules, err
}

// List returns the instances of the schedule that are set, in the order of their names. For a
// schedule declared as "*", it returns all schedules without a declaration of their own.
func (s Schedule[T]) List(ctx context.Context) ([]Scheduled[T], error) {
	found, err := schedules(ctx, &s.all)
	var list []Scheduled[T]
	for i := range found {
		if !s.mine(found[i].Name) {
			continue
		}
		one, err := ReadSchedule[T](&found[i], s.payload, s.site.Contract)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, err
}

// Cancel removes the schedule and its history, and reports whether it was set.
func (s *schedule) Cancel(ctx context.Context) (bool, error) {
	n, err := site.Count(ctx, &s.site, method.ScheduleCancel, s.input())
	return n > 0, err
}

// Runs returns the runs that the history keeps ([Rule.KeepRuns]), the latest first. It returns none
// if the schedule is not set.
func (s *schedule) Runs(ctx context.Context) ([]ScheduleRun, error) {
	out, err := site.Ask(ctx, &s.site, method.ScheduleRuns, s.input())
	return out.Runs, err
}

// Trigger runs the schedule now, besides its ticks. It returns when the run is certain, not when it
// is done. The error code is NotFound if the schedule is not set.
func (s *schedule) Trigger(ctx context.Context) error {
	_, err := site.Ask(ctx, &s.site, method.ScheduleTrigger, s.input())
	return err
}

func (s *schedule) input() *host.ScheduleInput {
	return &host.ScheduleInput{Name: s.site.Name, Instance: s.instance}
}

// ruleOf returns the rule that a schedule was set with.
func ruleOf(h *host.Schedule) Rule {
	return Rule{
		Cron: h.Cron, Zone: h.Zone, Every: time.Duration(h.Every) * time.Millisecond, At: timeOf(h.At),
		Missed: h.Missed, CatchUp: h.CatchUp, KeepRuns: h.KeepRuns,
	}
}

func decodePayload(h *host.Schedule, as *codec.Value, contract string, payload any) error {
	if err := as.Decode(host.CBOR, h.Payload, payload); err != nil {
		return host.Errorf(host.Internal, "%s: %s", contract, err)
	}
	return nil
}
