package actor

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A Rule says when a schedule runs: made by [Cron], [Every] and [At]. It is comparable.
type Rule struct {
	cron  string
	every time.Duration
	at    time.Time
}

// Cron is the rule of [ScheduleInstance.Cron].
func Cron(expr string) Rule { return Rule{cron: expr} }

// Every is the rule of [ScheduleInstance.Every].
func Every(d time.Duration) Rule { return Rule{every: d} }

// At is the rule of [ScheduleInstance.At].
func At(t time.Time) Rule { return Rule{at: t} }

// String returns the rule as people read it, such as "0 3 * * *", "every 1m0s" or "at
// 2030-01-02T03:04:05Z".
func (r Rule) String() string {
	switch {
	case r.cron != "":
		return r.cron
	case !r.at.IsZero():
		return "at " + r.at.Format(time.RFC3339Nano)
	}
	return "every " + r.every.String()
}

func ruleOf(h *host.Schedule) Rule {
	return Rule{cron: h.Cron, every: time.Duration(h.Every) * time.Millisecond, at: timeOf(h.At)}
}

// fill writes the rule into a schedule.
func (r Rule) fill(s *host.Schedule) error {
	switch {
	case r.cron != "":
		s.Cron = r.cron
	case !r.at.IsZero():
		s.At = &r.at
	case r.every < host.MinScheduleEvery:
		return Errorf(InvalidArgument, "the interval %s is too short; it is at least %s", r.every, host.MinScheduleEvery)
	default:
		s.Every = millis(r.every)
	}
	return nil
}

// Missed says what happens to ticks of a schedule that came while the node was down, the actor
// paused or an earlier run under way.
type Missed = host.Missed

// The policies for missed ticks; MissedOnce is the default. package host documents each.
const (
	MissedOnce = host.MissedOnce
	MissedAll  = host.MissedAll
	MissedNone = host.MissedNone
)

// A CronOption changes a schedule with a cron rule: a [ScheduleOption], or [In].
type CronOption interface{ applyCron(*host.Schedule) }

// A ScheduleOption changes a schedule.
type ScheduleOption interface {
	CronOption
	applySchedule(*host.Schedule)
}

// In sets the time zone of a cron expression by its IANA name, such as "Europe/Zurich".
func In(zone string) CronOption { return inZone(zone) }

type inZone string

func (z inZone) applyCron(s *host.Schedule) { s.Zone = string(z) }

type scheduleOption func(*host.Schedule)

func (o scheduleOption) applyCron(s *host.Schedule)     { o(s) }
func (o scheduleOption) applySchedule(s *host.Schedule) { o(s) }

// CatchUpAll makes up for each of the latest n missed ticks with a run of its own, in order, and
// skips earlier ones; 0 means 100. n is at most 10,000.
func CatchUpAll(n int) ScheduleOption {
	return scheduleOption(func(s *host.Schedule) { s.Missed, s.CatchUp = host.MissedAll, n })
}

// CatchUpNone makes up for no missed tick: the schedule waits for the next.
func CatchUpNone() ScheduleOption {
	return scheduleOption(func(s *host.Schedule) { s.Missed, s.CatchUp = host.MissedNone, 0 })
}

// KeepRuns sets how many runs the history keeps: 100 without it, at most 1,000; 0 keeps none.
func KeepRuns(n int) ScheduleOption {
	return scheduleOption(func(s *host.Schedule) {
		if s.KeepRuns = n; n <= 0 {
			s.KeepRuns = -1
		}
	})
}

func cronOptions(opts []ScheduleOption) []CronOption {
	out := make([]CronOption, len(opts))
	for i, o := range opts {
		out[i] = o
	}
	return out
}

// schedule makes a schedule of a rule, an encoded payload and options.
func (i ScheduleInstance[S, T]) schedule(rule Rule, payload []byte, opts []CronOption) (host.Schedule, error) {
	s := host.Schedule{Name: i.name, Instance: i.instance, Payload: payload}
	for _, o := range opts {
		o.applyCron(&s)
	}
	if err := rule.fill(&s); err != nil {
		return s, Errorf(InvalidArgument, "%s: %s", i.decl, err.(*Error).Message)
	}
	if s.Zone != "" && s.Cron == "" {
		return s, Errorf(InvalidArgument, "%s: only a cron rule has a time zone", i.decl)
	}
	return s, nil
}

// Set is [ScheduleInstance.Set] for instance "".
func (s *Schedule[S, T]) Set(ctx context.Context, ref Ref[S], rule Rule, payload T, opts ...CronOption) (Scheduled[T], error) {
	return s.only().Set(ctx, ref, rule, payload, opts...)
}

// GetOf is [ScheduleInstance.GetOf] for instance "".
func (s *Schedule[S, T]) GetOf(ctx context.Context, ref Ref[S]) (Scheduled[T], bool, error) {
	return s.only().GetOf(ctx, ref)
}

// ListOf is [Schedule.List] from outside. The error code is NotFound if there is no such actor.
func (s *Schedule[S, T]) ListOf(ctx context.Context, ref Ref[S]) ([]Scheduled[T], error) {
	at, err := ref.site(s.decl)
	if err != nil {
		return nil, err
	}
	out, err := ask(ctx, at, method.ScheduleList, &host.ScheduleListInput{Name: s.listName()})
	if err != nil {
		return nil, err
	}
	return s.list(out.Schedules)
}

// CancelOf is [ScheduleInstance.CancelOf] for instance "".
func (s *Schedule[S, T]) CancelOf(ctx context.Context, ref Ref[S]) (bool, error) {
	return s.only().CancelOf(ctx, ref)
}

// Runs is [ScheduleInstance.Runs] for instance "".
func (s *Schedule[S, T]) Runs(ctx context.Context, ref Ref[S]) ([]ScheduleRun, error) {
	return s.only().Runs(ctx, ref)
}

// Trigger is [ScheduleInstance.Trigger] for instance "".
func (s *Schedule[S, T]) Trigger(ctx context.Context, ref Ref[S]) error {
	return s.only().Trigger(ctx, ref)
}

// A ScheduleRun is the result of one run of a schedule.
type ScheduleRun = host.ScheduleRun

// Set sets the schedule of an actor from outside and returns it as it is then. In a turn of the
// actor itself, use [ScheduleInstance.Cron], [ScheduleInstance.Every] and [ScheduleInstance.At].
func (i ScheduleInstance[S, T]) Set(ctx context.Context, ref Ref[S], rule Rule, payload T, opts ...CronOption) (Scheduled[T], error) {
	at, err := i.site(ref)
	if err != nil {
		return Scheduled[T]{}, err
	}
	data, err := i.payload.append(host.CBOR, nil, &payload)
	if err != nil {
		return Scheduled[T]{}, Errorf(InvalidArgument, "payload of %s: %s", i.decl, err)
	}
	s, err := i.schedule(rule, data, opts)
	if err != nil {
		return Scheduled[T]{}, err
	}
	out, err := ask(ctx, at, method.ScheduleSet, &s)
	if err != nil {
		return Scheduled[T]{}, err
	}
	return i.scheduled(&out)
}

// GetOf describes the schedule of an actor from outside; false means that it is not set. The error
// code is NotFound if there is no such actor.
func (i ScheduleInstance[S, T]) GetOf(ctx context.Context, ref Ref[S]) (Scheduled[T], bool, error) {
	at, err := i.site(ref)
	if err != nil {
		return Scheduled[T]{}, false, err
	}
	out, err := ask(ctx, at, method.ScheduleList, &host.ScheduleListInput{Name: i.name})
	if err != nil {
		return Scheduled[T]{}, false, err
	}
	return i.pick(out.Schedules)
}

// CancelOf removes the schedule of an actor and its history from outside, and reports whether there
// was one.
func (i ScheduleInstance[S, T]) CancelOf(ctx context.Context, ref Ref[S]) (bool, error) {
	at, err := i.site(ref)
	if err != nil {
		return false, err
	}
	n, err := count(ctx, at, method.ScheduleCancel, i.input())
	return n > 0, err
}

// Runs returns the latest runs of the schedule of an actor, the latest first, as far as its history
// keeps them ([KeepRuns]).
func (i ScheduleInstance[S, T]) Runs(ctx context.Context, ref Ref[S]) ([]ScheduleRun, error) {
	at, err := i.site(ref)
	if err != nil {
		return nil, err
	}
	out, err := ask(ctx, at, method.ScheduleRuns, i.input())
	return out.Runs, err
}

// Trigger has the schedule of an actor run now, besides its ticks. It returns when that is sure,
// not when the run is done.
func (i ScheduleInstance[S, T]) Trigger(ctx context.Context, ref Ref[S]) error {
	at, err := i.site(ref)
	if err != nil {
		return err
	}
	_, err = ask(ctx, at, method.ScheduleTrigger, i.input())
	return err
}

func (i ScheduleInstance[S, T]) input() *host.ScheduleInput {
	return &host.ScheduleInput{Name: i.name, Instance: i.instance}
}

// site returns the actor that the schedule is used on from outside.
func (i ScheduleInstance[S, T]) site(ref Ref[S]) (site, error) {
	at, err := ref.site(i.decl)
	if err == nil {
		err = i.err()
	}
	return at, err
}
