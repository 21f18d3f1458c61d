package replay_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// A grower makes random workflow functions, in the statements of scripts. Each name has a number,
// so a name and the path of the iterations around it ($$) are the key of an effect.
type grower struct {
	*rand.Rand
	left, names int
	code        string // the functions of children
	prefix      string // of names: "busy" if the effects depend on timing
	loser       bool   // within the loser of a race, whose updates would stay, and whose sagas would settle
	remote      bool   // within a child in another actor
	grandchild  bool   // such a child has one
}

func (g *grower) name(kind string) string {
	g.names++
	return fmt.Sprint(g.prefix, kind, g.names)
}

func (g *grower) block(depth int, mayFail bool) string {
	var list []string
	for range 1 + g.IntN(3) {
		list = append(list, g.statement(depth, mayFail))
	}
	return strings.Join(list, "; ")
}

func (g *grower) branches(depth int, mayFail bool) (text string) {
	for i := range 1 + g.IntN(3) {
		text += fmt.Sprintf("b%d { %s } ", i, g.block(depth, mayFail))
	}
	return text
}

// statement makes a statement, or two if one needs the other.
func (g *grower) statement(depth int, mayFail bool) string {
	g.left--
	kinds := []string{"step", "mark", "named", "sleep", "update", "scope", "or", "loop", "join", "joinfast", "race",
		"map", "saga", "spawn", "remote", "failfast"}
	switch {
	case (depth == 0 || g.left < 0) && g.loser:
		kinds = kinds[:4]
	case depth == 0 || g.left < 0:
		kinds = kinds[:5]
	case g.loser:
		kinds = append(kinds[:4:4], kinds[5:12]...)
	case !mayFail:
		kinds = kinds[:15]
	}
	kind, opt := kinds[g.IntN(len(kinds))], g.IntN(4)
	name := g.name(kind)
	depth--
	switch kind {
	case "step", "mark", "named":
		text := fmt.Sprintf("%s %s$$ attempts=-1 value=v%d", kind, name, g.names)
		if kind == "named" {
			text = fmt.Sprintf("step %s$$ attempts=-1 marks undo-by=undo", name)
		}
		if mayFail && g.IntN(8) == 0 {
			text += " fails"
		}
		if g.IntN(5) == 0 {
			text += " errs=1"
		}
		if kind == "mark" && opt == 0 {
			text += " undo-errs=1"
		}
		return text
	case "sleep":
		return fmt.Sprintf("sleep %s %ds", name, 1+opt)
	case "update":
		return fmt.Sprintf("update %s$$ value=u", name)
	case "scope", "saga":
		return fmt.Sprintf("%s %s { %s }", kind, name, g.block(depth, mayFail))
	case "or":
		return fmt.Sprintf("or else scope %s { %s }", name, g.block(depth, true))
	case "loop":
		return fmt.Sprintf("loop %s %d trim=%d keep=%d { %s }", name, 1+g.IntN(5), 1+opt, opt%2, g.block(depth, mayFail))
	case "map":
		return fmt.Sprintf("map %s %d at-once=%d { %s }; values %s", name, g.IntN(4), opt, g.block(depth, mayFail), name)
	case "join", "joinfast":
		return fmt.Sprintf("%s %s { %s }; values %s", kind, name, g.branches(depth, mayFail && kind == "join"), name)
	case "race": // the first branch wins
		defer func(was bool) { g.loser = was }(g.loser)
		text := fmt.Sprintf("race %s {", name)
		for i := range 1 + g.IntN(3) {
			text += fmt.Sprintf(" b%d { %s", i, g.block(depth, false))
			if g.loser = true; i > 0 && (opt+i)%2 == 0 {
				text += "; fail model"
			} else if i > 0 {
				text += fmt.Sprintf("; sleep %s 1000h", g.name("sleep"))
			}
			text += " }"
		}
		return text + " }"
	case "failfast": // the effects of the first branch depend on timing; its saga undoes them
		defer func(was string) { g.prefix = was }(g.prefix)
		g.prefix = "busy"
		saga, bad := g.name("saga"), "fail model"
		inner := g.block(depth, false)
		never := g.name("sleep")
		if opt > 0 {
			bad = fmt.Sprintf("sleep %s 2s; fail model", g.name("sleep"))
		}
		return fmt.Sprintf("joinfast %s { busy { saga %s { %s; sleep %s 1000h } } bad { %s } }", name, saga, inner, never, bad)
	}
	// A child, in another actor or not.
	defer func(was bool) { g.remote = was }(g.remote)
	text := fmt.Sprintf("spawn %s %s in=$$", name, name)
	if kind == "remote" {
		g.grandchild = g.grandchild || g.remote
		g.remote = true
		text += " on=" + name + "$$"
	}
	g.code += fmt.Sprintf("code %s { %s }\n", name, g.block(depth, mayFail))
	return text + "; result " + name
}

// program returns the commands that declare a random workflow.
func (g *grower) program(mayFail bool) string {
	main := g.block(3, mayFail)
	return g.code + "code main { " + main + " }"
}

// A model executes a function directly.
type model struct {
	code   map[string][]*line
	live   map[string]bool // effects that were not undone
	saga   int             // explicit sagas around
	values map[string]string
	failed map[string]bool // children
}

// run returns the value of a block, whether it failed, and the effects that may have to be undone.
func (m *model) run(block []*line, path string) (v string, failed bool, owed []string) {
	var values []string
	for _, l := range block {
		lv, f, o := m.do(l, path)
		if owed = append(owed, o...); f {
			return "", true, owed
		}
		if lv != "" {
			values = append(values, lv)
		}
	}
	return strings.Join(values, " "), false, owed
}

func (m *model) do(l *line, path string) (v string, failed bool, owed []string) {
	name := strings.ReplaceAll(l.arg(1), "$$", path)
	several := func(n int, part func(i int) (string, bool, []string)) (values []string, failed bool, owed []string) {
		for i := range n {
			v, f, o := part(i)
			values, failed, owed = append(values, v), failed || f, append(owed, o...)
		}
		return values, failed, owed
	}
	inside := func(i int) (string, bool, []string) { return m.run(l.block, fmt.Sprint(path, ".", i)) }
	switch l.words[0] {
	case "sleep":
		return "", false, nil
	case "fail":
		return "", true, nil
	case "values":
		return m.values[name], false, nil
	case "result":
		return m.values[name], m.failed[name], nil
	case "update":
		m.live[name] = true
		return "u", false, nil
	case "step", "mark":
		if l.is("fails") {
			return "", true, nil
		}
		if l.words[0] == "mark" || l.is("marks") {
			m.live[name], owed = true, []string{name}
		}
		return l.option("value"), false, owed
	case "scope":
		return m.run(l.block, path)
	case "or":
		if v, failed, owed = m.run(l.block, path); failed {
			v = l.arg(1)
		}
		return v, false, owed
	case "loop":
		for i := range l.count() {
			lv, f, o := inside(i)
			if owed = append(owed, o...); f {
				return "", true, owed
			}
			v += lv
		}
		return v, false, owed
	case "race":
		v, _, owed = m.run(l.block[0].block, path)
		return strings.TrimSpace("b0 " + v), false, owed
	case "join", "joinfast", "map":
		if l.block[0].words[0] == "busy" {
			return "", true, nil
		}
		n := len(l.block)
		part := func(i int) (string, bool, []string) { return m.run(l.block[i].block, path) }
		if l.words[0] == "map" {
			n, part = l.count(), inside
		}
		values, failed, owed := several(n, part)
		m.values[name] = fmt.Sprintf("%q", values)
		return "", failed, owed
	case "saga":
		m.saga++
		v, failed, owed = m.settled(l.block, path)
		if m.saga--; m.saga == 0 || failed {
			owed = nil
		}
		return v, failed, owed
	case "spawn":
		defer func(was int) { m.saga = was }(m.saga)
		m.saga = 0
		m.values[name], m.failed[name], _ = m.settled(m.code[l.arg(2)], path)
		return "", false, nil
	}
	panic(l.words[0])
}

// settled runs a block that undoes its effects if it fails.
func (m *model) settled(block []*line, path string) (v string, failed bool, owed []string) {
	v, failed, owed = m.run(block, path)
	for _, name := range owed {
		if failed {
			delete(m.live, name)
		}
	}
	return v, failed, owed
}

// direct returns the result of a program, and the remaining effects.
func direct(t *testing.T, program string) (string, []string) {
	m := &model{map[string][]*line{}, map[string]bool{}, 0, map[string]string{}, map[string]bool{}}
	commands, _ := parse(t, split(t, program))
	for _, c := range commands {
		m.code[c.arg(1)] = c.block
	}
	v, failed, _ := m.settled(m.code["main"], "")
	out := strings.TrimSpace("completed " + v)
	if failed {
		out = "failed"
	}
	return out, slices.Sorted(maps.Keys(m.live))
}

// comesTo returns the end of the run of main, without the texts of errors, and the remaining
// effects.
func comesTo(t testing.TB, h *memory.Actor) (string, []string) {
	out := strings.TrimSpace(outcome(t, h))
	if strings.HasPrefix(out, "failed: ") {
		out = "failed"
	}
	var live []string
	for _, a := range h.Actors {
		CheckRows(t, a.Rows)
		for k, v := range stateOf(a) {
			if k != "order" && v != "undone" && !strings.HasPrefix(k, "busy") {
				live = append(live, k)
			}
		}
	}
	slices.Sort(live)
	return out, live
}

// steady returns the history without the parts that depend on when a branch was canceled, in an
// order that does not depend on which branch used a name first.
func steady(t testing.TB, h *memory.Actor) string {
	lines := strings.SplitAfter(Recorded(t, h.Rows), "\n")
	slices.Sort(lines)
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "/busy") }), "")
}

var long = os.Getenv("CAIRN_LONG") != "" // `make soak`

// rounds returns the number of rounds of a random test.
func rounds(n, inLong int) int {
	if long {
		return inLong
	}
	return n
}

// sides returns whether to crash before or after the n-th commit: one of the two, in turn, and both
// in the long form.
func sides(n int) []bool {
	if long {
		return []bool{false, true}
	}
	return []bool{n%2 == 0}
}

// randomly returns a world with a random program.
func randomly(t *testing.T, seed uint64, program string) *script {
	s := newScript(t, fmt.Sprint("seed ", seed), false)
	s.Limit = 100_000
	s.run(program)
	return s
}

// Random programs end as they do when executed directly, wherever the process dies.
func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(rounds(8, 600)) {
		g := &grower{Rand: rand.New(rand.NewPCG(seed, 5)), left: 14}
		program := g.program(true)
		want, live := direct(t, program)
		history := ""
		run := func(what string, crash func(s *script)) (commits int) {
			s := randomly(t, seed, program)
			defer s.Close()
			s.strict = true
			crash(s)
			s.run("start main")
			drive(t, s.Actor)
			got, left := comesTo(t, s.Actor)
			fatalIf(t, got != want || !slices.Equal(left, live), "seed %d, %s:\n%s\n got %s %v\nwant %s %v\n%s",
				seed, what, program, got, left, want, live, Recorded(t, s.Rows))
			if history == "" {
				history = steady(t, s.Actor)
			}
			fatalIf(t, steady(t, s.Actor) != history, "seed %d, %s:\n%s\nhistory\n%swant\n%s", seed, what, program,
				steady(t, s.Actor), history)
			return s.Commits
		}
		commits := run("no crash", func(*script) {})
		for at := 1; at <= commits; at++ {
			for _, after := range sides(at + int(seed)) {
				run(fmt.Sprintf("crash at commit %d (after: %v)", at, after), func(s *script) { s.CrashAt, s.CrashAfter = at, after })
			}
		}
		for i := range uint64(3) {
			run("many crashes", func(s *script) { s.Chance = rand.New(rand.NewPCG(seed, i+1)) })
		}
	}
}

// disturbed runs a random program under a disturbance, with crashes and without, and checks that it
// ends as it does when executed directly. Without crashes, no body without functions of OnCommit
// runs more often than undisturbed, except where that depends on when a branch is canceled.
func disturbed(t *testing.T, seed uint64, disturb func(s *script, r *rand.Rand)) {
	g := &grower{Rand: rand.New(rand.NewPCG(seed, 7)), left: 12}
	program := g.program(true)
	count := seed%2 == 0
	if count { // a failed attempt does not count if it is followed by another and was disturbed
		program = strings.NewReplacer(" errs=1", "", "undo-errs=1", "").Replace(program)
		count = !strings.Contains(program, "race") && !strings.Contains(program, "busy")
	}
	want, live := direct(t, program)
	var peace map[string]int
	for i := range uint64(4) {
		s := randomly(t, seed, program)
		s.strict = true
		r := rand.New(rand.NewPCG(seed, 8+i))
		if i > 1 {
			s.Chance = r
		}
		s.run("start main")
		if i > 0 {
			disturb(s, r)
		} else {
			drive(t, s.Actor)
		}
		got, left := comesTo(t, s.Actor)
		fatalIf(t, got != want || !slices.Equal(left, live), "seed %d, life %d:\n%s\n got %s %v\nwant %s %v\n%s",
			seed, i, program, got, left, want, live, Recorded(t, s.Rows))
		if peace == nil {
			peace = s.ran
		}
		for name, n := range s.ran {
			fatalIf(t, i == 1 && count && strings.HasPrefix(name, "step") && n > peace[name], "seed %d:\n%s\nthe body of %s ran %d times, in peace %d", seed, program, name, n, peace[name])
		}
		s.Close()
	}
}

// Runs that an operator pauses and resumes, and that leave memory meanwhile, end as they do
// undisturbed.
func TestRandomProgramsThatAreHeld(t *testing.T) {
	for seed := range uint64(rounds(30, 1500)) {
		disturbed(t, seed, func(s *script, r *rand.Rand) {
			for rounds := 0; !status(t, s.Actor).State.Over(); rounds++ {
				s.Drive(s.Now.Add(10*time.Second), func() bool { return r.IntN(8) == 0 })
				for _, a := range s.Actors {
					st, err := wfhost.ReadStatus(a.Rows)
					if err != nil || st.State.Over() {
						continue
					}
					switch held := st.Pause != nil && st.Pause.Reason == PausedOperator; {
					case held && r.IntN(2) == 0:
						must(t, a.Transact(func(t *memory.Turn) error { return Resume(t) }))
					case !held && r.IntN(3) == 0 && rounds < 1000:
						must(t, a.Transact(func(t *memory.Turn) error { return Hold(t, "held") }))
					}
					if s.Chance != nil && r.IntN(8) == 0 {
						a.Shut()
					}
				}
			}
			drive(t, s.Actor)
		})
	}
}

// Runs whose functions panic now and then end as they do undisturbed: finished steps do not run
// again.
func TestRandomProgramsThatPanic(t *testing.T) {
	for seed := range uint64(rounds(30, 1500)) {
		disturbed(t, seed, func(s *script, r *rand.Rand) {
			s.stumbles = r
			s.Drive(memory.Forever, func() bool { return s.Commits > 500 })
			s.stumbles = nil
			drive(t, s.Actor)
		})
	}
}

// Ended runs of random programs are rewound to each of their entries. They end in the same way
// again, wherever the process dies, or the rewind is refused and nothing is written.
func TestRandomRewinds(t *testing.T) {
	rewound := map[State]int{}
	refusals := map[string]int{}
	for seed := range uint64(rounds(10, 1000)) {
		g := &grower{Rand: rand.New(rand.NewPCG(seed, 6)), left: 10}
		program := g.program(seed%3 == 0)
		if g.grandchild {
			continue // a child that runs anew finds the actors of its own children taken
		}
		ended := randomly(t, seed, program)
		ended.run("start main")
		drive(t, ended.Actor)
		want, live := comesTo(t, ended.Actor)
		state := status(t, ended.Actor).State
		for _, e := range listed(t, ended.Actor) {
			s := randomly(t, seed, program)
			s.Now, s.Chance = ended.Now, rand.New(rand.NewPCG(seed, uint64(e.Seq)))
			for _, a := range ended.Actors {
				again, st := s.Host.Actor(a.Self), maps.Clone(stateOf(a))
				again.Load(a.Rows.All())
				again.State = &st
			}
			err := s.Transact(func(turn *memory.Turn) error {
				err := Rewind(turn, e.ID)
				errorIf(t, err != nil && turn.Wrote(), "seed %d, %s: something was written", seed, e.Path)
				return err
			})
			var refused *ControlError
			if errors.As(err, &refused) {
				refusals[strings.Fields(refused.Reason)[0]]++
				continue
			}
			must(t, err)
			rewound[state]++
			drive(t, s.Actor)
			got, left := comesTo(t, s.Actor)
			fatalIf(t, got != want || !slices.Equal(left, live), "seed %d, %s rewound to %s:\n%s\n got %s %v\nwant %s %v\n%s",
				seed, state, e.Path, program, got, left, want, live, Recorded(t, s.Rows))
			s.Close()
		}
	}
	if t.Logf("rewound %v, refused %v", rewound, refusals); rewound[StateCompleted] < 50 || rewound[StateFailed] < 5 {
		t.Error("too few")
	}
}
