package replay

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Each file of testdata/scripts holds scenarios: the lives of runs, as commands and what they print.
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
			t.Run(d.CmdArgs[0].Key, func(t *testing.T) { out = play(t, d.Pos, d.Input, d.HasArg("crashes")) })
			return out
		})
	})
}

// play plays a scenario. With crashes it plays it again with a crash before and after each commit,
// which must print the same.
func play(t *testing.T, at, input string, crashes bool) string {
	commands, _ := parse(t, split(t, input))
	once := func(n int, after bool) (*script, string) {
		s := &script{
			world: newWorld(t), t: t, at: at, functions: map[string]*Function[string, string]{},
			flags: map[string]bool{}, ran: map[string]int{}, keys: map[string][]string{},
		}
		s.crashAt, s.after, s.began, s.lenient = n, after, s.now, true
		for _, c := range commands {
			s.command(c)
		}
		end := ""
		for _, h := range s.order {
			end += fmt.Sprintf("\n%s: %s\n%s%v %v %v", h.self.Key[0], h.shown(), h.history(), h.state, h.replies, h.queues)
			h.close()
		}
		return s, end
	}
	s, end := once(0, false)
	shown := s.out.String()
	for n := 1; crashes && n <= s.commits && !t.Failed(); n++ {
		for _, after := range []bool{false, true} {
			c, got := once(n, after)
			// A body that ends beside the run may save it a commit, and then there is no crash.
			if c.out.String() != shown || got != end || c.crashes == s.crashes && c.commits >= n {
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
	*world
	t         *testing.T
	at        string
	began     time.Time
	out       strings.Builder
	functions map[string]*Function[string, string]
	flags     map[string]bool
	ran       map[string]int      // bodies by the names of their steps
	keys      map[string][]string // of their executions
	calls     int                 // of workflow functions
}

func (s *script) printf(format string, args ...any) {
	s.out.WriteString(strings.TrimRight(positions.ReplaceAllString(fmt.Sprintf(format, args...), "($1)"), " ") + "\n")
}

// positions are what reports say about places in the code, which is the interpreter's.
var positions = regexp.MustCompile(`\([^( ]*?(\w+_test\.go):[^)]*\)`)

// shown returns the outcome, without what depends on crashes.
func (h *rig) shown() string {
	if !h.started() {
		return "no run"
	}
	return attempts.ReplaceAllString(h.outcome(), "")
}

// control runs a control function, and prints its error.
func (s *script) control(c *line, h *rig, f func(t Turn) error) {
	t := h.begin()
	err := f(t)
	if err != nil {
		var refused *ControlError
		fatalIf(s.t, !errors.As(err, &refused), "%s: %q: %v", s.at, c.words, err)
		if len(t.before) > 0 || len(t.sent) > 0 || t.changed {
			s.t.Errorf("%s: %q was refused, and has written", s.at, c.words)
		}
		t.undo()
		s.printf("%s: %v", strings.Join(c.words, " "), err)
		return
	}
	t.commit()
	if h.run != nil {
		h.run.ControlChanged()
	}
	h.paused, h.stale, h.ended = false, true, false
}

// entry returns the id of the entry at a path.
func (s *script) entry(h *rig, path string) EntryID {
	for e, err := range History(h.begin(), Filter{}) {
		must(s.t, err)
		if e.Path == path {
			return e.ID
		}
	}
	s.t.Fatalf("%s: no entry %q in\n%s", s.at, path, h.history())
	return ""
}

// command executes a command. "on x" stands before a command for another actor than main.
func (s *script) command(c *line) {
	h, name := s.actor("main"), c.arg(1)
	if c.words[0] == "on" {
		h, c = s.actor(name), &line{c.words[2:], c.block}
		name = c.arg(1)
	}
	who := ""
	if h.self.Key[0] != "main" {
		who = h.self.Key[0] + ": "
	}
	switch c.words[0] {
	case "code":
		s.functions[name] = s.function(c)
		s.programs[name] = s.functions[name].Program()
	case "deploy": // other code, which is tried at once
		s.command(&line{append([]string{"code"}, c.words[1:]...), c.block})
		s.command(&line{words: []string{"crash"}})
		if f, err := loadFields(h.begin()); err == nil && f.pause != nil {
			s.now = f.pause.Next
		}
	case "start":
		d := s.functions[name]
		h.transact(func(t *rigTurn) error {
			in, err := d.Program().EncodeInput(c.arg(2))
			if err == nil {
				_, err = Start(t, d.Program(), in, StartOptions{ID: [16]byte{byte(len(s.order))}})
			}
			return err
		})
		h.stale = true
	case "run": // to the end, or until nothing happens by itself
		s.world.run()
		s.printf("%s%s", who, h.shown())
	case "until": // a line of the history is there, or the run is asleep, hanging or paused (again)
		if name == "paused" && h.paused {
			s.now, h.paused, h.stale = h.out.Wake, false, true
		}
		s.until(func() bool {
			switch text := strings.Join(c.words[1:], " "); text {
			case "paused":
				return h.paused
			case "asleep":
				busy := func(at *attempting) bool { return at.start != nil }
				return h.out.Wake.After(s.now) && !h.stale && len(s.mail) == 0 && !slices.ContainsFunc(h.pending, busy)
			case "faulty": // its transaction was undone, and the pause is not recorded yet
				return h.run != nil && h.run.fault != nil
			case "hanging":
				return slices.ContainsFunc(h.pending, func(at *attempting) bool { return at.start == nil }) && !h.stale
			default:
				return h.started() && strings.Contains("\n"+h.history(), "\n"+text)
			}
		})
		if name == "paused" {
			text, _, _ := strings.Cut(h.shown(), "\n")
			s.printf("%s%s", who, text)
		}
	case "report": // the outcome, or the text of the pause after its first line
		text, _, _ := strings.Cut(h.shown(), "\n\n")
		_, rest, more := strings.Cut(text, "\n")
		if !more {
			rest = text
		}
		s.printf("%s%s", who, rest)
	case "crash":
		s.crash()
		s.crashes--
		for _, h := range s.order {
			h.paused = false
		}
	case "advance":
		s.now = s.now.Add(s.duration(name))
		for _, h := range s.order {
			h.stale = true
		}
	case "send":
		for _, text := range c.words[2:] {
			h.send(name, text)
		}
	case "later": // when nothing happens by itself
		s.script = append(s.script, func() { s.command(&line{c.words[1:], c.block}) })
	case "put":
		h.state[name], h.stale = c.arg(2), true
	case "forget":
		delete(s.programs, name)
	case "flag":
		s.flags[name] = true
	case "refuse":
		s.refuse[name] = true
	case "cancel":
		s.control(c, h, func(t Turn) error { return Cancel(t, name) })
	case "hold":
		s.control(c, h, func(t Turn) error { return Hold(t, name) })
	case "resume":
		s.control(c, h, Resume)
	case "terminate":
		s.control(c, h, func(t Turn) error { return Terminate(t, name) })
	case "retry", "rewind":
		h.close()
		id := s.entry(h, name)
		s.control(c, h, func(t Turn) error {
			if c.words[0] == "retry" {
				return RetryEntry(t, id)
			}
			return Rewind(t, id)
		})
	case "fork": // the run goes on as another, from an entry on
		h.close()
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
	case "destroy", "lose": // an actor that is lost tells nobody
		if c.words[0] == "destroy" {
			h.transact(func(t *rigTurn) error { return Destroyed(t) })
		}
		h.close()
		clear(h.rows)
		clear(h.state)
		h.keys, h.ended, h.stale = nil, true, false
	case "verify":
		rep, err := Verify(h.begin(), s.lookup)
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
		for e, err := range History(h.begin(), Filter{}) {
			must(s.t, err)
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
		for _, k := range slices.Sorted(maps.Keys(h.state)) {
			all = append(all, k+"="+strings.TrimSpace(h.state[k]))
		}
		s.printf("%sstate %s", who, strings.Join(all, ", "))
	case "order":
		s.printf("%sundone%s", who, h.state["order"])
	case "queued":
		s.printf("%s%s has %d", who, name, len(h.queues[name]))
	case "inbox": // results of children that the run has not received
		inbox, err := loadInbox(h.begin())
		must(s.t, err)
		s.printf("%sinbox has %d", who, len(inbox))
	case "replies":
		s.printf("%sreplies %v", who, h.replies)
	case "status":
		st, err := ReadStatus(h.begin())
		must(s.t, err)
		text := fmt.Sprintf("%s%s, epoch %d", who, st.State, st.Epoch)
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
	case "commits":
		s.printf("%d commits", s.commits)
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
