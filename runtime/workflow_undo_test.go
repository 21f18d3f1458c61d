package runtime_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A journal is an actor in which errands leave and undo their effects, by the idempotency key of the step.
type journal struct {
	Done   map[string]bool
	Undone map[string]int
}

var (
	journals = actor.NewType[journal]("journal")
	enterIn  = actor.NewAction[string, actor.None](journals, "enter")
	strikeIn = actor.NewAction[string, actor.None](journals, "strike")
	auditOf  = actor.NewQuery[actor.None, journal](journals, "audit")

	errands = actor.NewType[actor.None]("errand")
	// errand returns the keys of the entries that stay.
	errand = actor.NewWorkflow[int, []string](errands, "errand")
)

func (l *journal) enterIn(_ *actor.Context, key string) (actor.None, error) {
	if _, struck := l.Undone[key]; struck {
		return actor.None{}, actor.Errorf(actor.FailedPrecondition, "%s was struck", key)
	}
	if l.Done == nil {
		l.Done = map[string]bool{}
	}
	l.Done[key] = true
	return actor.None{}, nil
}

func (l *journal) strikeIn(_ *actor.Context, key string) (actor.None, error) {
	if l.Undone == nil {
		l.Undone = map[string]int{}
	}
	l.Undone[key]++
	return actor.None{}, nil
}

func (l journal) auditOf(*actor.ReadContext, actor.None) (journal, error) { return l, nil }

var bookKey = []string{"book"}

// errandRandom returns the same numbers for the same text, whose first part is the id of a run.
func errandRandom(text string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(text))
	return rand.New(rand.NewPCG(7, h.Sum64()))
}

// doErrands executes some steps between actors that are undone by a function or by name.
func doErrands(ctx workflow.Context, seed int, path string, options ...workflow.StepOption) (keys []string, err error) {
	body := func(sc *workflow.StepCtx) (string, error) {
		g := errandRandom(fmt.Sprint(seed, path, sc.Attempt()))
		wait := func() bool {
			select {
			case <-sc.Done():
				return false
			case <-time.After(time.Duration(g.IntN(1000)) * time.Millisecond):
				return true
			}
		}
		if !wait() {
			return "", sc.Err()
		}
		if _, err := enterIn.CallFrom(sc, bookKey, sc.IdempotencyKey()); err != nil {
			return "", err
		}
		if !wait() {
			return "", sc.Err()
		}
		return sc.IdempotencyKey(), nil
	}
	for i := range 2 {
		var key string
		if i == 0 {
			key, err = workflow.Compensated(ctx, fmt.Sprint("step", i), body, func(sc *workflow.StepCtx, _ string) error { return strikeOut(sc) }, options...)
		} else {
			key, err = workflow.Step(ctx, fmt.Sprint("step", i), body, append(options, workflow.UndoBy("strike", actor.None{}))...)
		}
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func strikeOut(sc *workflow.StepCtx) error {
	key, _ := sc.Undoes()
	_, err := strikeIn.CallFrom(sc, bookKey, key)
	return err
}

func runErrand(ctx workflow.Context, seed int) (keys []string, err error) {
	g := errandRandom(fmt.Sprint(seed))
	pause := time.Duration(g.IntN(2500)) * time.Millisecond
	switch seed % 4 {
	case 0:
		_, keys, err = workflow.Race(ctx, "race",
			workflow.C("errands", func(ctx workflow.Context) ([]string, error) { return doErrands(ctx, seed, "race") }),
			workflow.C("timer", func(ctx workflow.Context) ([]string, error) { return nil, workflow.Sleep(ctx, "pause", pause) }))
	case 1:
		err = workflow.JoinFast(ctx, "join",
			workflow.B("errands", &keys, func(ctx workflow.Context) ([]string, error) { return doErrands(ctx, seed, "join") }),
			workflow.B[actor.None]("bad", nil, func(ctx workflow.Context) (actor.None, error) {
				if err := workflow.Sleep(ctx, "pause", pause); err != nil {
					return actor.None{}, err
				}
				return actor.None{}, errors.New("bad")
			}))
	case 2:
		return doErrands(ctx, seed, "total", workflow.TotalTimeout(pause))
	default:
		return doErrands(ctx, seed, "timeout", workflow.Timeout(pause), workflow.Retry(workflow.RetryPolicy{MaxAttempts: 2}))
	}
	return keys, err
}

// Runs of other actors' work lose races, fail, run out of time and are cancelled, while the power fails again and again. What
// they have done in the end, and does not stay, was undone once.
func TestWorkflowUndoesOnceWhateverGaveItUp(t *testing.T) {
	var states [2]atomic.Int64 // completed, and not
	for seed := range 4 {
		config := actortest.Config{UnsyncedPercent: 50}
		config.Run(t, func(t *testing.T, h *actortest.Harness) {
			const runs = 40
			ctx := t.Context()
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			at := func(i int) actor.Ref[actor.None] { return errands.Ref(h, fmt.Sprint(i)) }
			for i := range runs {
				must(t, errOf(errand.Of(at(i)).Start(ctx, 100*seed+i)))
			}
			for i := range 12 {
				time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
				if i < 8 {
					_ = errand.Of(at(random.IntN(runs))).Cancel(ctx, "enough") // it may have ended
				}
				if random.IntN(3) == 0 {
					h.Crash()
				}
			}
			time.Sleep(3 * time.Hour)
			h.Settle()
			var stay []string
			for i := range runs {
				status, err := errand.Of(at(i)).Status(ctx)
				fatalIf(t, err != nil || !status.State.Over() || status.Undo != 0, "errand %d: %+v, %v", i, status, err)
				if status.State != wfhost.StateCompleted {
					states[1].Add(1)
					continue
				}
				states[0].Add(1)
				keys, err := errand.Of(at(i)).Result(ctx)
				must(t, err)
				stay = append(stay, keys...)
			}
			l, err := auditOf.Call(ctx, journals.Ref(h, bookKey...), actor.None{})
			must(t, err)
			for key := range l.Done {
				want := 1
				if slices.Contains(stay, key) {
					want = 0
				}
				if got := l.Undone[key]; got != want {
					t.Errorf("seed %d: %s was undone %d times, want %d", seed, key, got, want)
				}
			}
			for _, key := range stay {
				errorIf(t, !l.Done[key], "seed %d: %s is to stay, and was not done", seed, key)
			}
		},
			actor.Define(journals, actor.Spec[journal]{}, actor.On(enterIn, (*journal).enterIn), actor.On(strikeIn, (*journal).strikeIn), actor.OnQuery(auditOf, journal.auditOf)),
			actor.Define(errands, actor.Spec[actor.None]{}, actor.OnRun(errand, runErrand,
				workflow.WithUndo("strike", func(sc *workflow.StepCtx, _ actor.None) error { return strikeOut(sc) }))))
	}
	if states[0].Load() == 0 || states[1].Load() == 0 {
		t.Errorf("%d runs have completed, and %d have not", states[0].Load(), states[1].Load())
	}
}
