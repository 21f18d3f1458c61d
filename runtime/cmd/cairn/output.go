package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// table returns a table on standard output.
func (c *cli) table() table.Table { return table.New(c.stdout, c.colour(c.stdout)) }

// state is the state of an actor in a column in which every cell is painted.
func state(t table.Table, s host.State) string {
	switch s {
	case host.Awake:
		return t.Paint(table.Green, string(s))
	case host.Failed:
		return t.Paint(table.Red, string(s))
	case host.Paused:
		return t.Paint(table.Yellow, string(s))
	}
	return t.Paint(table.Grey, string(s))
}

// printJSON prints v as one line.
func (c *cli) printJSON(v any) error { return writeJSON(c.stdout, v) }

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printDocument prints a JSON document of a node for people: indented, and as it is if it is not
// JSON after all.
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

// brief is a value of the application as it stands in a column.
func brief(value host.Raw) string {
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return table.Cut(table.OneLine(string(value)), 60)
	}
	return table.Cut(table.OneLine(compact.String()), 60)
}

// reason is the cause of a failure as it stands in a column.
func reason(s string) string { return cmp.Or(table.Cut(table.OneLine(s), 60), "-") }

// clockOf is table.Clock for a time that may be missing.
func clockOf(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return table.Clock(*t)
}
