package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

// The colours. All prefixes have the same number of bytes, so that tabwriter, which counts bytes, aligns a column whose
// cells, the heading too, are each painted with one of them.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	grey   = "\x1b[90m"
	bold   = "\x1b[01m"
	plain  = "\x1b[0m"
)

// A table prints rows in aligned columns. Its cells must not hold tabs or line breaks; see oneLine.
type table struct {
	w      *tabwriter.Writer
	colour bool
}

func (c *cli) table() table {
	return table{tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0), c.colour(c.stdout)}
}

func (t table) row(cells ...string) {
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t table) flush() { t.w.Flush() }

// paint colours a cell of a column in which every cell is painted.
func (t table) paint(colour, cell string) string {
	if !t.colour {
		return cell
	}
	return colour + cell + plain
}

func (t table) state(s host.State) string {
	switch s {
	case host.Awake:
		return t.paint(green, string(s))
	case host.Failed:
		return t.paint(red, string(s))
	case host.Paused:
		return t.paint(yellow, string(s))
	}
	return t.paint(grey, string(s))
}

// printJSON prints v as one line.
func (c *cli) printJSON(v any) error {
	e := json.NewEncoder(c.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printDocument prints a JSON document of a node for people: indented, and as it is if it is not JSON after all.
func printDocument(w io.Writer, document []byte) {
	if len(document) == 0 {
		return
	}
	var indented bytes.Buffer
	if json.Indent(&indented, document, "", "  ") == nil {
		document = indented.Bytes()
	}
	fmt.Fprintf(w, "%s\n", bytes.TrimRight(document, "\n"))
}

// size writes a number of bytes in the unit that leaves one to four digits.
func size(n int64) string {
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

// count writes a number with its thousands apart.
func count[N int | int64 | uint64](n N) string {
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

// clock writes a time to the second, in UTC; "-" if there is none.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// oneLine makes s fit for a cell of a table and a line of a terminal: no line breaks, no control characters.
func oneLine(s string) string {
	clean := func(r rune) bool { return r == utf8.RuneError || r == '\t' || !unicode.IsPrint(r) }
	if !strings.ContainsFunc(s, clean) {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// cut shortens s to at most n characters, the last of which says that it did.
func cut(s string, n int) string {
	if n <= 0 || utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}
