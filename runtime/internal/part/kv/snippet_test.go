package kv

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// shown writes the pieces of a snippet as text, with brackets around matches.
func shown(marked string, most int) string {
	parts, _ := excerpt(marked, most)
	var b strings.Builder
	for _, p := range parts {
		if p.Match {
			b.WriteString("[" + p.Text + "]")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

var marks = strings.NewReplacer("[", matchOpen, "]", matchClose)

func TestExcerpt(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"no match", 5, ""},
		{"", 5, ""},
		{"a [red] apple", 5, "a [red] apple"},
		{"(a [red] apple)!", 3, "(a [red] apple)!"},
		{"one two three four [five] six seven eight", 3, "…four [five] six…"},
		{"one [two] three four five", 3, "one [two] three…"},
		{"one two three [four]", 2, "…three [four]"},
		{"[one] two three [four] [five] six", 2, "…[four] [five]…"},
		{"[a] [a] [a] x [a] [b]", 3, "…x [a] [b]"},
		{"a p[pl]e tree", 1, "…p[pl]e…"},
		{"[red apple] pie", 1, "[red]…"},
		{strings.Repeat("字", 40) + "[字]" + strings.Repeat("字", 40), 1, "…" + strings.Repeat("字", 8) + "[字]" + strings.Repeat("字", 23) + "…"},
	} {
		got := shown(marks.Replace(c.text), c.most)
		errorIf(t, got != c.want, "%s: %q, want %q", c.text, got, c.want)
	}
}

// The time of a snippet grows with its text alone.
func TestExcerptOfMuchThatMatches(t *testing.T) {
	begin := time.Now()
	got := shown(strings.Repeat(matchOpen+"a"+matchClose+" ", 100_000), 3)
	errorIf(t, got != "[a] [a] [a]…", "%v", got)
	d := time.Since(begin)
	errorIf(t, d > 30*time.Second, "it took %s", d)
}

func FuzzExcerpt(f *testing.F) {
	f.Add("a "+matchOpen+"b"+matchClose+" c", 2)
	f.Add(matchClose+matchOpen+"é", 1)
	f.Fuzz(func(t *testing.T, marked string, most int) {
		if most < 1 || most > 64 || !utf8.ValidString(marked) {
			return
		}
		text, _ := unmark(marked)
		parts, score := excerpt(marked, most)
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text)
		}
		got := strings.TrimSuffix(strings.TrimPrefix(b.String(), "…"), "…")
		errorIf(t, !strings.Contains(text, got) || (score == 0) != (len(parts) == 0), "%q is not of %q, %d", got, text, score)
	})
}
