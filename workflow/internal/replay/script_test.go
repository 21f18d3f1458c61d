package replay_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/cairn-run/cairn/workflow/internal/memory"
	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// Each file of testdata/scripts holds scenarios: the lives of runs, as commands and their output.
// README.md has the commands.
// `go test -run Scripts -rewrite ./workflow/internal/replay` writes the results anew.

func TestRunScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		if strings.HasSuffix(path, ".md") {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "scenario" || len(d.CmdArgs) == 0 {
				d.Fatalf(t, "a file holds scenarios with names, not %q", d.Cmd)
			}
			out := d.Expected // of a scenario that -run leaves out
			t.Run(d.CmdArgs[0].Key, func(t *testing.T) {
				f := func(t *testing.T) { out = play(t, d.Pos, d.Input, d.HasArg("crashes"), d.HasArg("bubble")) }
				if d.HasArg("bubble") {
					synctest.Test(t, f)
				} else {
					f(t)
				}
			})
			return out
		})
	})
}

// play plays a scenario. With crashes it plays it again with a crash before and after each commit,
// which must print the same. Of many commits the short form draws some.
func play(t *testing.T, at, input string, crashes, bubble bool) string {
	once := func(n int, after bool) (*script, string) {
		s := newScript(t, at, bubble)
		s.CrashAt, s.CrashAfter = n, after
		s.run(input)
		defer s.Close()
		return s, snapshot(t, s.Host)
	}
	s, end := once(0, false)
	shown := s.out.String()
	step := 1
	if !long {
		step += s.Commits / 32
	}
	for n := 1 + rand.IntN(step); crashes && n <= s.Commits && !t.Failed(); n += step {
		for _, after := range []bool{false, true} {
			c, got := once(n, after)
			// A body that ends beside the run may save it a commit, and then there is no crash.
			if c.out.String() != shown || got != end || c.Crashes == 0 && c.Commits >= n {
				t.Fatalf("%s: with a crash at commit %d (after it: %v)\n%s%s\n\nwithout it\n%s%s",
					at, n, after, c.out.String(), got, shown, end)
			}
		}
	}
	return collapsed(shown)
}

// collapsed returns a text with a line that is repeated only once.
func collapsed(text string) string {
	var b strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines) && text != ""; {
		n := 1
		for i+n < len(lines) && lines[i+n] == lines[i] {
			n++
		}
		b.WriteString(lines[i])
		if n > 1 {
			fmt.Fprintf(&b, " (%d times)", n)
		}
		b.WriteByte('\n')
		i += n
	}
	return b.String()
}

// A script is the state of a scenario.
type script struct {
	*memory.Actor // main
	t             *testing.T
	at            string
	bubble        bool // of testing/synctest: bodies take time
	strict        bool // effects must not happen twice
	began         time.Time
	out           strings.Builder
	functions     map[string]*Function[string, string]
	flags         map[string]bool
	calls         int        // of workflow functions
	stumbles      *rand.Rand // functions panic at some statements
	life          int        // of the run: the value of its effects, if it is not 0
	later         []func()   // when nothing else is left to do, one after another

	bodies sync.Mutex                 // guards the rest
	ran    map[string]int             // bodies by the names of their steps
	keys   map[string][]string        // of their executions
	times  map[string][]time.Duration // of their executions, after the beginning
	active map[string]bool            // keys of bodies that run
	did    map[string]bool            // keys of effects outside
	undid  map[string][]string        // the keys of the undos of these
	most   int                        // bodies at the same time
}

func newScript(t *testing.T, at string, bubble bool) *script {
	s := &script{
		Actor: newActor(t), t: t, at: at, bubble: bubble, functions: map[string]*Function[string, string]{},
		flags: map[string]bool{}, ran: map[string]int{}, keys: map[string][]string{},
		times: map[string][]time.Duration{}, active: map[string]bool{},
		did: map[string]bool{}, undid: map[string][]string{},
	}
	s.began, s.Limit = s.Time(), 20_000
	return s
}

func (s *script) printf(format string, args ...any) {
	s.out.WriteString(strings.TrimRight(positions.ReplaceAllString(fmt.Sprintf(format, args...), "($1)"), " ") + "\n")
}

// positions matches the places in the code in reports, which are the interpreter's.
var positions = regexp.MustCompile(`\([^( ]*?(\w+_test\.go):[^)]*\)`)

// drive runs the host until a condition holds, or nothing happens by itself.
func (s *script) drive(so func() bool) {
	s.t.Helper()
	for !s.Drive(memory.Forever, func() bool { s.beside(); return !s.Busy() && so() }) && len(s.later) > 0 {
		next := s.later[0]
		s.later = s.later[1:]
		next()
	}
}

// beside runs a body even if runs have something to do, if the script says so.
func (s *script) beside() {
	if s.flags["beside"] {
		s.Body()
	}
}

// clock moves the clock.
func (s *script) clock(to time.Time) {
	if s.Now = to; s.bubble {
		time.Sleep(time.Until(to))
	}
	for _, h := range s.Actors {
		h.Change(func() {})
	}
}

// control runs a control function, and prints its error.
func (s *script) control(c *line, h *memory.Actor, f func(t Turn) error) {
	err := h.Transact(func(t *memory.Turn) error {
		err := f(t)
		errorIf(s.t, err != nil && t.Wrote(), "%s: %q was refused, and has written", s.at, c.words)
		return err
	})
	if err != nil {
		var refused *ControlError
		fatalIf(s.t, !errors.As(err, &refused), "%s: %q: %v", s.at, c.words, err)
		s.printf("%s: %v", strings.Join(c.words, " "), err)
	}
}

// copies rewinds copies of a run to each of its entries, or forks them up to each, and prints their
// ends after messages: entries with the same end in one line. Meanwhile the process dies
// repeatedly.
func (s *script) copies(h *memory.Actor, c *line) {
	rows, verb := h.Rows.All(), strings.TrimSuffix(c.words[0], "s")
	recording, err := Export(h.Rows)
	must(s.t, err)
	var ends []string
	paths := map[string]string{} // by their ends
	for _, e := range listed(s.t, h) {
		if verb == "fork" && !e.Status.Over() {
			continue
		}
		again := s.Host.Actor(destination(verb + " " + e.Path))
		if verb == "rewind" {
			again.Load(rows)
		}
		s.control(&line{words: []string{verb, e.Path}}, again, func(t Turn) error {
			if verb == "rewind" {
				return Rewind(t, e.ID)
			}
			_, err := Import(t, recording, StartOptions{UpTo: e.ID})
			return err
		})
		for _, text := range c.words[2:] {
			send(s.t, again, c.arg(1), text)
		}
		send(s.t, again, "end", "go")
		s.Chance = rand.New(rand.NewPCG(uint64(e.Seq), 1))
		s.drive(func() bool { return false })
		s.Chance = nil
		end := padding.ReplaceAllString(shown(s.t, again), "")
		if paths[end] == "" {
			ends = append(ends, end)
		}
		paths[end] += " " + e.Path
	}
	for _, end := range ends {
		s.printf("%s%s: %s", verb, paths[end], end)
	}
}

// padding is added to a value to make it large.
var padding = regexp.MustCompile("x{100,}")

// listed returns the history of a run.
func listed(t testing.TB, h *memory.Actor) (list []HistoryEntry) {
	t.Helper()
	for e, err := range History(h.Rows, Filter{}) {
		must(t, err)
		list = append(list, e)
	}
	return list
}

// entry returns the id of the entry at a path.
func (s *script) entry(h *memory.Actor, path string) EntryID {
	for _, e := range listed(s.t, h) {
		if e.Path == path {
			return e.ID
		}
	}
	s.t.Fatalf("%s: no entry %q in\n%s", s.at, path, Recorded(s.t, h.Rows))
	return ""
}

// run executes commands.
func (s *script) run(text string) {
	commands, _ := parse(s.t, split(s.t, text))
	for _, c := range commands {
		s.command(c)
	}
}

// command executes a command. "on x" stands before a command for another actor than main.
func (s *script) command(c *line) {
	h, name := s.Actor, c.arg(1)
	if c.words[0] == "on" {
		h, c = s.Host.Actor(destination(name)), &line{c.words[2:], c.block}
		name = c.arg(1)
	}
	label := ""
	if h.Self.Key[0] != "main" {
		label = h.Self.Key[0] + ": "
	}
	switch c.words[0] {
	case "code":
		s.functions[name] = s.function(c)
		s.Programs[name] = s.functions[name].Program()
	case "deploy": // other code, which is tried at once
		s.command(&line{append([]string{"code"}, c.words[1:]...), c.block})
		s.command(&line{words: []string{"crash"}})
		if st, err := ReadStatus(h.Rows); err == nil && st.Pause != nil {
			s.clock(st.Pause.Next)
		}
	case "start":
		var id [16]byte
		copy(id[:], h.Self.Key[0]+c.option("id"))
		if c.is("replace") {
			h.Shut()
		}
		input, err := s.Programs[name].EncodeInput(c.arg(2))
		must(s.t, err)
		if err := h.Transact(func(t *memory.Turn) error {
			started, err := Start(t, s.Programs[name], input, StartOptions{ID: id, Replace: c.is("replace")})
			if err == nil && !started.Started {
				s.printf("there is this run already")
			}
			return err
		}); err != nil {
			s.printf("%v", err)
		}
	case "run": // to the end, or until nothing happens by itself
		s.drive(func() bool { return false })
		s.printf("%s%s", label, shown(s.t, h))
	case "until": // a line of the history is there, or the run is asleep, hanging or paused (again)
		if name == "paused" && h.Last.Paused {
			s.clock(h.Last.Wake)
			h.Change(func() { h.Last = Outcome{} })
		}
		s.drive(func() bool {
			switch text := strings.Join(c.words[1:], " "); text {
			case "paused":
				return h.Last.Paused
			case "over":
				return h.Last.Ended
			case "idle":
				return s.Idle()
			case "asleep":
				return h.Last.Wake.After(s.Time()) && s.Idle()
			case "faulty": // its transaction was undone, and the pause is not recorded yet
				return h.Last.Undo
			case "hanging":
				return s.Running() > 0 && s.Idle()
			default:
				return strings.Contains("\n"+Recorded(s.t, h.Rows), "\n"+text)
			}
		})
		if name == "paused" {
			text, _, _ := strings.Cut(shown(s.t, h), "\n")
			s.printf("%s%s", label, text)
		}
	case "report": // the outcome, or the text of the pause after its first line
		text, _, _ := strings.Cut(shown(s.t, h), "\n\n")
		_, rest, more := strings.Cut(text, "\n")
		if !more {
			rest = text
		}
		s.printf("%s%s", label, rest)
	case "crash":
		s.Close()
	case "advance":
		s.clock(s.Time().Add(s.duration(name)))
	case "wake": // at the time for which the run waits
		s.clock(h.Last.Wake)
	case "rest": // all actors go to sleep
		s.Rest()
	case "send":
		for _, text := range c.words[2:] {
			send(s.t, h, name, text)
		}
	case "later": // when nothing happens by itself
		s.later = append(s.later, func() { s.command(&line{c.words[1:], c.block}) })
	case "put":
		h.Change(func() { stateOf(h)[name] = c.arg(2) })
	case "forget":
		delete(s.Programs, name)
	case "flag":
		s.flags[name] = true
	case "life":
		s.life, _ = strconv.Atoi(name)
	case "rewinds", "forks":
		s.copies(h, c)
	case "payloads": // have at most so many bytes
		n, _ := strconv.Atoi(name)
		s.Options.MaxPayload = int64(n)
	case "refuse":
		s.Refused[memory.Name(destination(name))] = errors.New("no such actor")
	case "cancel":
		s.control(c, h, func(t Turn) error { return Cancel(t, name) })
	case "hold":
		s.control(c, h, func(t Turn) error { return Hold(t, name) })
	case "resume":
		s.control(c, h, Resume)
	case "terminate":
		s.control(c, h, func(t Turn) error { return Terminate(t, name) })
	case "retry", "rewind":
		h.Shut()
		id := s.entry(h, name)
		s.control(c, h, func(t Turn) error {
			if c.words[0] == "retry" {
				return RetryEntry(t, id)
			}
			return Rewind(t, id)
		})
	case "fork": // the run continues as another, from an entry on
		h.Shut()
		id := s.entry(h, name)
		s.control(c, h, func(t Turn) error {
			rec, err := Export(t)
			if err == nil {
				err = Terminate(t, "forked")
			}
			if err == nil {
				_, err = Import(t, rec, StartOptions{Replace: true, UpTo: id})
			}
			return err
		})
	case "destroy", "lose": // a lost actor notifies no other
		if c.words[0] == "destroy" {
			must(s.t, h.Transact(func(t *memory.Turn) error { return Destroyed(t) }))
		}
		h.Shut()
		h.Load(nil)
		clear(stateOf(h))
	case "verify":
		rep, err := Verify(h.Rows, s.Lookup)
		switch {
		case err != nil:
			s.printf("verify: %v", err)
		case rep.Problem != nil:
			text, _, _ := strings.Cut(rep.Problem.Text, "\n")
			s.printf("verify: %s: %s", rep.Problem.Reason, text)
		default:
			s.printf("verify: fits %s", strings.Join(rep.MissingUndos, ", "))
		}
	case "history":
		for _, e := range listed(s.t, h) {
			text := fmt.Sprintf("  %s: %s %s", e.Path, e.Kind, e.Status)
			if !e.Undone.IsZero() {
				text += ", undone"
			}
			if e.UndoFailure != nil {
				text += ", its undo failed: " + e.UndoFailure.Message
			}
			s.printf("%s", text)
		}
	case "state":
		var all []string
		for _, k := range slices.Sorted(maps.Keys(stateOf(h))) {
			all = append(all, k+"="+strings.TrimSpace(stateOf(h)[k]))
		}
		s.printf("%sstate %s", label, strings.Join(all, ", "))
	case "order":
		s.printf("%sundone%s", label, stateOf(h)["order"])
	case "inbox": // results of children that the run has not received
		s.printf("%sinbox has %d", label, InboxLen(s.t, h.Rows))
	case "replies":
		var all []string
		for _, r := range h.Replies {
			all = append(all, fmt.Sprintf("%s/%d", r.Queue, r.ID))
		}
		s.printf("%sreplies %v", label, all)
	case "status":
		st, err := ReadStatus(h.Rows)
		must(s.t, err)
		text := fmt.Sprintf("%s%s, epoch %d", label, st.State, st.Epoch)
		if st.Undo > 0 {
			text += ", owes " + strconv.Itoa(st.Undo)
		}
		if st.Published != nil {
			text += fmt.Sprintf(", published %s", st.Published[1:])
		}
		if st.Pause != nil && !st.Pause.Next.IsZero() {
			text += fmt.Sprintf(", paused %s, tries again after %v", st.Pause.Reason, st.Pause.Next.Sub(st.Pause.Since))
		}
		s.printf("%s", text)
	case "ran":
		s.printf("%s ran %d times, %d keys", name, s.ran[name], len(s.keys[name]))
	case "times": // at which bodies of a step began
		s.printf("%s at %v", name, s.times[name])
	case "most":
		s.printf("%d at once", s.most)
	case "running":
		s.printf("%d running after %v", s.Running(), s.Time().Sub(s.began))
	case "commits":
		s.printf("%d commits", s.Commits)
	case "reads": // of rows
		s.printf("%d reads", s.Reads)
	case "calls":
		s.printf("%d calls", s.calls)
	case "repeat":
		for n, _ := strconv.Atoi(name); n > 0; n-- {
			for _, l := range c.block {
				s.command(l)
			}
		}
	default:
		s.t.Fatalf("%s: no command %q", s.at, c.words[0])
	}
}
