package replay_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// A recorder is a service outside: it does and undoes, each once per idempotency key, and survives every crash.
type recorder struct {
	mu      sync.Mutex
	done    map[string]bool   // by key of the step
	undone  map[string]int    // by key of the step
	undos   map[string]string // key of the step by key of the undo
	active  map[string]int    // bodies that run
	unknown int               // undos without a result
	faults  []string
}

func newRecorder() *recorder {
	return &recorder{done: map[string]bool{}, undone: map[string]int{}, undos: map[string]string{}, active: map[string]int{}}
}

func (r *recorder) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// run counts the bodies that run for a key.
func (r *recorder) run(key string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active[key] += by
}

func (r *recorder) do(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, late := r.undone[key]; late && !r.done[key] {
		r.fault("%s was done after it was undone", key)
	}
	r.done[key] = true
}

func (r *recorder) undo(sc *workflow.StepCtx, result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, known := sc.Undoes()
	if known && result != key || !known && result != "" {
		r.fault("the undo of %s got the result %q (known: %v)", key, result, known)
	}
	if !known {
		r.unknown++
	}
	if r.active[key] > 0 {
		r.fault("the undo of %s ran beside its body", key)
	}
	if _, again := r.undos[sc.IdempotencyKey()]; again {
		return
	}
	r.undos[sc.IdempotencyKey()] = key
	if r.done[key] {
		r.undone[key]++
	} else {
		r.undone[key] += 0 // from here on it must not be done
	}
}

// check compares what was done with the keys whose effects are to stay.
func (r *recorder) check(stay []string) error {
	var errs []error
	for _, f := range r.faults {
		errs = append(errs, errors.New(f))
	}
	for key := range r.done {
		want := 1
		if slices.Contains(stay, key) {
			want = 0
		}
		if got := r.undone[key]; got != want {
			errs = append(errs, fmt.Errorf("%s was undone %d times, want %d", key, got, want))
		}
	}
	for _, key := range stay {
		if !r.done[key] {
			errs = append(errs, fmt.Errorf("%s is to stay, and was not done", key))
		}
	}
	return errors.Join(errs...)
}

// A dutyPlan is a random workflow: its shape depends on the seed only.
type dutyPlan struct {
	seed uint64
	rec  *recorder
}

// random returns numbers that are the same each time that they are asked for.
func (p dutyPlan) random(of string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(of))
	return rand.New(rand.NewPCG(p.seed, h.Sum64()))
}

// body does something outside, slowly, and may fail before or after it.
func (p dutyPlan) body(sc *workflow.StepCtx) (string, error) {
	key := sc.IdempotencyKey()
	p.rec.run(key, 1)
	defer p.rec.run(key, -1)
	g := p.random(fmt.Sprint(key[32:], sc.Attempt()))
	wait := func() bool {
		d := time.Duration(g.IntN(1500)) * time.Millisecond
		if g.IntN(3) == 0 {
			time.Sleep(d) // it does not care for its context
			return true
		}
		select {
		case <-time.After(d):
			return true
		case <-sc.Done():
			return g.IntN(2) == 0
		}
	}
	if !wait() {
		return "", sc.Err()
	}
	if g.IntN(12) == 0 && sc.Attempt() == 1 {
		return "", workflow.Permanent(errors.New("refused"))
	}
	p.rec.do(key)
	if !wait() {
		return "", workflow.Permanent(sc.Err()) // whose context has ended cannot know
	}
	switch g.IntN(10) {
	case 0:
		return "", errors.New("the answer was lost")
	case 1:
		panic("after the effect")
	}
	return key, nil
}

func (p dutyPlan) undo(sc *workflow.StepCtx, result string) error {
	g := p.random(fmt.Sprint("undo", sc.IdempotencyKey()[32:], sc.Attempt()))
	time.Sleep(time.Duration(g.IntN(500)) * time.Millisecond)
	if g.IntN(3) == 0 && sc.Attempt() < 5 {
		return errors.New("busy")
	}
	p.rec.undo(sc, result)
	if g.IntN(3) == 0 && sc.Attempt() < 5 {
		return errors.New("the answer was lost")
	}
	return nil
}

// step is a step that may have to be undone. It returns its key.
func (p dutyPlan) step(ctx workflow.Context, path, name string) (string, error) {
	g := p.random(path + name)
	options := []workflow.StepOption{workflow.Retry(workflow.RetryPolicy{MaxAttempts: 1 + g.IntN(4), Initial: time.Second})}
	switch g.IntN(8) {
	case 0:
		options = append(options, workflow.Timeout(time.Duration(g.IntN(2000))*time.Millisecond))
	case 1:
		options = append(options, workflow.Timeout(time.Duration(g.IntN(2000))*time.Millisecond), workflow.FailOnTimeout())
	case 2:
		options = append(options, workflow.TotalTimeout(time.Duration(g.IntN(4000))*time.Millisecond))
	case 3:
		options = append(options, workflow.CancelBody())
	case 4:
		options = append(options, workflow.AtMostOnce())
	}
	if g.IntN(3) == 0 {
		return workflow.Step(ctx, name, p.body, append(options, workflow.UndoBy("undo", none{}))...)
	}
	return workflow.Compensated(ctx, name, p.body, p.undo, options...)
}

// steps executes some steps one after another.
func (p dutyPlan) steps(ctx workflow.Context, path string) (keys []string, err error) {
	for i := range 1 + p.random(path).IntN(3) {
		key, err := p.step(ctx, path, fmt.Sprint("step", i))
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// part is one thing that the workflow does. A part that fails has undone all of it.
func (p dutyPlan) part(ctx workflow.Context, path string) ([]string, error) {
	g := p.random(path + " part")
	pause := time.Duration(g.IntN(4000)) * time.Millisecond
	switch g.IntN(5) {
	case 0:
		return p.steps(ctx, path)
	case 1:
		_, keys, err := workflow.Race(ctx, "race",
			workflow.C("steps", func(ctx workflow.Context) ([]string, error) { return p.steps(ctx, path+"/steps") }),
			workflow.C("timer", func(ctx workflow.Context) ([]string, error) { return nil, workflow.Sleep(ctx, "sleep", pause) }),
			workflow.C("more", func(ctx workflow.Context) ([]string, error) { return p.steps(ctx, path+"/more") }))
		return keys, err
	case 2, 3:
		var a, b []string
		err := workflow.JoinFast(ctx, "join",
			workflow.B("a", &a, func(ctx workflow.Context) ([]string, error) { return p.steps(ctx, path+"/a") }),
			workflow.B("b", &b, func(ctx workflow.Context) ([]string, error) { return p.steps(ctx, path+"/b") }),
			workflow.B[none]("bad", nil, func(ctx workflow.Context) (none, error) {
				if err := workflow.Sleep(ctx, "sleep", pause); err != nil {
					return none{}, err
				}
				if g.IntN(2) == 0 {
					return none{}, errors.New("bad")
				}
				return none{}, nil
			}))
		return append(a, b...), err
	}
	// A step that is given up does not stop the others.
	var keys []string
	for i := range 2 {
		if key, err := p.step(ctx, path, fmt.Sprint("try", i)); err == nil {
			keys = append(keys, key)
		} else if ctx.Err() != nil {
			return nil, err
		}
	}
	return keys, nil
}

// workflow returns the keys of what stays: nothing, if it fails. It has a saga around everything, or none at all.
func (p dutyPlan) workflow(ctx workflow.Context, _ none) ([]string, error) {
	if p.random("sagas").IntN(2) == 0 {
		return p.parts(ctx, func(ctx workflow.Context, name string) ([]string, error) {
			return workflow.Scope(ctx, name, func(ctx workflow.Context) ([]string, error) { return p.part(ctx, name) })
		})
	}
	stay, err := workflow.Saga(ctx, "all", func(ctx workflow.Context) ([]string, error) {
		return p.parts(ctx, func(ctx workflow.Context, name string) ([]string, error) {
			keys, err := workflow.Saga(ctx, name, func(ctx workflow.Context) ([]string, error) { return p.part(ctx, name) })
			if err != nil && ctx.Err() == nil && p.random(name+" goes on").IntN(2) == 0 {
				return nil, nil
			}
			return keys, err
		})
	})
	if err == nil {
		workflow.Publish(ctx, stay) // what the saga has done is settled, even if the run is canceled now
	}
	return stay, err
}

func (p dutyPlan) parts(ctx workflow.Context, part func(ctx workflow.Context, name string) ([]string, error)) (stay []string, err error) {
	for i := range 1 + p.random("parts").IntN(3) {
		keys, err := part(ctx, fmt.Sprint("part", i))
		if err != nil {
			return nil, err
		}
		stay = append(stay, keys...)
	}
	if p.random("fails").IntN(4) == 0 {
		return nil, errors.New("failed in the end")
	}
	return stay, nil
}

// Whatever gives up a step, at whatever moment, and however often the process dies: when the run has ended, what was done
// and does not stay was undone exactly once per key, and no undo ran beside its body.
func TestGivenUpStepsAreUndoneOncePerKey(t *testing.T) {
	states, unknown, crashes := map[wfhost.State]int{}, 0, 0
	for seed := range uint64(rounds(60, 1000)) {
		synctest.Test(t, func(t *testing.T) {
			p := dutyPlan{seed, newRecorder()}
			g := p.random("trigger")
			d := workflow.NewFunction("duty", p.workflow, workflow.WithUndo("undo", func(sc *workflow.StepCtx, _ none) error {
				result, known := sc.Undoes()
				if !known {
					result = ""
				}
				return p.undo(sc, result)
			}))
			h := started(t, d.Program(), none{})
			h.Racing = true
			crash := func() {
				if g.IntN(4) > 0 && h.Crashes < 40 {
					h.CrashAt, h.CrashAfter = h.Commits+1+g.IntN(6), g.IntN(2) == 0
				} else {
					h.CrashAt = 0
				}
			}
			crash()
			cancelAt := time.Now().Add(time.Duration(g.IntN(6000)) * time.Millisecond)
			if g.IntN(3) > 0 {
				cancelAt = time.Time{}
			}
			until(t, h, func() bool {
				if h.CrashAt != 0 && h.Commits >= h.CrashAt {
					crash()
				}
				if !cancelAt.IsZero() && !time.Now().Before(cancelAt) && !h.Last.Ended {
					cancelAt = time.Time{}
					_ = h.Transact(func(t *memory.Turn) error { return wfhost.Cancel(t, "enough") }) // it may be over
				}
				return false
			})
			s := status(t, h)
			if !s.State.Over() || s.Undo != 0 {
				t.Fatalf("seed %d: %s, and owes %d: %s", seed, s.State, s.Undo, why(s))
			}
			var stay []string
			kept := s.Published
			if s.State == wfhost.StateCompleted {
				kept = s.Output
			}
			if kept != nil {
				must(t, cbor.Unmarshal(kept, &stay))
			}
			if err := p.rec.check(stay); err != nil {
				t.Errorf("seed %d, %s after %d crashes: %v", seed, s.State, h.Crashes, err)
			}
			states[s.State]++
			unknown += p.rec.unknown
			crashes += h.Crashes
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%v, %d unknown outcomes were undone, %d crashes", states, unknown, crashes)
	if states[wfhost.StateCompleted] == 0 || states[wfhost.StateFailed] == 0 || states[wfhost.StateCancelled] == 0 || unknown == 0 || crashes == 0 {
		t.Error("not everything was tried")
	}
}
