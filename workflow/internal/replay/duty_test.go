package replay_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/workflow/internal/memory"
	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// A planner makes random workflows whose steps have slow outside effects, and may fail before or
// after these.
type planner struct {
	*rand.Rand
	steps int
}

func (p *planner) ms(most int) string { return fmt.Sprint(p.IntN(most), "ms") }

func (p *planner) one(of ...string) string { return of[p.IntN(len(of))] }

// step is a step that may have to be undone. Its value is its key.
func (p *planner) step() string {
	p.steps++
	words := []string{
		p.one("mark", "mark", "step"), fmt.Sprint("s", p.steps), "undo-by=undo outside initial=1s", fmt.Sprint("attempts=", 1+p.IntN(4)),
		"takes=" + p.ms(1500) + p.one("!", "", ""), "lasts=" + p.ms(1500), "undo-takes=" + p.ms(500),
		p.one("", "", "", "timeout="+p.ms(2000), "limited timeout="+p.ms(2000), "total="+p.ms(4000), "cancelled", "once"),
		p.one("", "", "", "", "", "", "", "fails", "errs=1", "panics", "stubborn"),
		p.one("", "undo-errs=1", "undo-lost=1", "undo-errs=1 undo-lost=2"),
	}
	if words[0] == "mark" {
		words[2] = strings.TrimPrefix(words[2], "undo-by=undo ")
	}
	return strings.Join(words, " ")
}

func (p *planner) some() string {
	return strings.Join([]string{p.step(), p.step(), p.step()}[:1+p.IntN(3)], "; ")
}

// part is one part of the workflow. A part that fails has undone all of it.
func (p *planner) part() string {
	switch p.IntN(5) {
	case 0:
		return p.some()
	case 1:
		return fmt.Sprintf("race race { steps { %s } timer { sleep sleep %s } more { %s } }", p.some(), p.ms(4000), p.some())
	case 2, 3:
		bad := "sleep sleep " + p.ms(4000) + p.one("", "; fail bad")
		return fmt.Sprintf("joinfast join { a { %s } b { %s } bad { %s } }; values join", p.some(), p.some(), bad)
	}
	return fmt.Sprintf("or given-up %s; or given-up %s", p.step(), p.step()) // which does not stop the others
}

// workflow returns the keys of the effects that stay: none, if it fails. It has a saga around
// everything, or none at all.
func (p *planner) workflow() string {
	sagas := p.IntN(2) == 0
	var parts []string
	for i := range 1 + p.IntN(3) {
		around := "scope"
		if sagas {
			around = p.one("saga", "or failed saga")
		}
		parts = append(parts, fmt.Sprintf("%s part%d { %s }", around, i, p.part()))
	}
	if p.IntN(4) == 0 {
		parts = append(parts, "fail in-the-end")
	}
	all := strings.Join(parts, "; ")
	if sagas { // the steps of the saga are settled, even if the run is canceled after it
		all = "saga all { " + all + "; do last }; settle"
	}
	return fmt.Sprintf("code main outside undo-takes=%s undo-lost=%d { %s }", p.ms(500), p.IntN(2), all)
}

// Steps are given up for random reasons at random moments, with crashes. When the run has ended,
// every effect that does not stay was undone exactly once per key, and no undo ran beside its body.
func TestGivenUpStepsAreUndoneOncePerKey(t *testing.T) {
	states, unknown, crashes := map[State]int{}, 0, 0
	for seed := range uint64(rounds(60, 1000)) {
		synctest.Test(t, func(t *testing.T) {
			g := &planner{Rand: rand.New(rand.NewPCG(seed, 8))}
			text := g.workflow()
			s := newScript(t, fmt.Sprint("seed ", seed), true)
			s.Racing = true
			s.run(text + "; start main")
			crash := func() {
				s.CrashAt = 0
				if g.IntN(4) > 0 && s.Crashes < 40 {
					s.CrashAt, s.CrashAfter = s.Commits+1+g.IntN(6), g.IntN(2) == 0
				}
			}
			crash()
			cancelAt := time.Now().Add(time.Duration(g.IntN(6000)) * time.Millisecond)
			canceled := g.IntN(3) > 0
			until(t, s.Actor, func() bool {
				if s.CrashAt != 0 && s.Commits >= s.CrashAt {
					crash()
				}
				if !canceled && !time.Now().Before(cancelAt) && !s.Last.Ended {
					canceled = true
					_ = s.Transact(func(t *memory.Turn) error { return Cancel(t, "enough") }) // it may be over
				}
				return false
			})
			st := status(t, s.Actor)
			fatalIf(t, !st.State.Over() || st.Undo != 0, "%s: %s, and owes %d: %s\n%s", s.at, st.State, st.Undo, outcome(t, s.Actor), text)
			kept, staying := st.Published, ""
			if st.State == StateCompleted {
				kept = st.Output
			}
			if kept != nil {
				must(t, cbor.Unmarshal(kept, &staying))
			}
			stay := 0
			for key := range s.did {
				want := 1
				if strings.Contains(staying, key) {
					want = 0
					stay++
				}
				errorIf(t, len(s.undid[key]) != want, "%s was undone %d times, want %d", key, len(s.undid[key]), want)
			}
			errorIf(t, stay != strings.Count(staying, st.ID), "%d of these were done: %s", stay, staying)
			fatalIf(t, t.Failed(), "%s: %s after %d crashes\n%s", s.at, st.State, s.Crashes, text)
			states[st.State]++
			unknown += strings.Count(fmt.Sprint(stateOf(s.Actor)), "?:undone")
			crashes += s.Crashes
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%v, %d unknown outcomes were undone, %d crashes", states, unknown, crashes)
	if states[StateCompleted] < 5 || states[StateFailed] < 5 || states[StateCancelled] < 5 || unknown < 5 || crashes < 50 {
		t.Error("not everything was tried")
	}
}
