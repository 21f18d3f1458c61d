package replay

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A Divergence says where the code differs from the history. Its text is for people.
type Divergence struct {
	// Scope is the path of the scope, "" for the root.
	Scope string
	// Ordinal is the position within the scope.
	Ordinal uint32
	// Found is the operation in the code, such as step "charge", or "the end of the scope".
	Found string
	// Expected is the operation in the history, Recorded the time at which it began.
	Expected string
	Recorded time.Time
	// Site is the line of the code, "" if it is not known.
	Site string
	// Near is a recorded name like the one in the code, "" if there is none.
	Near string
	// Hint says how to make the code agree with the history.
	Hint string
}

func (d *Divergence) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the code diverges from the history of the run, in %s, at position %d\n",
		placeName(d.Scope), d.Ordinal)
	fmt.Fprintf(&b, "  the code asks for: %s", d.Found)
	if d.Site != "" {
		fmt.Fprintf(&b, " (%s)", d.Site)
	}
	fmt.Fprintf(&b, "\n  the history has:   %s", d.Expected)
	if !d.Recorded.IsZero() {
		fmt.Fprintf(&b, ", begun %s", d.Recorded.Format("2006-01-02 15:04:05.000 UTC"))
	}
	if d.Near != "" {
		fmt.Fprintf(&b, "\n  the history also has %q, which it is perhaps", d.Near)
	}
	if d.Hint != "" {
		fmt.Fprintf(&b, "\n  %s", d.Hint)
	}
	return b.String()
}

func placeName(path string) string {
	if path == "" {
		return "the workflow function"
	}
	return strconv.Quote(path)
}

// diverge pauses the run because the code begins an operation where the history has rec. It does
// not return.
func (s *scope) diverge(kind Kind, name string, rec *record) {
	d := &Divergence{Scope: s.path(), Ordinal: s.next, Found: fmt.Sprintf("%s %q", kind, name), Site: userLine()}
	s.expected(d, rec)
	expected := s.nameOf(rec)
	i, known := s.run.names.Lookup(name)
	var own *record
	if known {
		for _, other := range s.records {
			if string(other.loc) == string(journal.ChildName(nil, s.loc, i)) {
				own = other
			}
		}
	}
	e, _ := rec.header()
	switch {
	case own == rec:
		d.Hint = fmt.Sprintf("%q was something else when the run began. Give the new one another name, and say workflow.Removed(ctx, %q, workflow.%s) before it.", name, name, goName(e.Kind))
	case own != nil && !own.visited:
		d.Hint = fmt.Sprintf("%q is recorded further on: what stands between was removed (workflow.Removed(ctx, %q, workflow.%s)), or the order was changed, which runs that exist do not allow.", name, expected, goName(e.Kind))
	default:
		d.Near = s.near(name)
		d.Hint = fmt.Sprintf("If %q is new here, let only new runs do it: if workflow.Patched(ctx, \"…\") { … }. If it replaces %q: workflow.Renamed(ctx, %q, %q), or workflow.Removed(ctx, %q, workflow.%s) before it.",
			name, expected, expected, name, expected, goName(e.Kind))
	}
	s.run.fail(PausedDiverged, d.String())
	s.run.hang(s.run.current.Load())
}

// divergeSealed pauses the run because the code begins a new operation in a scope whose end is
// recorded. It does not return.
func (s *scope) divergeSealed(kind Kind, name string) {
	d := &Divergence{Scope: s.path(), Ordinal: s.next, Found: fmt.Sprintf("%s %q", kind, name),
		Site: userLine(), Expected: "the end of the scope"}
	d.Hint = fmt.Sprintf("If %q is new here, let only new runs do it: if workflow.Patched(ctx, \"…\") { … }.", name)
	s.run.fail(PausedDiverged, d.String())
	s.run.hang(s.run.current.Load())
}

// divergedLeftover pauses the run because a scope ended, or waits, before the code has used rec.
func (r *Run) divergedLeftover(s *scope, rec *record) {
	d := &Divergence{Scope: s.path(), Ordinal: s.next, Found: "the end of the scope"}
	if !s.ended {
		d.Found = "nothing more before it waits for something new"
	}
	s.expected(d, rec)
	e, _ := rec.header()
	if e != nil {
		d.Hint = fmt.Sprintf("If it was removed on purpose: workflow.Removed(ctx, %q, workflow.%s) where it stood.", s.nameOf(rec), goName(e.Kind))
	}
	r.fail(PausedDiverged, d.String())
}

// diverged pauses the run because operation o differs from its entry. It does not return.
func (r *Run) diverged(o *op, expected, found, hint string) {
	d := &Divergence{Scope: o.s.path(), Ordinal: o.entry.Ordinal, Recorded: o.entry.Created,
		Site: userLine(), Hint: hint}
	d.Found = fmt.Sprintf("%s %q with %s", o.entry.Kind, o.name, found)
	d.Expected = fmt.Sprintf("%s %q with %s", o.entry.Kind, o.name, expected)
	r.fail(PausedDiverged, d.String())
	r.hang(r.current.Load())
}

func (p *place) expected(d *Divergence, rec *record) {
	e, err := rec.header()
	if err != nil {
		d.Expected = "an entry that cannot be read: " + err.Error()
		return
	}
	d.Expected = fmt.Sprintf("%s %q (%s)", e.Kind, p.nameOf(rec), e.Status)
	if rec.form != journal.Form1 {
		d.Expected += fmt.Sprintf(" at position %d", rec.ordinal)
	}
	d.Recorded = e.Created
}

// near returns the unused recorded name that is most like name, "" if none is.
func (p *place) near(name string) string {
	best, least := "", len(name)/2+1
	for _, rec := range p.records[p.cursor:] {
		if rec.visited {
			continue
		}
		other := p.nameOf(rec)
		if d := distance(name, other, least); d < least {
			best, least = other, d
		}
	}
	return best
}

// distance returns the edit distance of two strings, or limit if it is at least that.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return min(row[len(b)], limit)
}

// goName returns the constant of a kind in Go.
func goName(k Kind) string {
	names := [...]string{"KindStep", "KindLoop", "KindSleep", "KindMessage", "KindCheckpoint",
		"KindJoin", "KindRace", "KindRemoved",
		"KindVersion", "KindReceive", "KindMap", "KindSaga", "KindScope", "KindAwait", "KindSpawn", "KindCall"}
	if int(k) < len(names) {
		return names[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// callSite returns userLine in a form to append to a sentence.
func callSite() string {
	if line := userLine(); line != "" {
		return "\n  at " + line
	}
	return ""
}

// maxCallers is how many lines userLine returns after the innermost one.
const maxCallers = 3

// userLine returns the innermost line of the calling code outside of this package and of the
// packages that wrap it. If a helper calls, the lines that call the helper follow.
func userLine() string {
	const own, facade, wrapper = "github.com/cairn-run/cairn/workflow/internal/replay.",
		"github.com/cairn-run/cairn/workflow.", "github.com/cairn-run/cairn/actor."
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	lines := ""
	for callers := 0; ; {
		f, more := frames.Next()
		inside := (strings.HasPrefix(f.Function, own) || strings.HasPrefix(f.Function, facade) ||
			strings.HasPrefix(f.Function, wrapper)) && !strings.HasSuffix(f.File, "_test.go")
		outside := f.File != "" && !inside && !strings.HasPrefix(f.Function, "runtime.") &&
			!strings.HasPrefix(f.Function, "iter.")
		switch line := f.File + ":" + strconv.Itoa(f.Line); {
		case !outside && lines != "": // the caller of the user's function
			return lines
		case !outside:
		case lines == "":
			lines = line
		case callers < maxCallers:
			callers++
			lines += ", called at " + line
		}
		if !more {
			return lines
		}
	}
}
