package shell

import (
	"bytes"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// The ways to print rows.
const (
	ModeTable = "table"
	ModeCSV   = "csv"
	ModeJSON  = "json"
	ModeLine  = "line"
)

// Modes lists them.
var Modes = []string{ModeTable, ModeCSV, ModeJSON, ModeLine}

const (
	// cellWidth is how much of a text a table shows, in columns of the terminal, and cellBytes how
	// much of a blob.
	cellWidth = 100
	cellBytes = 24
)

// A Datum is a value of a row: nil, a number as it is written in JSON, a string, or bytes; a
// boolean if a node sends one.
type Datum struct{ v any }

func (d *Datum) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case 'n':
		d.v = nil
	case '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		d.v = s
	case '{':
		var blob struct {
			Base64 []byte `json:"base64"`
		}
		if err := json.Unmarshal(b, &blob); err != nil {
			return err
		}
		d.v = append([]byte{}, blob.Base64...)
	case '[':
		return errors.New("a value of a row is an array")
	case 't', 'f':
		d.v = b[0] == 't'
	default:
		d.v = json.Number(b)
	}
	return nil
}

func (d Datum) MarshalJSON() ([]byte, error) {
	if b, ok := d.v.([]byte); ok {
		return json.Marshal(map[string][]byte{"base64": b})
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(d.v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// text writes the whole value; null is what null is written as.
func (d Datum) text(null string) string {
	switch v := d.v.(type) {
	case nil:
		return null
	case []byte:
		return "x'" + hex.EncodeToString(v) + "'"
	case string:
		return v
	}
	return fmt.Sprint(d.v)
}

// cell writes the value for a table: on one line and shortened. A text that looks like NULL or a
// blob is put in quotes, so that these can be told apart.
func (d Datum) cell() string {
	switch v := d.v.(type) {
	case []byte:
		if len(v) > cellBytes {
			return "x'" + hex.EncodeToString(v[:cellBytes]) + "…' (" + table.Size(int64(len(v))) + ")"
		}
	case string:
		if v == "NULL" || strings.HasPrefix(v, "x'") {
			v = "'" + v + "'"
		}
		return cutWidth(table.OneLine(v), cellWidth)
	}
	return d.text("NULL")
}

// An Answer is the result of a query. Its numbers keep all their digits.
type Answer struct {
	Columns      []Column  `json:"columns"`
	Rows         [][]Datum `json:"rows"` // each with a value for each column
	Truncated    bool      `json:"truncated"`
	Changes      int64     `json:"changes"`
	LastInsertID int64     `json:"last_insert_id"`
}

// A Column is a column of an answer.
type Column struct {
	Name string `json:"name"`
}

// A printer prints answers.
type printer struct {
	w       io.Writer
	mode    string
	headers bool
	colour  bool
}

func (p *printer) print(a *Answer) error {
	switch p.mode {
	case ModeJSON:
		return p.json(a)
	case ModeCSV:
		return p.csv(a)
	case ModeLine:
		return p.lines(a)
	}
	return p.table(a)
}

// json prints an object for each row. A name that several columns have gets a number from the
// second on.
func (p *printer) json(a *Answer) error {
	names := make([][]byte, len(a.Columns))
	var taken []string
	for i, c := range a.Columns {
		name := c.Name
		for n := 2; slices.Contains(taken, name); n++ {
			name = fmt.Sprintf("%s:%d", c.Name, n)
		}
		taken = append(taken, name)
		names[i], _ = Datum{name}.MarshalJSON()
	}
	var b bytes.Buffer
	for _, row := range a.Rows {
		b.WriteByte('{')
		for i, d := range row {
			if i > 0 {
				b.WriteByte(',')
			}
			value, err := d.MarshalJSON()
			if err != nil {
				return err
			}
			b.Write(names[i])
			b.WriteByte(':')
			b.Write(value)
		}
		b.WriteString("}\n")
	}
	_, err := p.w.Write(b.Bytes())
	return err
}

// csv prints as RFC 4180 has it, except the ends of lines. NULL is empty.
func (p *printer) csv(a *Answer) error {
	w := csv.NewWriter(p.w)
	record := make([]string, len(a.Columns))
	if p.headers && len(a.Columns) > 0 {
		for i, c := range a.Columns {
			record[i] = c.Name
		}
		if err := w.Write(record); err != nil {
			return err
		}
	}
	for _, row := range a.Rows {
		for i, d := range row {
			record[i] = d.text("")
		}
		if err := w.Write(record); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// lines prints a line for each value, all of it, and an empty one between rows.
func (p *printer) lines(a *Answer) error {
	wide := 0
	for _, c := range a.Columns {
		wide = max(wide, width(table.OneLine(c.Name)))
	}
	var b strings.Builder
	for i, row := range a.Rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, d := range row {
			name := table.OneLine(a.Columns[j].Name)
			b.WriteString(strings.Repeat(" ", wide-width(name)) + name + " = ")
			b.WriteString(p.null(d, plainLines(d.text("NULL"))) + "\n")
		}
	}
	_, err := io.WriteString(p.w, b.String())
	return err
}

// plainLines is a text as it is, unless it has characters that a terminal would obey.
func plainLines(s string) string {
	obeyed := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if strings.ContainsFunc(s, obeyed) {
		return table.OneLine(s)
	}
	return s
}

// null paints the text of a value that is NULL.
func (p *printer) null(d Datum, text string) string {
	if d.v == nil && p.colour {
		return table.Grey + text + table.Plain
	}
	return text
}

// table prints aligned columns. Columns of numbers stand at the right.
func (p *printer) table(a *Answer) error {
	if len(a.Columns) == 0 {
		return nil
	}
	widths, right := make([]int, len(a.Columns)), make([]bool, len(a.Columns))
	names := make([]string, len(a.Columns))
	for i, c := range a.Columns {
		if p.headers {
			names[i] = cutWidth(table.OneLine(c.Name), cellWidth)
			widths[i] = width(names[i])
		}
	}
	cells := make([][]string, len(a.Rows))
	others := make([]bool, len(a.Columns))
	for i, row := range a.Rows {
		cells[i] = make([]string, len(row))
		for j, d := range row {
			cells[i][j] = d.cell()
			widths[j] = max(widths[j], width(cells[i][j]))
			if _, number := d.v.(json.Number); number {
				right[j] = true
			} else if d.v != nil {
				others[j] = true
			}
		}
	}
	var b strings.Builder
	line := func(texts []string, paint func(i int, text string) string) {
		for i, text := range texts {
			if i > 0 {
				b.WriteString("  ")
			}
			padding := strings.Repeat(" ", widths[i]-width(text))
			painted := paint(i, text)
			switch {
			case right[i] && !others[i]:
				b.WriteString(padding + painted)
			case i == len(texts)-1:
				b.WriteString(painted) // no blanks at the end of a line
			default:
				b.WriteString(painted + padding)
			}
		}
		b.WriteByte('\n')
	}
	unpainted := func(_ int, text string) string { return text }
	if p.headers {
		rules := make([]string, len(names))
		for i := range rules {
			rules[i] = strings.Repeat("-", widths[i])
		}
		line(names, unpainted)
		line(rules, unpainted)
	}
	for i, row := range a.Rows {
		line(cells[i], func(j int, text string) string { return p.null(row[j], text) })
	}
	_, err := io.WriteString(p.w, b.String())
	return err
}

// wide are the characters that take two columns of a terminal: East Asian ones, and emoji.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x231a, 0x231b, 1}, {0x23e9, 0x23ec, 1}, {0x2e80, 0x303e, 1}, {0x3041,
			0x33ff, 1}, {0x3400, 0x4dbf, 1},
		{0x4e00, 0x9fff, 1}, {0xa000, 0xa4cf, 1}, {0xa960, 0xa97c, 1}, {0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1},
		{0xfe30, 0xfe6f, 1}, {0xff00, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x18cff, 1}, {0x1b000, 0x1b2ff, 1}, {0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff,
			1}, {0x1f900, 0x1f9ff, 1},
		{0x1fa70, 0x1faff, 1}, {0x20000, 0x3fffd, 1},
	},
}

// width is how many columns of a terminal a text takes.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// cutWidth shortens a text to at most n columns, the last of which says that it did.
func cutWidth(s string, n int) string {
	if len(s) <= n || width(s) <= n {
		return s
	}
	taken := 0
	for i, r := range s {
		if taken += runeWidth(r); taken > n-1 {
			return s[:i] + "…"
		}
	}
	return s
}
