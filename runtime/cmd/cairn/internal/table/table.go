// Package table prints for people: rows in aligned columns, and values as they stand in a cell or
// on a line.
package table

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// The colours. All prefixes have the same number of bytes, so that tabwriter, which counts bytes,
// aligns a column whose cells, the heading too, are each painted with one of them.
const (
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Grey   = "\x1b[90m"
	Bold   = "\x1b[01m"
	Plain  = "\x1b[0m" // ends a colour
)

// A Table prints rows in aligned columns. Its cells must not hold tabs or line breaks; see
// [OneLine].
type Table struct {
	w      *tabwriter.Writer
	colour bool
}

// New returns a table that prints to w, with colour if it is set.
func New(w io.Writer, colour bool) Table {
	return Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), colour}
}

// Row adds a row, which is printed at the next Flush.
func (t Table) Row(cells ...string) {
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// Flush aligns the rows since the last Flush and prints them.
func (t Table) Flush() { t.w.Flush() }

// Paint colours a cell of a column in which every cell is painted.
func (t Table) Paint(colour, cell string) string {
	if !t.colour {
		return cell
	}
	return colour + cell + Plain
}

// Size writes a number of bytes in the unit that leaves one to four digits.
func Size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n)/1024, 0
	for f >= 1023.95 && unit < len(units)-1 {
		f /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", f, units[unit])
}

// Count writes a number with its thousands apart.
func Count[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural writes a number of things.
func Plural[N int | int64 | uint64](n N, noun string) string {
	if stem, is := strings.CutSuffix(noun, "ry"); n != 1 && is {
		noun = stem + "ries"
	} else if n != 1 {
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Clock writes a time to the second, in UTC; "-" if there is none.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// OneLine makes s fit for a cell of a table and a line of a terminal: no line breaks, no control
// characters.
func OneLine(s string) string {
	clean := func(r rune) bool { return r == utf8.RuneError || r == '\t' || !unicode.IsPrint(r) }
	if !strings.ContainsFunc(s, clean) {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// Cut shortens s to at most n characters, the last of which says that it did.
func Cut(s string, n int) string {
	if n <= 0 || utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}
