package keyspace

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// docTable is a table of docs/keyspace.md: its heading, its column names, and
// its cells without the backquotes.
type docTable struct {
	section string
	columns []string
	rows    []map[string]string
}

// docTables reads all tables of the page.
func docTables(t *testing.T) []docTable {
	t.Helper()
	page, err := os.ReadFile("../docs/keyspace.md")
	if err != nil {
		t.Fatal(err)
	}
	var tables []docTable
	var section string
	inside := false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if heading := strings.TrimLeft(line, "#"); heading != line {
			section = strings.TrimSpace(heading)
		}
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(strings.Trim(strings.TrimSpace(cell), "`"), "\x00", "|")
		}
		switch {
		case !inside:
			tables = append(tables, docTable{section: section, columns: cells})
			inside = true
		case strings.HasPrefix(cells[0], "---"):
		default:
			last := &tables[len(tables)-1]
			if len(cells) != len(last.columns) {
				t.Fatalf("%s: %d cells, want %d: %s", section, len(cells), len(last.columns), line)
			}
			row := map[string]string{}
			for i, cell := range cells {
				row[last.columns[i]] = cell
			}
			last.rows = append(last.rows, row)
		}
	}
	return tables
}

// docRows returns the rows of the table of a section that has a column.
func docRows(t *testing.T, section, column string) []map[string]string {
	t.Helper()
	for _, table := range docTables(t) {
		if table.section != section {
			continue
		}
		for _, name := range table.columns {
			if name == column {
				return table.rows
			}
		}
	}
	t.Fatalf("docs/keyspace.md has no table with a column %q under %q", column, section)
	return nil
}

func TestDocsListExactlyTheKinds(t *testing.T) {
	rows := docRows(t, "Kinds", "byte")
	if len(rows) != len(Kinds()) {
		t.Fatalf("the page lists %d kinds, the package has %d", len(rows), len(Kinds()))
	}
	for i, info := range Kinds() {
		row := rows[i]
		for column, want := range map[string]string{
			"byte": string(appendHexByte(nil, byte(info.Kind))), "kind": info.Name, "owner": info.Owner, "after the byte": info.Form, "value": info.Value,
		} {
			if row[column] != want {
				t.Errorf("%v: the page says %s %q, the package %q", info.Kind, column, row[column], want)
			}
		}
		example := unhex(t, row["example"])
		key, err := Parse(example)
		if err != nil || key.Kind() != info.Kind || key.String() != row["prints"] {
			t.Errorf("%v: the example %x is %v (%v), the page says %s", info.Kind, example, key, err, row["prints"])
		}
	}
}

func TestDocsListExactlyTheSpaces(t *testing.T) {
	rows := docRows(t, "Spaces", "number")
	if len(rows) != len(Spaces()) {
		t.Fatalf("the page lists %d spaces, the package has %d", len(rows), len(Spaces()))
	}
	for i, info := range Spaces() {
		row := rows[i]
		for column, want := range map[string]string{
			"number": strconv.Itoa(int(info.Space)), "space": info.Name, "elements after it": info.Form, "value": info.Value,
		} {
			if row[column] != want {
				t.Errorf("%v: the page says %s %q, the package %q", info.Space, column, row[column], want)
			}
		}
		example := unhex(t, row["example"])
		parsed, err := ParseRow(example)
		if err != nil || parsed.Space != info.Space || parsed.String() != row["prints"] {
			t.Errorf("%v: the example %x is %v (%v), the page says %s", info.Space, example, parsed, err, row["prints"])
		}
	}
}

func TestDocsNumbersMatch(t *testing.T) {
	fields := docRows(t, "Workflow fields", "field")
	for i, row := range fields {
		want := strings.TrimPrefix(WorkflowField(i+1).String(), "workflow/")
		if row["number"] != strconv.Itoa(i+1) || row["field"] != want {
			t.Errorf("field %d is %s, the page says %v", i+1, want, row)
		}
	}
	if WorkflowField(len(fields)) != FieldPause {
		t.Errorf("the page lists %d fields", len(fields))
	}
	files := docRows(t, "SQLite files", "file")
	for i, row := range files {
		if want := SQLiteFile(i).String(); row["number"] != strconv.Itoa(i) || row["file"] != want {
			t.Errorf("file %d is %s, the page says %v", i, want, row)
		}
	}
	if SQLiteFile(len(files)-1) != SQLiteSHM {
		t.Errorf("the page lists %d files", len(files))
	}
	wakes := docRows(t, "Wake kinds", "kind")
	for i, row := range wakes {
		if want := WakeKind(i + 1).String(); row["number"] != strconv.Itoa(i+1) || row["kind"] != want {
			t.Errorf("wake kind %d is %s, the page says %v", i+1, want, row)
		}
	}
	if WakeKind(len(wakes)) != WakeListed {
		t.Errorf("the page lists %d wake kinds", len(wakes))
	}
	families := []struct {
		family WorkflowFamily
		name   string
	}{
		{WorkflowNames, "names"}, {WorkflowRecords, "history"}, {WorkflowFields, "fields"}, {WorkflowEntries, "entry metadata"},
		{WorkflowUndos, "undo obligations"}, {WorkflowInbox, "inbox"}, {WorkflowBlobs, "large values"},
	}
	listed := docRows(t, "Workflow families", "family")
	if len(listed) != len(families) {
		t.Fatalf("the page lists %d families, want %d", len(listed), len(families))
	}
	for i, row := range listed {
		if row["number"] != strconv.Itoa(int(families[i].family)) || row["family"] != families[i].name {
			t.Errorf("family %d is %s, the page says %v", families[i].family, families[i].name, row)
		}
		example := unhex(t, row["example"])
		key, err := Parse(example)
		if err != nil || key.String() != row["prints"] || !bytes.HasPrefix(example, AppendWorkflowFamily(nil, families[i].family)) {
			t.Errorf("the example of family %s is %v (%v), the page says %s", families[i].name, key, err, row["prints"])
		}
	}
	constants := map[string]int{"ChunkSize": ChunkSize, "Slots": Slots, "MaxDepth": tuple.MaxDepth, "TraceBucketSeconds": TraceBucketSeconds}
	rows := docRows(t, "Constants", "name")
	for _, row := range rows {
		if want, ok := constants[row["name"]]; !ok || row["value"] != strconv.Itoa(want) {
			t.Errorf("%s is %d, the page says %s", row["name"], want, row["value"])
		}
	}
	if len(rows) != len(constants) {
		t.Errorf("the page lists %d constants, want %d", len(rows), len(constants))
	}
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
