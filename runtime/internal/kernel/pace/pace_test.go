package pace

import (
	"testing"
	"time"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestWhatHasNeverRunIsNotQuick(t *testing.T) {
	var p Average
	errorIf(t, p.Quick(1), "quick")
	p.Add(0) // it took less than the clock can tell
	errorIf(t, !p.Quick(1), "not quick")
}

func TestAverageFollowsWhatRuns(t *testing.T) {
	var p Average
	p.Add(QuickTurn / 10)
	errorIf(t, !p.Quick(9) || p.Quick(10), "ten runs of a tenth take all of the time")
	for range 50 {
		p.Add(10 * QuickTurn)
	}
	errorIf(t, p.Quick(1), "quick, though it takes long for some time")
	p.Add(1)
	errorIf(t, p.Quick(1), "quick after one quick run")
}

func TestDrainIsHalfOfTheMailboxWithinItsBounds(t *testing.T) {
	all := make([]Average, 3)
	if d := Drain(nil, all, 1000); d != MinDrain {
		t.Errorf("%v of methods that have never run", d)
	}
	all[0].Add(2 * time.Millisecond)
	all[1].Add(4 * time.Millisecond)
	for _, c := range []struct {
		next *Average
		n    int64
		want time.Duration
	}{{nil, 100, 150 * time.Millisecond}, {&all[2], 100, 150 * time.Millisecond}, {&all[0], 100,
		100 * time.Millisecond}, {&all[0], 2, MinDrain}, {&all[0], 1 << 20, MaxDrain}} {
		d := Drain(c.next, all, c.n)
		errorIf(t, d != c.want, "%d calls: %v, want %v", c.n, d, c.want)
	}
}

var errorIf = testutil.ErrorIf
