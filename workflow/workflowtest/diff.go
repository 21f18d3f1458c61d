package workflowtest

import (
	"fmt"
	"strings"
	"testing"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// Diff returns the differences between the histories of two recordings; "" if there are none. Lines
// that begin with - are only in a, lines with + only in b. Times, ids and numbers of attempts are
// left out, so two runs that did the same do not differ.
func Diff(a, b *wfhost.Recording) string {
	left, right := describe(a), describe(b)
	where := map[string]int{} // in right
	for i, l := range right {
		where[l.key] = i
	}
	common := map[string]bool{}
	for _, l := range left {
		if _, ok := where[l.key]; ok {
			common[l.key] = true
		}
	}
	var out strings.Builder
	next := 0 // of right; all lines before it that only b has are in out
	added := func(until int) {
		for ; next < until; next++ {
			if !common[right[next].key] {
				fmt.Fprintf(&out, "+ %s\n", right[next].text)
			}
		}
	}
	for _, l := range left {
		if !common[l.key] {
			fmt.Fprintf(&out, "- %s\n", l.text)
			continue
		}
		i := where[l.key]
		added(i)
		if r := right[i]; r.text != l.text {
			fmt.Fprintf(&out, "- %s\n+ %s\n", l.text, r.text)
		}
	}
	added(len(right))
	return out.String()
}

// A line is one line of a described recording; key names its subject.
type line struct{ key, text string }

func describe(rec *wfhost.Recording) (list []line) {
	rows := memory.Recorded(rec)
	s, err := wfhost.ReadStatus(rows)
	if err != nil {
		return []line{{"", err.Error()}}
	}
	run := fmt.Sprintf("run of %q: %s", s.Workflow, s.State)
	switch {
	case s.Pause != nil:
		run += ": " + s.Pause.Text
	case s.Failure != nil:
		run += ": " + withoutAttempts(s.Failure.Message)
	case s.Output != nil:
		run += ": " + show(s.Output)
	}
	list = append(list, line{"", run})
	if s.Published != nil {
		list = append(list, line{"\x00published", "published " + show(s.Published)})
	}
	seen := map[string]int{}
	for e, err := range wfhost.History(rows, wfhost.Filter{}) {
		if err != nil {
			return append(list, line{"\x00error", err.Error()})
		}
		seen[e.Path]++ // two places may print alike
		list = append(list, line{fmt.Sprintf("%s\x00%d", e.Path, seen[e.Path]), text(&e)})
	}
	return list
}

// text prints an entry.
func text(e *wfhost.HistoryEntry) string {
	s := fmt.Sprintf("%s %q at position %d: %s", e.Kind, e.Path, e.Ordinal, e.Status)
	switch {
	case e.Failure != nil:
		s += ": " + withoutAttempts(e.Failure.Message)
	case e.Sensitive:
		s += " (sensitive)"
	case e.Large > 0:
		s += fmt.Sprintf(" (%d bytes)", e.Large)
	case e.Output != nil && show(e.Output) != "nothing":
		s += ": " + show(e.Output)
	}
	if e.State != nil {
		s += fmt.Sprintf(", iteration %d with %s", e.Iteration, show(e.State))
	}
	if e.Winner != "" {
		s += ", won by " + e.Winner
	}
	if e.Messages > 0 {
		s += fmt.Sprintf(", %d messages", e.Messages)
	}
	if !e.Undone.IsZero() {
		s += ", undone"
	}
	return s
}

// entries returns the result of History.
func entries(t testing.TB, r wfhost.Reader, f wfhost.Filter) (list []wfhost.HistoryEntry) {
	t.Helper()
	for e, err := range wfhost.History(r, f) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}
