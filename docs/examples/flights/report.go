package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/docs/examples/flights/data"
	"github.com/cairn-run/cairn/docs/examples/flights/traffic"
)

// report prints the airports with the latest departures, and totals. It depends only on what was
// imported: not on when, in how many runs, or what crashed meanwhile.
func report(out io.Writer, s *survey, airports map[string]data.Airport) error {
	all := s.departures()
	t := table{columns: []column{
		{title: "#", right: true}, {}, {title: "Airport", width: 34}, {title: "City", width: 18},
		{title: "Flights", right: true}, {title: "Mean delay", right: true}, {title: fmt.Sprintf("Over %d min", traffic.LateAfter), right: true},
		{title: "Worst hour"}, {title: "Worst route"},
	}}
	for i, a := range s.worstAirports(listed) {
		known := airports[a.Airport]
		worst, hour := "-", "-"
		if r, ok := s.worstRoute(a.Airport); ok {
			worst = fmt.Sprintf("to %s, %s min", r.Destination, mean(r.Delays))
		}
		if h, ok := s.hours[a.Airport]; ok {
			hour = fmt.Sprintf("%s, %s min", h.Name, mean(traffic.Summary{Flights: h.Flights, TotalDelay: h.TotalDelay}))
		}
		t.row(fmt.Sprint(i+1), a.Airport, known.Name, known.City, grouped(a.Departures.Flights), mean(a.Departures)+" min",
			share(a.Departures.Late, a.Departures.Flights), hour, worst)
	}
	var late, minutes int64
	for _, a := range s.airports {
		late += a.Departures.Late
		minutes += a.Departures.TotalDelay
	}
	b := new(strings.Builder)
	fmt.Fprintf(b, "Worst airports by mean delay, of those with at least %s departures (hours and routes: %s)\n\n",
		grouped(s.leastDepartures()), grouped(s.leastLegs()))
	t.write(b)
	fmt.Fprintf(b, "\n%s flights, %s min late on average, %s over %d min\n", grouped(all),
		mean(traffic.Summary{Flights: all, TotalDelay: minutes}), share(late, all), traffic.LateAfter)
	fmt.Fprintf(b, "%s departures and %s arrivals at %s airports, %s flights on %s routes\n",
		grouped(all), grouped(s.arrivals()), grouped(int64(len(s.airports))), grouped(s.legs()), grouped(int64(len(s.routes))))
	fmt.Fprintf(b, "%s claims for more than %d min: %s paid ($%s), %s rejected, %s undone ($%s, back in the fund); $%s are set aside\n",
		grouped(s.filed()), traffic.ClaimAfter, grouped(s.ended(traffic.Paid)), grouped(s.fund.Paid), grouped(s.ended(traffic.Rejected)),
		grouped(s.ended(traffic.Undone)), grouped(s.fund.Undone), grouped(s.fund.Reserved))
	_, err := io.WriteString(out, b.String())
	return err
}

// mean writes a mean delay with one decimal.
func mean(s traffic.Summary) string { return ratio(s.TotalDelay*10, s.Flights, "") }

// share writes a part of a whole as a percentage with one decimal.
func share(part, whole int64) string { return ratio(part*1000, whole, " %") }

// ratio writes tenths/of with one decimal, rounded half away from zero, in integers.
func ratio(tenths, of int64, unit string) string {
	if of == 0 {
		return "0.0" + unit
	}
	sign, n := "", tenths
	if n < 0 {
		sign, n = "-", -n
	}
	n = (2*n + of) / (2 * of)
	if n == 0 {
		sign = ""
	}
	return fmt.Sprintf("%s%d.%d%s", sign, n/10, n%10, unit)
}

// A table aligns its columns by the widest text in each.
type table struct {
	columns []column
	rows    [][]string
}

type column struct {
	title string
	right bool
	// width is where longer texts are cut, in characters; 0 for never.
	width int
}

func (t *table) row(texts ...string) { t.rows = append(t.rows, texts) }

func (t *table) write(b *strings.Builder) {
	lines := make([][]string, 0, len(t.rows)+1)
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	lines = append(append(lines, titles), t.rows...)
	widths := make([]int, len(t.columns))
	for _, line := range lines {
		for i, c := range t.columns {
			if c.width > 0 && utf8.RuneCountInString(line[i]) > c.width {
				line[i] = string([]rune(line[i])[:c.width-1]) + "…"
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
	}
	for _, line := range lines {
		var text strings.Builder
		for i, c := range t.columns {
			if i > 0 {
				text.WriteString("  ")
			}
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(line[i]))
			if c.right {
				text.WriteString(padding + line[i])
			} else {
				text.WriteString(line[i] + padding)
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " "))
		b.WriteByte('\n')
	}
}
