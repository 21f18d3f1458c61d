package replay

import (
	"fmt"
	"strings"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A member is one branch of a group: a branch of a join or race, an element of a foreach, each a
// coroutine with a scope.
type member struct {
	g       *group
	name    string // for errors and status
	ordinal uint32
	loc     journal.Location
	run     func(ctx Context) ([]byte, error) // returns the encoded result
	o       *op                               // its end; nil before it begins
	// lost: the group was decided without it, and its end is not recorded.
	lost bool
}

// A group is a container whose branches run concurrently.
//
//  1. The end of a branch is a resolution with its own entry, at the branch's location. The driver
//     calls ended when it hands out that resolution, live or in a replay.
//  2. left counts the branches that have not ended. The group's own operation ends after all of
//     them.
//  3. In a replay, a group that has not ended enters all its branches, even ended ones, because
//     branches may share variables. A foreach skips ended branches, except those with obligations
//     whose handlers are functions of the code: its results come only from the values that its
//     elements return.
type group struct {
	s       *scope // that contains the group
	o       *op
	cancel  *cancellation // of the branches
	left    int
	waiting *coroutine // parked until left is 0
	again   bool       // enters branches that have ended
	ended   func(m *member)
}

// group makes the group of an operation that has begun.
func (s *scope) group(o *op) *group {
	return &group{s: s, o: o, cancel: newCancellation(s.cancel, false)}
}

// find makes the operation for the end of a branch.
func (g *group) find(m *member) *op {
	m.g = g
	o, err := g.s.run.branch(g.o, m.loc, m.name)
	if err != nil {
		g.s.corrupt(err)
	}
	if !o.recorded {
		o.entry.Ordinal = m.ordinal
	}
	return o
}

// start begins a branch.
func (g *group) start(m *member) {
	r := g.s.run
	g.left++
	m.o = g.find(m)
	over := m.o.ended()
	m.o.resolve = nothing
	m.o.after = func() error { g.settled(m); return nil }
	m.o.replayed = func() { g.settled(m) }
	if over && !g.again && !r.obliged(m.loc) {
		r.replayAt(m.o.entry.Seq, m.o)
		return
	}
	inner := g.s.inside(m.o, g.cancel, g.s.saga)
	inner.sealed = g.s.sealed || over || g.o.ended()
	inner.racing = inner.racing || g.o.entry.Kind == KindRace
	inner.owner = r.spawn(func(*coroutine) {
		output, err := m.run(inner)
		inner.end()
		switch {
		case m.lost:
			g.leave()
		case over:
			r.replayAt(m.o.entry.Seq, m.o)
		default:
			m.o.settleIn(inner, output, err)
			m.o.happened()
		}
	})
}

// recall returns the recorded ends of branches of a group that is not entered.
func (g *group) recall(members []*member) {
	for _, m := range members {
		m.o = g.find(m)
	}
}

// nothing is the resolve of operations whose outcome is known before they are resolved.
func nothing() error { return nil }

// settled runs when the driver hands out the end of a branch.
func (g *group) settled(m *member) {
	if g.ended != nil {
		g.ended(m)
	}
	g.leave()
}

func (g *group) leave() {
	g.left--
	if g.left == 0 {
		g.s.run.ready(g.waiting)
	}
}

// wait parks the coroutine of the group until all branches have ended.
func (g *group) wait() {
	c := g.s.owner
	for g.left > 0 {
		g.waiting, c.waits = c, g.o
		c.park()
	}
	g.waiting, c.waits = nil, nil
	g.cancel.unlink()
}

// sameBranches checks that an operation has the branches of its entry, or records the branches of a
// new one.
func (s *scope) sameBranches(o *op, branches []string) error {
	r := s.run
	if len(branches) > MaxBranches {
		return fmt.Errorf("workflow: %q has %d branches, and the limit is %d", o.name, len(branches), MaxBranches)
	}
	indexes := make([]uint32, len(branches))
	seen := make(map[string]bool, len(branches))
	for i, name := range branches {
		if seen[name] {
			s.misuse(s.owner, fmt.Sprintf("%s %q has two branches with the name %q", o.entry.Kind, o.name, name))
		}
		seen[name] = true
		indexes[i] = s.nameIndex(name)
	}
	if !o.recorded {
		o.entry.Branches = indexes
		return nil
	}
	same := len(indexes) == len(o.entry.Branches)
	for i := 0; same && i < len(indexes); i++ {
		same = indexes[i] == o.entry.Branches[i]
	}
	if !same {
		var recorded []string
		for _, i := range o.entry.Branches {
			recorded = append(recorded, r.names.Name(i))
		}
		r.diverged(o, fmt.Sprintf("branches %s", quoted(recorded)), fmt.Sprintf("branches %s", quoted(branches)), "")
	}
	return nil
}

// MaxBranches is how many branches a join, race or foreach may have.
const MaxBranches = 10_000

func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", n)
	}
	return b.String()
}
