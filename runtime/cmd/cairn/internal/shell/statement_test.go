package shell

import (
	"slices"
	"strings"
	"testing"
)

func TestTextIsCutIntoStatements(t *testing.T) {
	t.Parallel()
	trigger := "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET n = CASE WHEN n THEN 1 END; DELETE FROM c WHERE x = 'END;'; END"
	for text, want := range map[string][]string{
		"":                                     nil,
		" \n ; ;-- nothing\n;":                 nil,
		"SELECT 1":                             {"SELECT 1"},
		"SELECT 1; SELECT 2 ;":                 {"SELECT 1", "SELECT 2"},
		"SELECT ';', \";\", `;`, [;];":         {"SELECT ';', \";\", `;`, [;]"},
		"SELECT 'it''s; fine';":                {"SELECT 'it''s; fine'"},
		"SELECT 1 -- ; no\n;SELECT 2":          {"SELECT 1 -- ; no", "SELECT 2"},
		"SELECT /* ; ' */ 1; -- done":          {"SELECT /* ; ' */ 1"},
		"SELECT 1 - -1, 4 / 2;":                {"SELECT 1 - -1, 4 / 2"},
		"SELECT 'open; SELECT 2;":              {"SELECT 'open; SELECT 2;"},
		"/* open; SELECT 1;":                   {"/* open; SELECT 1;"},
		trigger + "; SELECT 1;":                {trigger, "SELECT 1"},
		"create temp " + trigger[7:] + ";x":    {"create temp " + trigger[7:], "x"},
		"EXPLAIN QUERY PLAN " + trigger:        {"EXPLAIN QUERY PLAN " + trigger},
		"explain " + trigger + " /**/ ; x":     {"explain " + trigger + " /**/", "x"},
		"CREATE TABLE trigger_log(a); x":       {"CREATE TABLE trigger_log(a)", "x"},
		"SELECT \"CREATE TRIGGER\"; x":         {"SELECT \"CREATE TRIGGER\"", "x"},
		"CREATE TRIGGER t BEGIN ; END x; END;": {"CREATE TRIGGER t BEGIN ; END x; END"},
		"SÉLECT é;ü":                           {"SÉLECT é", "ü"},
	} {
		if got := statements(text); !slices.Equal(got, want) {
			t.Errorf("%q:\n%q, want\n%q", text, got, want)
		}
	}
}

func TestTheFirstWordSaysWhetherAStatementOnlyReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"select 1": true, " /* x */ VALUES(1)": true, "-- c\nEXPLAIN DELETE FROM a": true,
		"WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a": false, "PRAGMA user_version = 3": false, "": false, "(SELECT 1)": false,
	} {
		if got := reads(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func FuzzStatements(f *testing.F) {
	for _, s := range []string{"SELECT 'a\n;b';\n-- c;\n/*\n*/ CREATE TRIGGER x BEGIN\n y;\nEND;\nSELECT /*\n;*/ 2\n;\n", "SELECT 1;", "CREATE TRIGGER a BEGIN x; END; y", "'a''b;' -- c\n;/*;*/;[;]", "\"", "EXPLAIN QUERY PLAN CREATE TEMP TRIGGER;END;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all := statements(text)
		for _, s := range all {
			if strings.TrimSpace(s) != s || s == "" {
				t.Errorf("statement %q", s)
			}
			if !strings.Contains(text, s) {
				t.Errorf("%q is not a part of the text", s)
			}
		}
		// Cutting again what was cut changes nothing.
		joined := strings.Join(all, "\n;\n")
		if again := statements(joined); !slices.Equal(again, all) {
			t.Errorf("%q gives %q, and that %q", text, all, again)
		}
		// Neither does it matter where lines end.
		var p splitter
		var got []string
		for line := range strings.Lines(text) {
			p.add(line)
			for s, ok := p.next(); ok; s, ok = p.next() {
				got = append(got, s)
			}
		}
		if rest := p.rest(); rest != "" {
			got = append(got, rest)
		}
		if !slices.Equal(got, all) {
			t.Errorf("by lines %q, at once %q", got, all)
		}
	})
}
