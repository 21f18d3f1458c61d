// Package usage has the work of actors, for operators: of each day, for billing, and of the last
// minute.
package usage

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// Kept is how many days an actor keeps, including today.
const Kept = 35

// The bounds of a page of actors.
const (
	DefaultPage = 100
	MaxPage     = 1000
	DefaultTop  = 10
)

// A Work is the work of an actor in some time.
type Work struct {
	// Calls are the actions, queries and built-in methods that it answered.
	Calls int64 `json:"calls"`
	Turns int64 `json:"turns"`
	// HandlerUS is the time in handlers of turns and queries, in microseconds.
	HandlerUS int64 `json:"handler_us"`
	// BytesWritten are the keys and values of its commits, and BytesSent its answers and the events
	// that clients got.
	BytesWritten int64 `json:"bytes_written"`
	BytesSent    int64 `json:"bytes_sent"`
	// BytesStored are its keys and values at the end of that time.
	BytesStored int64 `json:"bytes_stored"`
}

// GetInput selects days of an actor.
type GetInput struct {
	// From and To are the first and the last day, such as 2026-11-27, in UTC. If absent, they are
	// the first that is kept and today.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// GetOutput has the days of an actor in their order, including days without work.
type GetOutput struct {
	Days []Day `json:"days"`
}

// A Day is the work of an actor on a day.
type Day struct {
	Day string `json:"day"`
	Work
}

// A Query selects actors and a day.
type Query struct {
	Day    string // today if it is empty
	Type   string
	Prefix []string
	Limit  int
	Cursor string
}

// A Page is a page of actors in the order of their keys, without actors that were created after the
// day.
type Page struct {
	Day    string  `json:"day"`
	Actors []Actor `json:"actors"`
	// Uncertain names actors that are left out, because the disk failed and it is not known whether
	// their last commit is kept.
	Uncertain []host.Address `json:"uncertain,omitempty"`
	// Cursor selects the next page; absent after the last.
	Cursor string `json:"cursor,omitempty"`
}

// An Actor is the work of one actor.
type Actor struct {
	Type string   `json:"type"`
	Key  []string `json:"key"`
	Work
}

// A TopQuery selects the awake actors that did most in the last minute.
type TopQuery struct {
	By    Measure
	Limit int
}

// A Measure is a number by which actors are compared.
type Measure string

// The measures.
const (
	ByTurns Measure = "turns"
	ByTime  Measure = "time"  // in handlers
	ByBytes Measure = "bytes" // written and sent
	BySize  Measure = "size"  // what they have stored
)

// Measures lists the measures.
func Measures() []Measure { return []Measure{ByTurns, ByTime, ByBytes, BySize} }

// Of returns the number by which an actor is compared.
func (m Measure) Of(w *Work) int64 {
	switch m {
	case ByTurns:
		return w.Turns
	case ByTime:
		return w.HandlerUS
	case ByBytes:
		return w.BytesWritten + w.BytesSent
	}
	return w.BytesStored
}

// A Top has the actors that did most, in descending order.
type Top struct {
	By     Measure `json:"by"`
	Actors []Actor `json:"actors"`
}

// A Meter is a node that counts the work of its actors. Neither method wakes an actor. The errors
// are *host.Error.
type Meter interface {
	// Usage returns what actors did on a day.
	Usage(ctx context.Context, q Query) (Page, error)
	// Top returns the actors that did most in the last minute, of those in memory.
	Top(q TopQuery) (Top, error)
}

// ParseDay returns the number of a day since 1970.
func ParseDay(text string) (int64, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, host.Errorf(host.InvalidArgument, "%.40q is no day such as 2026-11-27", text)
	}
	return DayOf(t), nil
}

// DayOf returns the number of the day of a time, in UTC.
func DayOf(t time.Time) int64 {
	return (t.Unix() - int64(mod(t.Unix(), secondsOfDay))) / secondsOfDay
}

const secondsOfDay = 24 * 60 * 60

// mod is the remainder that is not negative.
func mod(n, of int64) int64 { return (n%of + of) % of }

// FormatDay returns the text of a day.
func FormatDay(day int64) string { return time.Unix(day*secondsOfDay, 0).UTC().Format(time.DateOnly) }

// WriteCSV writes a page as CSV (RFC 4180), after a line with the names of the columns if heading
// is set. name returns the address of an actor; its type comes first, so no cell is a formula.
func WriteCSV(w io.Writer, p *Page, heading bool, name func(typ string, key []string) string) error {
	c := csv.NewWriter(w)
	c.UseCRLF = true
	var lines [][]string
	if heading {
		lines = append(lines,
			[]string{"day", "actor", "calls", "turns", "handler_us", "bytes_written", "bytes_sent", "bytes_stored"})
	}
	for i := range p.Actors {
		a := &p.Actors[i]
		line := []string{p.Day, name(a.Type, a.Key)}
		for _, n := range [...]int64{a.Calls, a.Turns, a.HandlerUS, a.BytesWritten, a.BytesSent, a.BytesStored} {
			line = append(line, strconv.FormatInt(n, 10))
		}
		lines = append(lines, line)
	}
	return c.WriteAll(lines)
}
