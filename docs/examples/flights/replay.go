package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A replay works through the steps from..to-1 of a numbered sequence, many at once, and saves how
// far it has come.
//
//  1. Steps of one lane run one after the other, in order. Steps of different lanes run in any
//     order.
//  2. A saved position p means that do returned nil for every step below p. Positions only grow,
//     and the last one saved by a run without an error is to.
//  3. No step is started before a position within window steps of it is saved: after a crash, at
//     most that many steps run again.
//
// Steps that run again after a crash must have no further effect; the replay cannot know which of
// them had one before.
type replay struct {
	from, to int
	// lane names the lane of a step.
	lane func(step int) string
	do   func(ctx context.Context, step int) error
	save func(ctx context.Context, position int) error
	// progress, if set, is told how many steps below to are done, saved or not. It is called by one
	// goroutine.
	progress func(done int)
	// workers bounds how many steps run at once. A position is saved every batch steps; batch is at
	// most window.
	workers, window, batch int
	// rate bounds how many steps start in a second; 0 for no bound.
	rate int
}

// run returns when every step is done and saved, or with the first error. After it returns, no step
// runs.
func (r *replay) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		group sync.WaitGroup
		queue = make([]chan int, r.workers)
		// window has an element for each started step at or above the saved position. That bounds
		// the other channels too: sending to them never blocks.
		window   = make(chan struct{}, r.window)
		finished = make(chan int, r.window)
	)
	for w := range queue {
		queue[w] = make(chan int, r.window)
		group.Go(func() {
			for step := range queue[w] {
				if ctx.Err() != nil {
					return
				}
				if err := r.do(ctx, step); err != nil {
					cancel(err)
					return
				}
				finished <- step
			}
		})
	}
	group.Go(func() {
		defer func() {
			for _, q := range queue {
				close(q)
			}
		}()
		r.dispatch(ctx, queue, window)
	})
	err := r.collect(ctx, finished, window)
	cancel(err)
	group.Wait()
	return err
}

// dispatch hands each step to the worker of its lane until all are handed out or ctx ends.
func (r *replay) dispatch(ctx context.Context, queue []chan int, window chan<- struct{}) {
	// Lanes are dealt out to the workers in turn, in order of appearance. Busy lanes tend to appear
	// early, so they land on different workers; a hash of the name would not see to that.
	worker := make(map[string]int)
	begin := time.Now()
	for step := r.from; step < r.to; step++ {
		if r.rate > 0 {
			due := begin.Add(time.Duration(step-r.from) * time.Second / time.Duration(r.rate))
			if sleep(ctx, time.Until(due)) != nil {
				return
			}
		}
		select {
		case window <- struct{}{}:
		case <-ctx.Done():
			return
		}
		lane := r.lane(step)
		w, ok := worker[lane]
		if !ok {
			w = len(worker) % len(queue)
			worker[lane] = w
		}
		queue[w] <- step
	}
}

// collect counts finished steps and saves the position.
func (r *replay) collect(ctx context.Context, finished <-chan int, window <-chan struct{}) error {
	mark := newWatermark(r.from)
	saved := r.from
	for done := r.from; saved < r.to; {
		select {
		case step := <-finished:
			mark.finish(step)
			done++
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if r.progress != nil {
			r.progress(done)
		}
		if mark.low-saved < r.batch && mark.low < r.to {
			continue
		}
		if err := r.save(ctx, mark.low); err != nil {
			return fmt.Errorf("save position %d: %w", mark.low, err)
		}
		for ; saved < mark.low; saved++ {
			<-window
		}
	}
	return nil
}

// A watermark finds how far a sequence is done without a gap when its steps finish in any order:
// every step below low is.
type watermark struct {
	low int
	// done holds finished steps above low.
	done map[int]struct{}
}

func newWatermark(low int) *watermark { return &watermark{low: low, done: make(map[int]struct{})} }

// finish counts a step that was not counted before and is not below low.
func (m *watermark) finish(step int) {
	m.done[step] = struct{}{}
	for {
		if _, ok := m.done[m.low]; !ok {
			return
		}
		delete(m.done, m.low)
		m.low++
	}
}

// sleep waits for d, or until ctx ends and returns why.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
