package keyspace

import (
	"bytes"
	"encoding/hex"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// docRows returns the rows of the table with a column under a heading of docs/keyspace.md: their
// cells without backquotes.
func docRows(t *testing.T, section, column string) (rows []map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../docs/keyspace.md")
	must(t, err)
	var heading string
	var columns []string // of the table that the line is in
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if title := strings.TrimLeft(line, "#"); title != line {
			heading = strings.TrimSpace(title)
		}
		if !strings.HasPrefix(line, "|") {
			columns = nil
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(strings.Trim(strings.TrimSpace(cell), "`"), "\x00", "|")
		}
		switch {
		case columns == nil:
			columns = cells
		case strings.HasPrefix(cells[0], "---") || heading != section || !slices.Contains(columns, column):
		default:
			fatalIf(t, len(cells) != len(columns), "%s: %d cells, want %d: %s", section, len(cells), len(columns), line)
			row := map[string]string{}
			for i, cell := range cells {
				row[columns[i]] = cell
			}
			rows = append(rows, row)
		}
	}
	fatalIf(t, len(rows) == 0, "docs/keyspace.md has no table with a column %q under %q", column, section)
	return rows
}

// docForm returns the bytes of a layout after its kind, in the notation of the page.
func docForm(l *layout) string {
	if len(l.fields) == 0 {
		return ""
	}
	raw := l.fields[0].as < asString
	var parts []string
	switch {
	case l.family != "" && raw:
		parts = append(parts, hex.EncodeToString([]byte(l.family)))
	case l.family != "":
		parts = append(parts, strconv.Itoa(int(l.family[1])))
	}
	for _, f := range l.fields {
		words := map[encoding]string{asU64: "u64 ", asU64From1: "u64 ", asU32: "u32 ", asActor: "16 bytes ", asUTF8: "UTF-8 "}
		parts = append(parts, words[f.as]+f.name)
	}
	if raw {
		return strings.Join(parts, " ")
	}
	return "tuple(" + strings.Join(parts, ", ") + ")"
}

// checkRow compares cells of a row with the values of the package.
func checkRow(t *testing.T, what string, row map[string]string, want map[string]string) {
	t.Helper()
	for column, value := range want {
		errorIf(t, row[column] != value, "%s: the page says %s %q, the package %q", what, column, row[column], value)
	}
}

func TestDocsListExactlyTheKeys(t *testing.T) {
	kinds, families := docRows(t, "Kinds", "byte"), docRows(t, "Workflow families", "tuple")
	for i := 0; i < len(layouts); {
		first := layouts[i]
		forms, values := docForm(first), first.value
		for i++; i < len(layouts) && layouts[i].Kind == first.Kind; i++ {
			forms, values = forms+" | "+docForm(layouts[i]), values+"; "+layouts[i].value
		}
		if first.Kind == KindWorkflow {
			forms, values = "tuple(family, ...)", "names, history, fields, metadata, large values"
		}
		fatalIf(t, len(kinds) == 0, "the page does not list %v", first.Kind)
		row := kinds[0]
		kinds = kinds[1:]
		checkRow(t, first.name(), row, map[string]string{
			"byte": hex.EncodeToString([]byte{byte(first.Kind)}), "kind": first.name(), "owner": first.owner, "after the byte": forms, "value": values,
			"prints": Format(unhex(t, row["example"])),
		})
		if example := unhex(t, row["example"]); first.Kind.Check(example) != nil {
			t.Errorf("the example of %v is %s", first.Kind, Format(example))
		}
	}
	for _, l := range layouts {
		if l.Kind != KindWorkflow {
			continue
		}
		fatalIf(t, len(families) == 0, "the page does not list %s", l.prints)
		row := families[0]
		families = families[1:]
		example := unhex(t, row["example"])
		checkRow(t, l.prints, row,
			map[string]string{"tuple": strings.TrimPrefix(docForm(l), "tuple"), "value": l.value, "prints": Format(example)})
		if found, _, bad := find(example); bad != nil || found != l {
			t.Errorf("the example of %s is %s", l.prints, Format(example))
		}
	}
	errorIf(t, len(kinds)+len(families) > 0, "the page lists unknown keys: %v %v", kinds, families)
}

func TestDocsListExactlyTheSpaces(t *testing.T) {
	rows := docRows(t, "Spaces", "number")
	fatalIf(t, len(rows) != len(spaces), "the page lists %d spaces, the package has %d", len(rows), len(spaces))
	for i, s := range spaces {
		example := unhex(t, rows[i]["example"])
		checkRow(t, s.name, rows[i], map[string]string{
			"number": strconv.Itoa(int(s.space)), "space": s.name, "elements after it": s.fields, "value": s.value, "prints": FormatRow(example),
		})
		if _, err := ParseRow(example); err != nil || !bytes.HasPrefix(example, appendSpace(nil, s.space)) ||
			!strings.HasPrefix(rows[i]["prints"], s.name) {
			t.Errorf("the example of %s is %s (%v)", s.name, FormatRow(example), err)
		}
	}
}

func TestDocsNumbersMatch(t *testing.T) {
	for _, c := range []struct {
		section, column string
		first           int
		names           []string
	}{
		{"Workflow fields", "field", 1, fieldNames[1:]},
		{"SQLite files", "file", 0, fileNames[:]},
		{"Wake kinds", "kind", 1, wakeNames[1:]},
	} {
		rows := docRows(t, c.section, c.column)
		fatalIf(t, len(rows) != len(c.names), "%s: the page lists %d, the package has %d", c.section, len(rows), len(c.names))
		for i, name := range c.names {
			checkRow(t, c.section, rows[i], map[string]string{"number": strconv.Itoa(i + c.first), c.column: name})
		}
	}
	constants := map[string]int{"ChunkSize": ChunkSize, "Slots": Slots, "MaxDepth": tuple.MaxDepth}
	rows := docRows(t, "Constants", "name")
	for _, row := range rows {
		if want, ok := constants[row["name"]]; !ok || row["value"] != strconv.Itoa(want) {
			t.Errorf("%s is %d, the page says %s", row["name"], want, row["value"])
		}
	}
	errorIf(t, len(rows) != len(constants), "the page lists %d constants, want %d", len(rows), len(constants))
}

func TestDocsExamplesPrintAsTheySay(t *testing.T) {
	formats := map[string]func([]byte) string{
		"More keys":        Format,
		"Rows of an actor": FormatRow,
		"Tuples": func(b []byte) string {
			decoded, err := tuple.Unpack(b)
			if err != nil {
				return err.Error()
			}
			return decoded.String()
		},
	}
	for section, format := range formats {
		for _, row := range docRows(t, section, "prints") {
			if got := format(unhex(t, row["bytes"])); got != row["prints"] {
				t.Errorf("%s: %s prints %s, the page says %s", section, row["bytes"], got, row["prints"])
			}
		}
	}
	for _, row := range docRows(t, "Tuples", "code") {
		first, last, isRange := strings.Cut(row["code"], "`..`")
		if !isRange {
			last = first
		}
		if code := unhex(t, row["bytes"])[0]; code < unhex(t, first)[0] || code > unhex(t, last)[0] {
			t.Errorf("the example of code %s begins with %x", row["code"], code)
		}
	}
}
