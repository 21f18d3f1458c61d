package schedulerows

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

func mustClock(t testing.TB, expr, zone string) *clock {
	t.Helper()
	c, err := parseClock(expr, zone)
	must(t, err)
	return c
}

func TestTicksOfExpressions(t *testing.T) {
	const layout = "2006-01-02 15:04:05 -0700"
	for _, c := range []struct {
		name, expr, zone, from string
		want                   []string
	}{
		{"minutes", "*/20 * * * *", "", "2026-01-01 00:00:00 +0000", []string{"2026-01-01 00:20:00 +0000", "2026-01-01 00:40:00 +0000"}},
		{"seconds first", "30 0 12 * * *", "", "2026-01-01 00:00:00 +0000",
			[]string{"2026-01-01 12:00:30 +0000", "2026-01-02 12:00:30 +0000"}},
		{"a descriptor", "@monthly", "", "2026-01-15 00:00:00 +0000", []string{"2026-02-01 00:00:00 +0000"}},
		{"in capitals", "0 0 * MAR THU", "", "2026-01-01 00:00:00 +0000", []string{"2026-03-05 00:00:00 +0000"}},
		{"Sunday is 0 and 7", "0 0 * * 7", "", "2026-01-01 00:00:00 +0000", []string{"2026-01-04 00:00:00 +0000"}},
		{"either day, as in crontab", "0 0 13 * 5", "", "2026-01-01 00:00:00 +0000",
			[]string{"2026-01-02 00:00:00 +0000", "2026-01-09 00:00:00 +0000", "2026-01-13 00:00:00 +0000"}},
		{"leap day", "0 0 29 2 *", "", "2025-01-01 00:00:00 +0000", []string{"2028-02-29 00:00:00 +0000", "2032-02-29 00:00:00 +0000"}},
		{"leap day over 2100", "0 0 29 2 *", "", "2097-01-01 00:00:00 +0000", []string{"2104-02-29 00:00:00 +0000"}},
		{"the 31st", "0 0 31 * *", "", "2026-01-31 00:00:00 +0000", []string{"2026-03-31 00:00:00 +0000", "2026-05-31 00:00:00 +0000"}},
		{"over midnight of a zone", "0 0 * * *", "Europe/Zurich", "2026-01-01 12:00:00 +0000", []string{"2026-01-01 23:00:00 +0000"}},

		// Europe/Zurich: 2026-03-29 2:00 +0100 becomes 3:00 +0200, 2026-10-25 3:00 +0200 becomes
		// 2:00 +0100.
		{"a time that does not exist", "30 2 * * *", "Europe/Zurich", "2026-03-28 12:00:00 +0100",
			[]string{"2026-03-29 03:30:00 +0200", "2026-03-30 02:30:00 +0200"}},
		{"from right before the gap", "30 2 * * *", "Europe/Zurich", "2026-03-29 01:59:59 +0100",
			[]string{"2026-03-29 03:30:00 +0200", "2026-03-30 02:30:00 +0200"}},
		{"two ticks that meet are one", "30 2,3 * * *", "Europe/Zurich", "2026-03-29 00:00:00 +0100",
			[]string{"2026-03-29 03:30:00 +0200", "2026-03-30 02:30:00 +0200"}},
		{"quarters over the gap", "*/30 * * * *", "Europe/Zurich", "2026-03-29 01:15:00 +0100",
			[]string{"2026-03-29 01:30:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-29 03:30:00 +0200", "2026-03-29 04:00:00 +0200"}},
		{"a time that comes twice", "30 2 * * *", "Europe/Zurich", "2026-10-24 12:00:00 +0200",
			[]string{"2026-10-25 02:30:00 +0200", "2026-10-26 02:30:00 +0100"}},
		{"between the two", "30 2 * * *", "Europe/Zurich", "2026-10-25 02:15:00 +0100", []string{"2026-10-26 02:30:00 +0100"}},
		{"every hour in both hours", "30 * * * *", "Europe/Zurich", "2026-10-25 02:00:00 +0200",
			[]string{"2026-10-25 02:30:00 +0200", "2026-10-25 02:30:00 +0100", "2026-10-25 03:30:00 +0100"}},

		// America/New_York: 2026-03-08 2:00 -0500 becomes 3:00 -0400, 2026-11-01 2:00 -0400 becomes
		// 1:00 -0500.
		{"New York, forward", "15 2 * * *", "America/New_York", "2026-03-07 12:00:00 -0500",
			[]string{"2026-03-08 03:15:00 -0400", "2026-03-09 02:15:00 -0400"}},
		{"New York, back", "15 1 * * *", "America/New_York", "2026-10-31 12:00:00 -0400",
			[]string{"2026-11-01 01:15:00 -0400", "2026-11-02 01:15:00 -0500"}},
		{"every other hour is not every hour", "0 */2 * * *", "Europe/Zurich", "2026-10-25 01:00:00 +0200",
			[]string{"2026-10-25 02:00:00 +0200", "2026-10-25 04:00:00 +0100"}},

		{"half an hour forward", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00:00 +1030",
			[]string{"2026-10-04 02:45:00 +1100", "2026-10-05 02:15:00 +1100"}},
		{"a midnight that does not exist", "0 0 * * *", "America/Sao_Paulo", "2017-10-14 12:00:00 -0300",
			[]string{"2017-10-15 01:00:00 -0200", "2017-10-16 00:00:00 -0200"}},
		{"a day that does not exist", "0 12 30 12 *", "Pacific/Apia", "2011-12-01 00:00:00 -1000",
			[]string{"2011-12-31 12:00:00 +1400", "2012-12-30 12:00:00 +1400"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, err := time.Parse(layout, c.from)
			must(t, err)
			clock := mustClock(t, c.expr, c.zone)
			for _, want := range c.want {
				at = clock.next(at)
				w, err := time.Parse(layout, want)
				fatalIf(t, err != nil || !at.Equal(w), "%v, want %s (%v)", at.In(clock.zone), want, err)
			}
		})
	}
}

// ticks reports whether a moment is a tick of c, from the definition: each minute is looked at by
// itself.
func (c *clock) ticks(t time.Time) bool {
	start, _ := t.In(c.zone).ZoneBounds()
	offset, gap, again := c.change(t, start)
	matches := func(wall time.Time) bool {
		bit := func(field uint64, n int) bool { return field&(1<<n) != 0 }
		const star = 1 << 63
		dom, dow := bit(c.spec.Dom, wall.Day()), bit(c.spec.Dow, int(wall.Weekday()))
		day := dom || dow
		if (c.spec.Dom|c.spec.Dow)&star != 0 {
			day = dom && dow
		}
		return day && bit(c.spec.Month, int(wall.Month())) && bit(c.spec.Hour, wall.Hour()) &&
			bit(c.spec.Minute, wall.Minute()) && wall.Second() == 0
	}
	since := t.Sub(start)
	if since < gap && matches(t.UTC().Add(offset-gap)) {
		return true
	}
	return matches(t.UTC().Add(offset)) && (c.hourly || since >= again)
}

func TestTicksAgreeWithTheirDefinitionMinuteByMinute(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	field := func(lo, hi int) string {
		switch n := lo + r.IntN(hi-lo+1); r.IntN(4) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", 1+r.IntN((hi-lo)/2))
		case 2:
			return fmt.Sprintf("%d,%d", n, lo+r.IntN(hi-lo+1))
		default:
			return fmt.Sprint(n)
		}
	}
	for zone, day := range map[string]string{
		"Europe/Zurich": "2026-03-29", "Europe/London": "2026-10-25", "America/New_York": "2026-11-01", "Australia/Lord_Howe": "2026-10-04",
		"Pacific/Apia": "2011-12-30", "America/Sao_Paulo": "2017-10-15", "Asia/Kathmandu": "2026-01-01", "UTC": "2026-02-28", "Africa/Casablanca": "2026-02-15",
	} {
		first, err := time.Parse(time.DateOnly, day)
		must(t, err)
		first = first.Add(-36 * time.Hour)
		for range 15 {
			expr := field(0, 59) + " " + []string{"*", "2", "0-3", "*/2", field(0, 23)}[r.IntN(5)] + " " +
				[]string{"*", field(1, 28)}[r.IntN(2)] + " * " + []string{"*", field(0, 6)}[r.IntN(2)]
			c := mustClock(t, expr, zone)
			next := c.next(first.Add(-time.Minute))
			for at := first; at.Before(first.Add(72 * time.Hour)); at = at.Add(time.Minute) {
				if want := c.ticks(at); want != at.Equal(next) {
					t.Fatalf("%q in %s: %v is a tick: %v; next says %v", expr, zone, at.In(c.zone), want, next.In(c.zone))
				} else if want {
					next = c.next(at)
				}
			}
		}
	}
}

func TestExpressionsThatAreRefusedSayWhy(t *testing.T) {
	for _, c := range []struct{ expr, zone, text string }{
		{" ", "", "cron: \"\" has 0 fields; an expression has 5"},
		{"* * * *", "", "cron: \"* * * *\" has 4 fields"},
		{"* * * * * * *", "", "has 7 fields"},
		{"60 * * * *", "", `cron: minute: "60" is not a number from 0 to 59`},
		{"60 * * * * *", "", `cron: second: "60" is not a number from 0 to 59`},
		{"* 24 * * *", "", `cron: hour: "24" is not a number from 0 to 23`},
		{"* * 0 * *", "", `cron: day of month: "0" is not a number from 1 to 31`},
		{"* * * 1,foo *", "", `cron: month: "foo" is not a number from 1 to 12 or a name from jan to dec`},
		{"* * * * 8", "", `cron: day of week: "8" is not a number from 0 to 7 or a name from sun to sat`},
		{"* * * * 5-1", "", `cron: day of week: the range "5-1" ends before it begins`},
		{"* 22-2 * * *", "", `cron: hour: the range "22-2" ends before it begins`},
		{"*/0 * * * *", "", `cron: minute: the step "0" is not a number from 1 to 59`},
		{"*/60 * * * *", "", `the step "60" is not a number from 1 to 59`},
		{"1-5/ * * * *", "", `the step "" is not a number from 1 to 4`},
		{"1-2-3 * * * *", "", `"2-3" is not a number`},
		{"+1 * * * *", "", `"+1" is not a number`},
		{"1/2/3 * * * *", "", `the step "2/3"`},
		{"@every 5m", "", "every_ms"},
		{"@EVERY 5m", "", "every_ms"},
		{"@reboot", "", "cron: \"@reboot\" is not one of @yearly"},
		{"TZ=UTC * * * * *", "", "set zone"},
		{", * * * *", "", "cron: minute: a value is missing"},
		{"* * L * *", "", `cron: day of month: "l"`},
		{"H * * * *", "", `cron: minute: "h"`},
		{"* * * * *", "Europe/Bern", "zone: there is no time zone"},
		{"* * * * *", "../../etc/passwd", "zone: "},
		{"* * * * *", "Local", "zone: "},
		{strings.Repeat("*", 300), "", "limit of 256"},
		{"* * * * *", strings.Repeat("x", 65), "limit of 64"},
	} {
		_, _, err := new(Book).check(&host.Schedule{Name: "s", Cron: c.expr, Zone: c.zone})
		if code := host.CodeOf(err); (code != host.InvalidArgument && code != host.TooLarge) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q in %q: %v", c.expr, c.zone, err)
		}
	}
}

// The parser alone takes ranges that end before they begin, some of them with ends that the field
// does not have.
func TestTheParserTakesWhatTheCheckOfFieldsTakes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	number := func() string { return fmt.Sprint(r.IntN(64)) }
	taken := 0
	for range 6_000 {
		var fields []string
		for range 5 + r.IntN(2) {
			item := pick("*", "?", number(), number()+"-"+number(), number()+"-"+number(), "jan", "SUN", "fri-sun", "mon-wed")
			if r.IntN(3) == 0 {
				item += "/" + pick("1", "2", number())
			}
			if r.IntN(4) == 0 {
				item += "," + number()
			}
			fields = append(fields, pick("*", "*", item))
		}
		expr := strings.Join(fields, " ")
		err := checkCron(plain(expr))
		_, parsed := parseClock(expr, "")
		if err == nil {
			taken++
		}
		fatalIf(t, err == nil && parsed != nil, "%q: the check says %v, the parser %v", expr, err, parsed)
	}
	errorIf(t, taken < 300, "only %d of 6,000 expressions were taken", taken)
}

func FuzzCron(f *testing.F) {
	for _, s := range []string{"*/5 * * * *", "0 0 29 2 *", "@daily", ", * * * *", "1-5/2 0 22-2 * 1,5", "0 0 31 2 *",
		"59 59 23 * DEC SUN"} {
		f.Add(s, "Europe/Zurich", int64(1_774_742_399_000))
	}
	f.Fuzz(func(t *testing.T, expr, zone string, ms int64) {
		c, err := parseClock(expr, zone)
		if err != nil {
			fatalIf(t, host.CodeOf(err) != host.InvalidArgument && host.CodeOf(err) != host.TooLarge, "%v", err)
			return
		}
		r := rule{clock: c}
		ms = max(ms, 0) % maxTime
		began := time.Now()
		last := ms
		for range 20 {
			next := r.after(last)
			if next == 0 {
				break
			}
			fatalIf(t, next <= last || next%1000 != 0 || bits.OnesCount64(c.spec.Minute) == 0, "%q: %d after %d", expr, next, last)
			last = next
		}
		took := time.Since(began)
		fatalIf(t, took > time.Minute, "%q took %v", expr, took)
	})
}

func BenchmarkNext(b *testing.B) {
	for _, expr := range []string{"* * * * * *", "*/5 * * * *", "0 3 * * *", "0 0 29 2 *", "0 0 31 2 *"} {
		b.Run(expr, func(b *testing.B) {
			c := mustClock(b, expr, "Europe/Zurich")
			at := time.UnixMilli(1_771_891_200_000)
			b.ReportAllocs()
			for b.Loop() {
				c.next(at)
			}
		})
	}
}
