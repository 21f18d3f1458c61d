package shell

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// ragged reports whether rows and columns do not fit: Database promises that they do.
func ragged(a *Answer) bool {
	return slices.ContainsFunc(a.Rows, func(row []Datum) bool { return len(row) != len(a.Columns) })
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"columns":[{"name":"a"},{"name":"a"}],"rows":[[9e999,{"base64":"AA=="}],[null,true],["\u001b[2J",-0.5]],"changes":0}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var a Answer
		if json.Unmarshal(text, &a) != nil || ragged(&a) {
			return
		}
		for _, mode := range Modes {
			var b strings.Builder
			p := printer{w: &b, mode: mode, headers: true}
			if err := p.print(&a); err != nil {
				t.Fatal(mode, err)
			}
			switch {
			case mode == ModeJSON:
				for line := range strings.Lines(b.String()) {
					if !json.Valid([]byte(line)) {
						t.Errorf("no JSON: %q", line)
					}
				}
			case mode != ModeCSV && strings.ContainsFunc(b.String(), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }):
				t.Errorf("%s prints what a terminal obeys: %q", mode, &b)
			case mode == ModeTable && len(a.Columns) > 0 && strings.Count(b.String(), "\n") != len(a.Rows)+2:
				t.Errorf("a table of %d rows: %q", len(a.Rows), &b)
			}
		}
	})
}

func TestWidthsAreThoseOfATerminal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "abc": 3, "é": 1, "e\u0301": 1, "東京": 4, "한글": 4, "🙂": 2, "…": 1, "ｆ": 2, "\u200d": 0} {
		if got := width(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"東京都", 4, "東…"}, {"東京都", 6, "東京都"}, {"abcdef", 5, "abcd…"}, {"abcde", 5, "abcde"}} {
		if got := cutWidth(c.text, c.n); got != c.want {
			t.Errorf("%q at %d: %q", c.text, c.n, got)
		}
	}
}
