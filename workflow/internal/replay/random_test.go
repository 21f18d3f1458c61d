package replay_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/memory"
	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// A node is a random workflow program: a tree.
type node struct {
	kind  string
	kids  []*node
	n     int  // iterations, or elements
	fails bool // a step
	flaky bool // a step that fails once
	opt   int
	child *Function[string, int] // of a remote one
}

// A grower makes random programs.
type grower struct {
	*rand.Rand
	left int
}

func (g *grower) program(depth int, mayFail bool) *node {
	n := &node{kind: "seq"}
	for range 1 + g.IntN(3) {
		n.kids = append(n.kids, g.node(depth, mayFail))
	}
	return n
}

func (g *grower) node(depth int, mayFail bool) *node {
	g.left--
	leaf := depth == 0 || g.left < 0
	kinds := []string{"step", "owe", "named", "sleep", "update", "seq", "try", "scope", "loop", "join", "fast", "failfast", "race", "map", "saga", "spawn", "remote"}
	if leaf {
		kinds = kinds[:5]
	}
	n := &node{kind: kinds[g.IntN(len(kinds))], opt: g.IntN(4)}
	switch n.kind {
	case "step", "owe", "named":
		n.fails = mayFail && g.IntN(8) == 0
		n.flaky = g.IntN(5) == 0
	case "seq":
		return g.program(depth-1, mayFail)
	case "scope", "saga", "spawn", "remote":
		n.kids = []*node{g.program(depth-1, mayFail)}
	case "try":
		n.kids = []*node{g.program(depth-1, true)}
	case "loop":
		n.n = 1 + g.IntN(5)
		n.kids = []*node{g.program(depth-1, mayFail)}
	case "map":
		n.n = g.IntN(4)
		n.kids = []*node{g.program(depth-1, mayFail)}
	case "join":
		for range 1 + g.IntN(3) {
			n.kids = append(n.kids, g.program(depth-1, mayFail))
		}
	case "fast", "race":
		for range 1 + g.IntN(3) {
			n.kids = append(n.kids, g.program(depth-1, false))
		}
	case "failfast":
		if !mayFail {
			n.kind = "sleep"
			break
		}
		n.kids = []*node{g.program(depth-1, false)}
	}
	return n
}

func (n *node) String() string {
	if n.kind == "step" || n.kind == "owe" || n.kind == "named" {
		s := n.kind
		if n.fails {
			s += "!"
		}
		if n.flaky {
			s += "~"
		}
		return s
	}
	var kids []string
	for _, k := range n.kids {
		kids = append(kids, k.String())
	}
	s := n.kind
	if n.n > 0 {
		s += strconv.Itoa(n.n)
	}
	if len(kids) > 0 {
		s += "(" + strings.Join(kids, " ") + ")"
	}
	return s
}

// A model executes a program directly.
type model struct {
	live map[string]bool // effects that were not undone
	saga int             // explicit sagas around
}

var errModel = errors.New("failed")

// eval returns the value, whether it failed, and the effects that are owed to be undone.
func (m *model) eval(n *node, path string) (v int, failed bool, owed []string) {
	switch n.kind {
	case "sleep":
		return 1, false, nil
	case "update":
		m.live[path] = true
		return 2, false, nil
	case "step":
		return 3, n.fails, nil
	case "owe", "named":
		if n.fails {
			return 0, true, nil
		}
		m.live[path] = true
		return 4, false, []string{path}
	case "seq":
		for i, k := range n.kids {
			kv, f, o := m.eval(k, fmt.Sprintf("%s/%d", path, i))
			owed = append(owed, o...)
			if f {
				return 0, true, owed
			}
			v = v*31 + kv
		}
		return v, false, owed
	case "scope":
		return m.eval(n.kids[0], path)
	case "try":
		v, f, owed := m.eval(n.kids[0], path)
		if f {
			v = 7
		}
		return v, false, owed
	case "loop":
		for i := range n.n {
			kv, f, o := m.eval(n.kids[0], fmt.Sprintf("%s~%d", path, i))
			owed = append(owed, o...)
			if f {
				return 0, true, owed
			}
			v = v*31 + kv
		}
		return v, false, owed
	case "join", "fast":
		for i, k := range n.kids {
			kv, f, o := m.eval(k, fmt.Sprintf("%s:%d", path, i))
			owed = append(owed, o...)
			failed = failed || f
			v = v*31 + kv
		}
		return v, failed, owed
	case "map":
		for i := range n.n {
			kv, f, o := m.eval(n.kids[0], fmt.Sprintf("%s~%d", path, i))
			owed = append(owed, o...)
			failed = failed || f
			v = v*31 + kv
		}
		return v, failed, owed
	case "failfast":
		return 0, true, nil // what the other branch did depends on when; it is undone at once, by its own saga
	case "race":
		return m.eval(n.kids[0], path+":0")
	case "saga", "spawn", "remote":
		settles := m.saga == 0 || n.kind != "saga"
		before := m.saga
		if m.saga++; n.kind != "saga" {
			m.saga = 0
		}
		v, f, owed := m.eval(n.kids[0], path)
		m.saga = before
		if f {
			for _, p := range owed {
				delete(m.live, p)
			}
			return 0, true, nil
		}
		if settles {
			owed = nil
		}
		return v, false, owed
	}
	panic(n.kind)
}

// direct returns what a program comes to.
func direct(n *node) (string, []string) {
	m := &model{live: map[string]bool{}}
	v, f, owed := m.eval(n, "")
	if f {
		for _, p := range owed {
			delete(m.live, p)
		}
	}
	out := fmt.Sprint("completed ", v)
	if f {
		out = "failed"
	}
	return out, slices.Sorted(maps.Keys(m.live))
}

// effects are the state of an actor.
type effects struct {
	on map[string]bool
	// lenient: what was done may be done again, and what was not done undone, because runs are rewound.
	lenient bool
}

// set has the transaction of a step change the state of the actor.
func set(sc *StepCtx, path string, on bool) {
	sc.OnCommit(func(tx *Tx) error { return setIn(tx, path, on) })
}

func setIn(tx *Tx, path string, on bool) error {
	e := tx.Host().(*effects)
	if e.on[path] == on && !e.lenient {
		return Permanent(fmt.Errorf("effect %s: %v twice", path, on))
	}
	e.on[path] = on
	return nil
}

// exec runs a program as a workflow.
func exec(ctx Context, n *node, path string) (int, error) {
	name := n.kind
	try := func(sc *StepCtx) error {
		if n.flaky && sc.Attempt() == 1 {
			return errors.New("not yet")
		}
		if n.fails {
			return Permanent(errModel)
		}
		return nil
	}
	switch n.kind {
	case "sleep":
		return 1, Sleep(ctx, name, time.Duration(1+n.opt)*time.Second)
	case "update":
		return Update(ctx, name, func(tx *Tx) (int, error) { return 2, setIn(tx, path, true) })
	case "step":
		return Step(ctx, name, func(sc *StepCtx) (int, error) { return 3, try(sc) })
	case "owe":
		return Compensated(ctx, name, func(sc *StepCtx) (int, error) {
			if err := try(sc); err != nil {
				return 0, err
			}
			set(sc, path, true)
			return 4, nil
		}, func(sc *StepCtx, v int) error {
			if _, known := sc.Undoes(); known && v != 4 {
				return fmt.Errorf("undo got %d", v)
			}
			if n.opt == 0 && sc.Attempt() == 1 {
				return errors.New("undo: not yet")
			}
			set(sc, path, false)
			return nil
		})
	case "named":
		return Step(ctx, name, func(sc *StepCtx) (int, error) {
			if err := try(sc); err != nil {
				return 0, err
			}
			set(sc, path, true)
			return 4, nil
		}, UndoBy("clear", path))
	case "seq":
		v := 0
		for i, k := range n.kids {
			kv, err := Scope(ctx, fmt.Sprint("s", i), func(ctx Context) (int, error) {
				return exec(ctx, k, fmt.Sprintf("%s/%d", path, i))
			})
			if err != nil {
				return 0, err
			}
			v = v*31 + kv
		}
		return v, nil
	case "scope":
		return Scope(ctx, name, func(ctx Context) (int, error) { return exec(ctx, n.kids[0], path) })
	case "try":
		v, err := exec(ctx, n.kids[0], path)
		if err != nil {
			v = 7
		}
		return v, nil
	case "loop":
		return Loop(ctx, name, 0, func(it *Iter[int, int]) error {
			if it.Iteration() == n.n {
				return it.Break(it.State)
			}
			kv, err := exec(it, n.kids[0], fmt.Sprintf("%s~%d", path, it.Iteration()))
			it.State = it.State*31 + kv
			return err
		}, TrimEvery(1+n.opt), Keep(n.opt%2))
	case "join", "fast":
		out := make([]int, len(n.kids))
		var branches []Branch
		for i, k := range n.kids {
			branches = append(branches, B(fmt.Sprint("b", i), &out[i], func(ctx Context) (int, error) {
				return exec(ctx, k, fmt.Sprintf("%s:%d", path, i))
			}))
		}
		var err error
		if n.kind == "join" {
			err = Join(ctx, name, branches...)
		} else {
			err = JoinFast(ctx, name, branches...)
		}
		v := 0
		for _, o := range out {
			v = v*31 + o
		}
		return v, err
	case "map":
		out, err := ForEach(ctx, name, make([]int, n.n), func(ctx Context, i, _ int) (int, error) {
			return exec(ctx, n.kids[0], fmt.Sprintf("%s~%d", path, i))
		}, Concurrency(n.opt))
		v := 0
		for _, o := range out {
			v = v*31 + o
		}
		return v, err
	case "failfast":
		return 0, JoinFast(ctx, name,
			B[int]("busy", nil, func(ctx Context) (int, error) {
				err := sagaOf(ctx, "saga", func(ctx Context) error {
					if _, err := exec(ctx, n.kids[0], path+":busy"); err != nil {
						return err
					}
					if err := Sleep(ctx, "long", 1000*time.Hour); err != nil {
						return err
					}
					return nil
				})
				return 0, err
			}),
			B[int]("bad", nil, func(ctx Context) (int, error) {
				if n.opt > 0 {
					if err := Sleep(ctx, "a moment", 2*time.Second); err != nil {
						return 0, err
					}
				}
				return 0, errModel
			}))
	case "race":
		cases := []Case[int]{C("c0", func(ctx Context) (int, error) { return exec(ctx, n.kids[0], path+":0") })}
		for i, k := range n.kids[1:] {
			cases = append(cases, C(fmt.Sprint("c", i+1), func(ctx Context) (int, error) {
				if _, err := exec(ctx, withoutUpdates(k), fmt.Sprintf("%s:%d", path, i+1)); err != nil {
					return 0, err
				}
				if (n.opt+i)%2 == 0 {
					return 0, errModel
				}
				return 0, Sleep(ctx, "long", 1000*time.Hour)
			}))
		}
		_, v, err := Race(ctx, name, cases...)
		return v, err
	case "saga":
		return Saga(ctx, name, func(ctx Context) (int, error) { return exec(ctx, n.kids[0], path) })
	case "spawn":
		d := NewFunction("child", func(ctx Context, in string) (int, error) { return exec(ctx, n.kids[0], in) })
		c, err := Spawn(ctx, name, d, path)
		if err != nil {
			return 0, err
		}
		return c.Result(ctx)
	case "remote":
		c, err := Spawn(ctx, name, n.child, path, OnActor(destination(path)))
		if err != nil {
			return 0, err
		}
		return c.Result(ctx)
	}
	panic(n.kind)
}

// withoutUpdates returns a program for the loser of a race, whose updates would stay, and whose sagas would settle.
func withoutUpdates(n *node) *node {
	c := *n
	switch c.kind {
	case "update", "saga", "spawn", "remote":
		c.kind, c.kids = "sleep", nil
	case "failfast":
		c.kind, c.kids = "sleep", nil
	}
	c.kids = nil
	for _, k := range n.kids {
		c.kids = append(c.kids, withoutUpdates(k))
	}
	if c.kind == "sleep" {
		c.kids = nil
	}
	return &c
}

// randomPrograms returns the program of a node, and those of its children in other actors.
func randomPrograms(n *node) []*Program {
	options := []Option{
		WithUndo("clear", func(sc *StepCtx, path string) error { set(sc, path, false); return nil }),
		WithStepDefaults(Retry(RetryPolicy{MaxAttempts: -1})),
	}
	list := []*Program{NewFunction("random", func(ctx Context, _ int) (int, error) { return exec(ctx, n, "") }, options...).Program()}
	var visit func(n *node)
	visit = func(n *node) {
		if n.kind == "remote" {
			n.child = NewFunction(fmt.Sprint("child", len(list)), func(ctx Context, path string) (int, error) { return exec(ctx, n.kids[0], path) }, options...)
			list = append(list, n.child.Program())
		}
		for _, k := range n.kids {
			visit(k)
		}
	}
	visit(n)
	return list
}

// comesTo returns how the run of main has ended, without the texts of errors, and the effects that are left.
func comesTo(t testing.TB, h *memory.Actor) (string, []string) {
	out := outcome(t, h)
	if strings.HasPrefix(out, "failed: ") {
		out = "failed"
	}
	var live []string
	for _, a := range h.Actors {
		for k, on := range a.State.(*effects).on {
			if on && !strings.Contains(k, ":busy") { // see failfast
				live = append(live, k)
			}
		}
	}
	slices.Sort(live)
	return out, live
}

// steady returns the history without what depends on when a branch was canceled.
func steady(t testing.TB, h *memory.Actor) string {
	var b strings.Builder
	for line := range strings.Lines(Recorded(t, h.Rows)) {
		if !strings.Contains(line, "/busy") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// rounds returns how often a random test runs.
func rounds(n, long int) int {
	if os.Getenv("CAIRN_LONG") != "" {
		return long
	}
	return n
}

// randomActor returns an actor for random programs, at whose host crashes come by chance unless chance is nil.
func randomActor(t testing.TB, lenient bool, chance *rand.Rand, programs ...*Program) *memory.Actor {
	h := memory.New(t, programs...)
	h.Fresh = func(Destination) any { return &effects{map[string]bool{}, lenient} }
	h.Chance, h.Limit = chance, 100_000
	return h.Actor(destination("main"))
}

// Random programs come to what they come to when they are executed directly, wherever the process dies.
func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(rounds(30, 600)) {
		g := &grower{Rand: rand.New(rand.NewPCG(seed, 5)), left: 14}
		n := g.program(3, true)
		want, live := direct(n)
		history := ""
		run := func(what string, crash func(h *memory.Actor)) (commits int) {
			programs := randomPrograms(n)
			h := randomActor(t, false, nil, programs...)
			defer h.Close()
			crash(h)
			must(t, h.Start(programs[0], 0, StartOptions{ID: [16]byte{1}}))
			drive(t, h)
			got, left := comesTo(t, h)
			fatalIf(t, got != want || !slices.Equal(left, live), "seed %d, %s: %v\n got %s %v\nwant %s %v\n%s",
				seed, what, n, got, left, want, live, Recorded(t, h.Rows))
			if history == "" {
				history = steady(t, h)
			}
			fatalIf(t, steady(t, h) != history, "seed %d, %s: %v\nhistory\n%swant\n%s", seed, what, n, steady(t, h), history)
			return h.Commits
		}
		commits := run("no crash", func(*memory.Actor) {})
		for at := 1; at <= commits; at++ {
			for _, after := range []bool{false, true} {
				run(fmt.Sprintf("crash at commit %d (after: %v)", at, after), func(h *memory.Actor) { h.CrashAt, h.CrashAfter = at, after })
			}
		}
		for i := range uint64(3) {
			run("many crashes", func(h *memory.Actor) { h.Chance = rand.New(rand.NewPCG(seed, i+1)) })
		}
	}
}

// grandchildren reports whether a child in another actor has one.
func grandchildren(n *node, inChild bool) bool {
	remote := n.kind == "remote"
	return remote && inChild || slices.ContainsFunc(n.kids, func(k *node) bool { return grandchildren(k, inChild || remote) })
}

// Runs of random programs that have ended are rewound to each of their entries: they come to the same end again, wherever the
// process dies, or it is refused and nothing is written.
func TestRandomRewinds(t *testing.T) {
	rewound := map[State]int{}
	refusals := map[string]int{}
	for seed := range uint64(rounds(40, 1000)) {
		g := &grower{Rand: rand.New(rand.NewPCG(seed, 6)), left: 10}
		n := g.program(3, seed%3 == 0)
		if grandchildren(n, false) {
			continue // a child that runs anew finds the actors of its own children taken
		}
		programs := randomPrograms(n)
		ended := randomActor(t, true, nil, programs...)
		must(t, ended.Start(programs[0], 0, StartOptions{ID: [16]byte{1}}))
		drive(t, ended)
		want, live := comesTo(t, ended)
		state := status(t, ended).State
		for _, e := range listed(t, ended) {
			h := randomActor(t, true, rand.New(rand.NewPCG(seed, uint64(e.Seq))), programs...)
			h.Now = ended.Now
			for _, a := range ended.Actors {
				again := h.Host.Actor(a.Self)
				again.Load(a.Rows.All())
				again.State = &effects{maps.Clone(a.State.(*effects).on), true}
			}
			err := h.Transact(func(turn *memory.Turn) error {
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
			drive(t, h)
			got, left := comesTo(t, h)
			fatalIf(t, got != want || !slices.Equal(left, live), "seed %d, %s rewound to %s: %v\n got %s %v\nwant %s %v\n%s",
				seed, state, e.Path, n, got, left, want, live, Recorded(t, h.Rows))
			h.Close()
		}
	}
	if t.Logf("rewound %v, refused %v", rewound, refusals); rewound[StateCompleted] < 100 || rewound[StateFailed] < 5 {
		t.Error("too few")
	}
}
