package many

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type name string

func (n name) String() string { return string(n) }

func TestEachVisitsEveryItemAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, sum atomic.Int64
		Each(t.Context(), 3, []int64{1, 2, 3, 4, 5, 6, 7}, func(n int64) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			sum.Add(n)
		})
		if sum.Load() != 28 || most.Load() != 3 {
			t.Errorf("visited a sum of %d, %d at a time", sum.Load(), most.Load())
		}
	})

	ctx, cancel := context.WithCancel(t.Context())
	visited := 0
	Each(ctx, 1, make([]int, 10), func(int) {
		if visited++; visited == 4 {
			cancel()
		}
	})
	if visited != 4 {
		t.Errorf("%d items were visited, want 4", visited)
	}
}

func TestATallyShowsTheFirstFailuresAndCountsAll(t *testing.T) {
	var notes strings.Builder
	tally := Tally{Total: 30, Did: "paused", Notes: &notes}
	tally.Add(name("cell/fine"), nil)
	for range 25 {
		tally.Add(name("cell/a"), errors.New("it fell\nover"))
	}
	if got := strings.Count(notes.String(), `cell/a: it fell\nover`); got != Shown || strings.Count(notes.String(), "more failures") != 1 {
		t.Errorf("%d failures are shown:\n%s", got, &notes)
	}
	if got := tally.String(); got != "paused 1 of 30 actors" {
		t.Errorf("the tally says %q", got)
	}
	if err := tally.Err(); err == nil || !strings.Contains(err.Error(), "interrupted: 4 not tried or not known to be done, 25 failed") {
		t.Errorf("the outcome is %v", err)
	}
}

func TestATallyShowsProgressOnATerminalAndRemovesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes strings.Builder
		tally := Tally{Total: 2000, Did: "paused", Notes: &notes, Terminal: true}
		stop := tally.Progress()
		tally.Add(name("cell/a"), nil)
		time.Sleep(progressPeriod + time.Millisecond)
		stop()
		if want := clearLine + "paused 1 of 2,000, 0 failed" + clearLine; notes.String() != want {
			t.Errorf("the terminal got %q, want %q", notes.String(), want)
		}
	})
}

func TestNoFailureIsShownAfterTheNoteThatTheRestIsCounted(t *testing.T) {
	for range 200 {
		var notes strings.Builder
		tally := Tally{Total: 60, Notes: &notes}
		Each(t.Context(), 60, make([]int, 60), func(int) { tally.Add(name("cell/a"), errors.New("it fell")) })
		if lines := strings.Split(strings.TrimSpace(notes.String()), "\n"); len(lines) != Shown+1 ||
			!strings.HasPrefix(lines[Shown], "more failures") {
			t.Fatalf("the notes are:\n%s", &notes)
		}
	}
}
