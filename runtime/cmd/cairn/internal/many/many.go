// Package many does something to many actors, a few at a time, and counts the results.
package many

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

const (
	// Shown is how many failures are shown one by one.
	Shown = 20
	// progressPeriod is how often progress is shown on a terminal.
	progressPeriod = 250 * time.Millisecond
	// clearLine removes the progress from the line of a terminal that it stands on.
	clearLine = "\r\x1b[K"
)

// Each calls f for every item, so many at a time, until ctx ends.
func Each[T any](ctx context.Context, atATime int, items []T, f func(T)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(atATime, len(items)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(items)) {
					return
				}
				f(items[i])
			}
		})
	}
	wg.Wait()
}

// Outcome is the error of a command that did something to done of total actors and failed with
// some.
func Outcome(total int, done, failed int64) error {
	switch left := int64(total) - done - failed; {
	case left > 0:
		return fmt.Errorf("interrupted: %s not tried or not known to be done, %s failed",
			table.Count(left), table.Count(failed))
	case failed > 0:
		return fmt.Errorf("%s of %s failed", table.Count(failed), table.Plural(total, "actor"))
	}
	return nil
}

// A Tally counts the actors that something was done to, and shows it.
type Tally struct {
	Total int
	Did   string // what is done to them: "paused"
	// Notes gets the first failures, nothing if it is nil. If it is a Terminal it gets how far it
	// is, too.
	Notes    io.Writer
	Terminal bool

	printing     sync.Mutex // one note at a time
	done, failed atomic.Int64
}

// Add counts an actor, with the error if it failed.
func (t *Tally) Add(actor fmt.Stringer, err error) {
	if err == nil {
		t.done.Add(1)
		return
	}
	t.printing.Lock()
	defer t.printing.Unlock()
	switch nth := t.failed.Add(1); {
	case nth <= Shown:
		t.note("%s: %s\n", actor, table.OneLine(err.Error()))
	case nth == Shown+1:
		t.note("more failures are counted, not shown; --json shows them all\n")
	}
}

// String says how many were done: paused 3 of 5 actors.
func (t *Tally) String() string {
	return fmt.Sprintf("%s %s of %s", t.Did, table.Count(t.done.Load()), table.Plural(t.Total, "actor"))
}

// Err is the outcome.
func (t *Tally) Err() error { return Outcome(t.Total, t.done.Load(), t.failed.Load()) }

// Progress shows on a terminal how far it is. The result ends it.
func (t *Tally) Progress() (stop func()) {
	if !t.Terminal {
		return func() {}
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressPeriod)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.progress("%s %s of %s, %s failed", t.Did, table.Count(t.done.Load()),
					table.Count(t.Total), table.Count(t.failed.Load()))
			case <-ended:
				t.progress("")
				return
			}
		}
	})
	return func() {
		close(ended)
		wg.Wait()
	}
}

func (t *Tally) progress(format string, args ...any) {
	t.printing.Lock()
	defer t.printing.Unlock()
	t.note(format, args...)
}

// note prints a note in the place of the progress.
//
// REQUIRES: t.printing
func (t *Tally) note(format string, args ...any) {
	if t.Notes == nil {
		return
	}
	if t.Terminal {
		format = clearLine + format
	}
	fmt.Fprintf(t.Notes, format, args...)
}
