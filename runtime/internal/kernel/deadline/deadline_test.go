package deadline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// An owner keeps what a Context does not, as a turn does.
type owner struct {
	Context
	parent context.Context
	timer  *Timer
}

// orphan is the parent of a context without one.
var orphan context.Context

func begin(parent context.Context, limit time.Duration, timer *Timer) *owner {
	c := &owner{parent: parent, timer: timer}
	c.Begin(parent, time.Now(), limit)
	return c
}

func (c *owner) wait() (done <-chan struct{}, first bool) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Wait(c.parent, c.timer)
}

func (c *owner) done() <-chan struct{} { done, _ := c.wait(); return done }

func (c *owner) err() error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Cause(c.parent)
}

func (c *owner) close() {
	c.Mu.Lock()
	c.Closed = true
	c.Mu.Unlock()
	c.Cancel(c.timer)
}

// TestTimerEndsEachContextAtItsDeadline uses one timer for contexts that end before their deadline,
// at it, and after it.
func TestTimerEndsEachContextAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var timer Timer
		for range 3 {
			early := begin(orphan, time.Second, &timer)
			early.done()
			time.Sleep(time.Second / 2)
			early.close()
			<-early.done()
			errorIf(t, early.err() != context.Canceled, "a context that was canceled has ended with %v", early.err())

			late := begin(orphan, 2*time.Second, &timer)
			late.done()
			time.Sleep(2*time.Second - 1)
			errorIf(t, late.err() != nil, "the context ended before its deadline with %v", late.err())
			<-late.done()
			errorIf(t, !time.Now().Equal(late.Latest()) || late.err() != context.DeadlineExceeded,
				"it ended at %v with %v, its deadline is %v", time.Now(), late.err(), late.Latest())
			late.close()
			errorIf(t, late.err() != context.DeadlineExceeded, "its error has become %v", late.err())
		}
	})
}

// TestTimerThatFiresLate is for a timer that was set for a context and fires when there is another
// one.
func TestTimerThatFiresLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var timer Timer
		now := begin(orphan, time.Minute, &timer)
		now.done()
		timer.fire()
		fatalIf(t, now.err() != nil, "the context was ended before its deadline with %v", now.err())
		<-now.done()
		errorIf(t, !time.Now().Equal(now.Latest()), "it ended at %v, its deadline is %v", time.Now(), now.Latest())
		timer.fire() // nothing waits
	})
}

// TestContextEndsWithItsParent has a parent that ended before, a parent that ends later, and no
// parent.
func TestContextEndsWithItsParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var timer Timer
		parent, leave := context.WithCancel(context.Background())
		waiting := begin(parent, time.Hour, &timer)
		_, first := waiting.wait()
		errorIf(t, !first, "the first who asks is not the first")
		_, first = waiting.wait()
		errorIf(t, first, "the second who asks is the first")
		leave()
		<-waiting.done()
		errorIf(t, waiting.err() != context.Canceled, "it ended with %v", waiting.err())
		gone := begin(parent, time.Hour, &timer)
		_, first = gone.wait()
		errorIf(t, first || gone.err() != context.Canceled, "with a parent that had ended it ended with %v", gone.err())
		passed := begin(orphan, 0, &timer)
		_, first = passed.wait()
		errorIf(t, first || passed.err() != context.DeadlineExceeded, "after its deadline it ended with %v", passed.err())
		closed := begin(orphan, time.Hour, &timer)
		closed.close()
		<-closed.done()
		errorIf(t, closed.err() != context.Canceled, "after its end it ended with %v", closed.err())
		soon, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("why"))
		defer cancel()
		short := begin(soon, time.Hour, &timer)
		if d := short.Latest(); !d.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("its deadline is %v, that of its parent %v", d, time.Now().Add(time.Minute))
		}
		<-short.done()
		errorIf(t, short.err() != context.DeadlineExceeded, "with a parent whose time was over it ended with %v", short.err())
	})
}

func TestContextThatNobodyWaitsForSetsNoTimer(t *testing.T) {
	var timer Timer
	c := begin(context.Background(), time.Hour, &timer)
	errorIf(t, c.err() != nil || timer.timer != nil, "asking for the error has set a timer")
	c.close()
	errorIf(t, timer.timer != nil || c.Context.done != nil, "the end of a context that nobody waited for has made a channel or a timer")
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
