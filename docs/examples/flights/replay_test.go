package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crashing runs a replay of steps in lanes whose steps take random times, crashes it at random
// moments and starts it again from the saved position, until it is through. It returns the steps in
// the order in which they had an effect.
func crashing(t *testing.T, seed uint64, to, crashes int) (effects []int, ran int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	var (
		mu    sync.Mutex
		saved int
		had   = make(map[int]bool)
	)
	lane := func(step int) string { return fmt.Sprint("lane ", step*step%11) }
	for {
		last := make(map[string]int)
		ctx, cancel := context.WithCancel(t.Context())
		if crashes > 0 {
			crashes--
			ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(200))*time.Millisecond)
		}
		p := replay{
			from: saved, to: to, workers: 8, window: 50, batch: 10, lane: lane,
			do: func(ctx context.Context, step int) error {
				mu.Lock()
				if before, ok := last[lane(step)]; ok && before >= step {
					t.Errorf("step %d ran after %d of the same lane", step, before)
				}
				if step-saved >= 50 {
					t.Errorf("step %d started at position %d", step, saved)
				}
				last[lane(step)] = step
				ran++
				duration := time.Duration(r.IntN(20)) * time.Millisecond
				late := r.IntN(2) == 0
				mu.Unlock()
				if err := sleep(ctx, duration); err != nil && !late {
					return err // The crash came before the step had its effect; otherwise after it, and before the reply.
				}
				mu.Lock()
				defer mu.Unlock()
				if !had[step] {
					had[step] = true
					effects = append(effects, step)
				}
				return ctx.Err()
			},
			save: func(ctx context.Context, position int) error {
				mu.Lock()
				defer mu.Unlock()
				if position <= saved {
					t.Errorf("position %d saved after %d", position, saved)
				}
				for step := range position {
					if !had[step] {
						t.Fatalf("position %d saved before step %d was done", position, step)
					}
				}
				saved = position
				return nil
			},
		}
		err := p.run(ctx)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if saved != to {
		t.Errorf("position %d at the end, expected %d", saved, to)
	}
	return effects, ran
}

func TestReplayRunsEveryStepInTheOrderOfItsLaneWhateverTheCrashes(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			effects, ran := crashing(t, seed, 300, int(seed)%5)
			if len(effects) != 300 {
				t.Fatalf("%d steps had an effect, expected 300", len(effects))
			}
			if seed%5 == 0 && ran != 300 {
				t.Errorf("%d steps ran without any crash, expected 300", ran)
			}
			for lane := range 11 {
				steps := slices.DeleteFunc(slices.Clone(effects), func(step int) bool { return step*step%11 != lane })
				if !slices.IsSorted(steps) {
					t.Errorf("lane %d had its effects in the order %v", lane, steps)
				}
			}
		})
	}
}

func TestReplayKeepsTheRateAndTheBoundOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, done := 0, 0, 0
		begin := time.Now()
		p := replay{
			to: 100, workers: 4, window: 32, batch: 8, rate: 50,
			lane: func(step int) string { return fmt.Sprint(step) },
			do: func(ctx context.Context, _ int) error {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				err := sleep(ctx, time.Second/20)
				mu.Lock()
				running--
				mu.Unlock()
				return err
			},
			save:     func(context.Context, int) error { return nil },
			progress: func(n int) { done = n },
		}
		must(t, p.run(t.Context()))
		if most > 4 || done != 100 {
			t.Errorf("%d steps at once and %d done, expected at most 4 and 100", most, done)
		}
		if took, want := time.Since(begin), 99*time.Second/50+time.Second/20; took != want {
			t.Errorf("took %v, expected %v", took, want)
		}
	})
}

func TestReplayStopsAtTheFirstError(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		position := 0
		p := replay{
			to: 1000, workers: 4, window: 16, batch: 1,
			lane: func(step int) string { return fmt.Sprint(step % 7) },
			do: func(_ context.Context, step int) error {
				if step == 500 {
					return boom
				}
				return nil
			},
			save: func(_ context.Context, to int) error { position = to; return nil },
		}
		if err := p.run(t.Context()); !errors.Is(err, boom) {
			t.Fatalf("error %v, expected %v", err, boom)
		}
		if position > 500 || position < 500-16 {
			t.Errorf("position %d, expected at most the window before 500", position)
		}
		p.to, p.save = 10, func(context.Context, int) error { return boom }
		if err := p.run(t.Context()); !errors.Is(err, boom) {
			t.Fatalf("error %v, expected %v", err, boom)
		}
	})
}

func TestReplayOfNothingSavesNothing(t *testing.T) {
	p := replay{from: 5, to: 5, workers: 1, window: 1, batch: 1, save: func(context.Context, int) error {
		t.Error("saved")
		return nil
	}}
	must(t, p.run(t.Context()))
}
