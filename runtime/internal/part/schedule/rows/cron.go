package schedulerows

import (
	"strings"
	"time"
	_ "time/tzdata" // zones are the same on machines that have none

	"github.com/netresearch/go-cron"

	"github.com/cairn-run/cairn/actor/host"
)

// maxCron bounds an expression, maxZone the name of a time zone, in bytes.
const (
	maxCron = 256
	maxZone = 64
)

// searchYears is how far ahead a tick is looked for. The rarest days come once in eight years: 29
// February around 2100.
const searchYears = 12

// A clock computes the ticks of a cron expression in a time zone.
//
// The expression is matched against wall clock time, and a wall clock time is turned into a moment
// as iCalendar does:
//
//   - Times that do not exist, because the clocks go forward, count as long after the change as
//     they would have been after it began: where 2:00 becomes 3:00, a tick of 2:30 comes at 3:30.
//     Two ticks that meet are one.
//   - Of times that come twice, because the clocks go back, the first counts. But an expression
//     that ticks in every hour of the day ticks in both: "every quarter of an hour" does not pause
//     for an hour.
type clock struct {
	spec   *cron.SpecSchedule
	zone   *time.Location
	hourly bool // ticks in every hour of the day
}

// parseClock compiles an expression that checkCron accepted, now or in an older version. The error
// code is InvalidArgument.
func parseClock(expr, zone string) (*clock, error) {
	fault := func(field, text string) error {
		return host.Errorf(host.InvalidArgument, "%s: %s", field, text).With("field", field)
	}
	switch {
	case len(zone) > maxZone:
		return nil, host.OverLimit("zone bytes", maxZone, int64(len(zone))).With("field", "zone")
	case zone == "Local":
		return nil, fault("zone", "Local depends on the machine; use an IANA name such as Europe/Zurich, or UTC")
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fault("zone", "there is no time zone "+quote(zone))
	}
	expr = plain(expr)
	parser, err := cron.TryNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.WithMaxSearchYears(searchYears).Parse(expr)
	if err != nil {
		return nil, fault("cron", quote(expr)+" is not an expression")
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fault("cron", quote(expr)+" is not an expression")
	}
	spec.Location = time.UTC
	const days, hours = uint64(1)<<63 - 1, uint64(1)<<24 - 1 // bit 63 of a field says that it is a star
	for _, field := range []uint64{spec.Second, spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow} {
		if field&days == 0 {
			return nil, fault("cron", quote(expr)+" has a field without values")
		}
	}
	return &clock{spec: spec, zone: loc, hourly: spec.Hour&hours == hours}, nil
}

// plain returns an expression in small letters: names of days and months are only understood so,
// where an H means nothing else.
func plain(expr string) string { return strings.ToLower(strings.TrimSpace(expr)) }

// quote shortens and quotes a text of a caller, for an error.
func quote(s string) string {
	if len(s) > 100 {
		s = s[:100] + "..."
	}
	return "\"" + strings.ToValidUTF8(s, "?") + "\""
}

// next returns the first tick after t; the zero time if there is none in the next years.
//
// Between two changes of the clocks, wall clock time is UTC and an offset, so the expression can be
// matched in UTC. The search goes from one such stretch to the next that can have a tick.
func (c *clock) next(t time.Time) time.Time {
	from := t.Truncate(time.Second).Add(time.Second) // the first moment that may be the tick
	for range 64 {
		start, end := from.In(c.zone).ZoneBounds()
		offset, gap, again := c.change(from, start)
		at := from
		if again > 0 && !c.hourly && at.Before(start.Add(again)) {
			at = start.Add(again) // what comes twice has come
		}
		wall := c.match(at.Add(offset))
		if wall.IsZero() {
			return wall
		}
		tick := wall.Add(-offset)
		if gap > 0 && from.Before(start.Add(gap)) {
			// The wall clock times that were left out, as long after the change.
			if late := c.match(from.Add(offset - gap)).
				Add(gap - offset); late.Before(start.Add(gap)) && late.Before(tick) {
				tick = late
			}
		}
		if end.IsZero() || tick.Before(end) {
			return tick.In(t.Location())
		}
		// No tick before wall in any stretch, except when clocks are put forward or back.
		from = end.UTC()
		if far := tick.Add(-72 * time.Hour); far.After(from) {
			from = far
		}
	}
	return time.Time{}
}

// change returns the offset of a stretch of time that begins at start, and by how much the clocks
// went forward (gap) or back (again) when it began.
func (c *clock) change(from, start time.Time) (offset, gap, again time.Duration) {
	seconds := func(t time.Time) time.Duration {
		_, s := t.In(c.zone).Zone()
		return time.Duration(s) * time.Second
	}
	offset = seconds(from)
	if start.IsZero() {
		return offset, 0, 0
	}
	before := seconds(start.Add(-1))
	return offset, max(offset-before, 0), max(before-offset, 0)
}

// match returns the first wall clock time at or after wall, both as if they were in UTC, that the
// expression matches.
func (c *clock) match(wall time.Time) time.Time { return c.spec.Next(wall.UTC().Add(-time.Nanosecond)) }
