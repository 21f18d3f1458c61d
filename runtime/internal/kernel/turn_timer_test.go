package kernel

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnTimerEndsEachTurnAtItsDeadline uses one timer for turns that end before their deadline, at it, and after it.
func TestTurnTimerEndsEachTurnAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Core
		next := func(limit time.Duration) *Turn {
			return &Turn{Core: &c, Work: &Work{}, done: make(chan struct{}), Start: time.Now(), limit: limit}
		}
		for range 3 {
			early := next(time.Second)
			c.timer.start(early)
			time.Sleep(time.Second / 2)
			early.Close()
			if <-early.Done(); early.Err() != context.Canceled {
				t.Errorf("the context of a turn that returned has ended with %v", early.Err())
			}

			late := next(2 * time.Second)
			c.timer.start(late)
			time.Sleep(2*time.Second - 1)
			if late.Err() != nil {
				t.Errorf("the context ended before its deadline with %v", late.Err())
			}
			<-late.Done()
			if !time.Now().Equal(late.Start.Add(late.limit)) || late.Err() != context.DeadlineExceeded {
				t.Errorf("it ended at %v with %v, its deadline is %v", time.Now(), late.Err(), late.Start.Add(late.limit))
			}
			late.Close()
			if late.Err() != context.DeadlineExceeded {
				t.Errorf("its error has become %v", late.Err())
			}
		}
	})
}

// TestTurnTimerThatFiresLate is for a timer that was set for a turn and fires when there is another one.
func TestTurnTimerThatFiresLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Core
		now := &Turn{Core: &c, Work: &Work{}, done: make(chan struct{}), Start: time.Now(), limit: time.Minute}
		c.timer.start(now)
		c.timer.fire()
		if now.Err() != nil {
			t.Fatalf("the turn was ended before its deadline with %v", now.Err())
		}
		if <-now.Done(); !time.Now().Equal(now.Start.Add(now.limit)) {
			t.Errorf("it ended at %v, its deadline is %v", time.Now(), now.Start.Add(now.limit))
		}
		c.timer.fire() // nobody waits
	})
}

// TestTheContextOfATurnEndsWithItsCaller has a caller that has gone, one that goes, and none.
func TestTheContextOfATurnEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Core
		caller, leave := context.WithCancel(context.Background())
		waiting := &Turn{Core: &c, Work: &Work{Ctx: caller}, done: make(chan struct{}), Start: time.Now(), limit: time.Hour}
		waiting.unlink = context.AfterFunc(caller, func() { waiting.end(endingOf(caller.Err())) })
		leave()
		if <-waiting.Done(); waiting.Err() != context.Canceled {
			t.Errorf("it ended with %v", waiting.Err())
		}
		gone := &Turn{Core: &c, Work: &Work{Ctx: caller}, Start: time.Now(), limit: time.Hour}
		if <-gone.Done(); gone.Err() != context.Canceled {
			t.Errorf("with a caller that had gone it ended with %v", gone.Err())
		}
		passed := &Turn{Core: &c, Work: &Work{}, Start: time.Now()}
		if <-passed.Done(); passed.Err() != context.DeadlineExceeded {
			t.Errorf("after its deadline it ended with %v", passed.Err())
		}
		closed := &Turn{Core: &c, Work: &Work{}, Start: time.Now(), limit: time.Hour}
		closed.Close()
		if <-closed.Done(); closed.Err() != context.Canceled {
			t.Errorf("after its end it ended with %v", closed.Err())
		}
	})
}
