package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// A kept is a function with loops that keep their history, in the statements of scripts. The values of its steps say in which life of
// the run they were executed, so that two runs have the same output only if they took the same results from the history.
type kept struct {
	name     string
	messages int  // that its loops receive
	linear   bool // nothing runs at once, so all that is on record but times follows from what was done
	code     string
}

// MARK and UNDO are for functions that owe undos, which cannot be rewound when they have failed. An undo of MARK is one of the code,
// so the iteration is entered again after a crash; its result makes the state large enough for rows of its own.
var keptFunctions = []kept{
	{"plain", 6, true, `step first; loop serve 6 keep=3 trim=1 { step a; receive get inbox; sleep nap 1s; step b UNDO }; step last`},
	{"nested", 4, true, `scope scope { loop outer 4 keep=2 { receive get inbox; loop inner 4 keep=2 trim=1 { step s }; MARK } }`},
	{"beside", 4, false, `join both {
		x { loop loop 4 keep=9 { sleep before 7s; step a; receive get inbox; sleep between 7s; step b } }
		y { loop loop 4 keep=9 { sleep before 11s; step a; sleep between 11s; step b } }
	}; values both`},
}

// world returns a world with the function, for a life of its run.
func (k *kept) world(t *testing.T, undo bool, life func(path string) int) *script {
	s := newScript(t, k.name, false)
	s.life, s.done = life, map[string]bool{}
	replace := strings.NewReplacer("UNDO", "", "MARK", "")
	if undo {
		replace = strings.NewReplacer("UNDO", "undo-by=undo", "MARK", "mark c size=9000")
	}
	code, _ := parse(t, split(t, "code main { "+replace.Replace(k.code)+"; receive end end; whether failing { fail it } }"))
	s.command(code[0])
	return s
}

// listed returns the history of a run.
func listed(t testing.TB, h *memory.Actor) (list []wfhost.HistoryEntry) {
	t.Helper()
	for e, err := range wfhost.History(h.Rows, wfhost.Filter{}) {
		must(t, err)
		list = append(list, e)
	}
	return list
}

// stays returns which of what is done stays done if a run with a history is rewound to one of its entries, or forked up to it: what had
// ended before the entry had, and what was deleted of loops that stay.
func stays(history []wfhost.HistoryEntry, done map[string]bool, e *wfhost.HistoryEntry, fork bool) map[string]bool {
	at := map[string]*wfhost.HistoryEntry{}
	for i := range history {
		at[history[i].Path] = &history[i]
	}
	cut := e.Seq // of what ended from here on, nothing stays
	if loop, n, ok := cutIteration(e.Path); ok {
		if next := at[fmt.Sprintf("%s~%d", loop, n+1)]; next != nil {
			cut = next.Seq // the row of an iteration has the number of its beginning
		} else {
			cut = at[loop].Seq
		}
	} else if !e.Status.Over() {
		cut = 1 << 40
	} else if fork {
		cut++
	}
	stay := map[string]bool{}
	for path := range done {
		under := strings.HasPrefix(path+"/", e.Path+"/") || strings.HasPrefix(path, e.Path+"~")
		switch r := at[path]; {
		case under:
			stay[path] = fork
		case r != nil:
			stay[path] = r.Status.Over() && r.Seq < cut
		default:
			// It is deleted, and stays if the target lies in the part of the loop that is left, or after it.
			loop, n, _ := cutIteration(path[:strings.LastIndex(path, "/")])
			for at[loop] == nil {
				loop, n, _ = cutIteration(loop[:strings.LastIndex(loop, "/")])
			}
			for at[fmt.Sprintf("%s~%d", loop, n)] == nil {
				n++
			}
			stay[path] = at[fmt.Sprintf("%s~%d", loop, n)].Seq < cut
		}
	}
	return stay
}

// cutIteration takes the path of an iteration itself apart.
func cutIteration(path string) (loop string, n int, ok bool) {
	i := strings.LastIndex(path, "~")
	if i < 0 || strings.Contains(path[i:], "/") {
		return "", 0, false
	}
	fmt.Sscan(path[i+1:], &n)
	return path[:i], n, true
}

// TestRewindAndForkIntoKeptIterations rewinds runs to all of their entries, and forks them up to all of them, whether they are in
// a loop or have ended. What follows must be what a run does that has done the same up to there, crashes or not.
func TestRewindAndForkIntoKeptIterations(t *testing.T) {
	for _, k := range keptFunctions {
		for at, ending := range []struct {
			name, end string
			missing   int // messages of its loops
		}{{"in a loop", "", 1}, {"after the loops", "", 0}, {"failed", "go", 0}, {"completed", "go", 0}} {
			t.Run(k.name+" "+ending.name, func(t *testing.T) {
				undo := ending.name != "failed"
				first := k.world(t, undo, func(string) int { return 1 })
				first.flags["failing"] = !undo
				first.command(words("start main"))
				live(t, first, k.messages-ending.missing, 0, ending.end)
				history, rows := listed(t, first.Actor), first.Rows.All()
				recording, err := wfhost.Export(first.Rows)
				must(t, err)
				tried := 0
				for i := range history {
					for _, fork := range sides(i + at) {
						e := &history[i]
						what := fmt.Sprintf("%s, fork %v", e.Path, fork)
						stay := stays(history, first.done, e, fork)
						if fork && !e.Status.Over() || !fork && lost(history, stay) {
							continue
						}
						if tried++; !long && (tried+at)%2 == 0 { // the endings share what there is to try
							continue
						}
						again := k.world(t, undo, func(string) int { return 2 })
						again.CrashAt, again.CrashAfter = tried%9, i%2 == 0
						if !fork {
							again.Load(rows)
						}
						if err := again.Transact(func(turn *memory.Turn) error {
							if !fork {
								return wfhost.Rewind(turn, e.ID)
							}
							_, err := wfhost.Import(turn, recording, wfhost.StartOptions{UpTo: e.ID})
							return err
						}); err != nil {
							t.Errorf("%s: %v", what, err)
							continue
						}
						got, end := k.messages-ending.missing, "go" // what a rewind gives back is in the queues
						if fork {
							got = 0
						}
						for path := range stay {
							if fork && stay[path] && strings.HasSuffix(path, "/get") {
								got++
							}
						}
						if !fork && ending.end != "" || slices.ContainsFunc(listed(t, again.Actor), func(e wfhost.HistoryEntry) bool { return e.Path == "end" && e.Status.Over() }) {
							end = ""
						}
						live(t, again, k.messages, got, end)
						like := k.world(t, undo, func(path string) int {
							if stay[path] {
								return 1
							}
							return 2
						})
						like.command(words("start main"))
						live(t, like, k.messages, 0, "go")
						out, want := outcome(t, again.Actor), outcome(t, like.Actor)
						errorIf(t, out != want || !strings.HasPrefix(want, "completed"), "%s:\n%s\nwant\n%s", what, out, want)
						for path := range like.done {
							wrong := again.done[path] == stay[path] && !strings.HasSuffix(path, "/get") && path != "end"
							errorIf(t, wrong, "%s: %s was done again: %v", what, path, again.done[path])
						}
						if k.linear && !(fork && undo) { // a fork owes no undo for what it has copied, and keeps nothing for that
							sameRecords(t, what, again.Actor, like.Actor)
						}
						again.Close()
						like.Close()
					}
				}
				errorIf(t, tried < 6, "only %d", tried)
			})
		}
	}
}

// lost reports whether messages were received where the history is deleted, and would have to be received again: they are not
// returned.
func lost(history []wfhost.HistoryEntry, stay map[string]bool) bool {
	for path := range stay {
		known := slices.ContainsFunc(history, func(e wfhost.HistoryEntry) bool { return e.Path == path })
		if strings.HasSuffix(path, "/get") && !stay[path] && !known {
			return true
		}
	}
	return false
}

// live drives a run, with the messages from one up to another, and the message that ends it.
func live(t *testing.T, s *script, messages, from int, end string) {
	t.Helper()
	for i := from; i < messages; i++ {
		send(t, s.Actor, "inbox", fmt.Sprint("m", i))
	}
	if end != "" {
		send(t, s.Actor, "end", end)
	}
	drive(t, s.Actor)
}

// sameRecords checks that two runs have the same rows, and histories that differ only in times.
func sameRecords(t *testing.T, what string, a, b *memory.Actor) {
	t.Helper()
	records := func(h *memory.Actor) (list []string) {
		for key := range h.Rows.All() {
			list = append(list, keyspace.Format([]byte(key)))
		}
		list = slices.DeleteFunc(list, func(row string) bool { // a crash leaves metadata of the attempt that it cut off
			return strings.HasPrefix(row, "workflow/entry ")
		})
		slices.Sort(list)
		for _, e := range listed(t, h) {
			list = append(list, fmt.Sprintf("%s %s %s %d #%d ~%d %x %x %d", e.Path, e.Kind, e.Status, e.Ordinal, e.Seq, e.Iteration, e.Output, e.State, e.Large))
		}
		return list
	}
	got, want := records(a), records(b)
	errorIf(t, !slices.Equal(got, want), "%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
}
