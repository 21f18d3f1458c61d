package ledger

import (
	"slices"
	"sync"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestResultsKeepTheirOrderThroughACommitThatIsNotMade(t *testing.T) {
	var l Ledger[int, string]
	l.Add(1)
	l.Add(2)
	taken := l.Take()
	errorIf(t, !l.Empty(), "what was taken is held")
	l.Add(3)
	why := l.Give(taken)
	errorIf(t, why != "", "%v", why)
	got := l.Take()
	errorIf(t, !slices.Equal(got, []int{1, 2, 3}), "%v", got)
}

func TestAbandonedLedgerHoldsNothing(t *testing.T) {
	var l Ledger[int, string]
	l.Add(1)
	taken := l.Take()
	l.Add(2)
	got := l.Abandon("gone")
	errorIf(t, !slices.Equal(got, []int{2}), "%v", got)
	errorIf(t, l.Give(taken) != "gone" || l.Add(3) != "gone" || !l.Empty(), "a result is held that nobody will answer")
}

// TestEachResultIsAnsweredOnce abandons a ledger while results come: each is held or refused, and
// none is both.
func TestEachResultIsAnsweredOnce(t *testing.T) {
	var l Ledger[int, string]
	var refused []int
	var g sync.WaitGroup
	g.Go(func() {
		for i := range 1000 {
			if l.Add(i) != "" {
				refused = append(refused, i)
			}
		}
	})
	held := l.Abandon("gone")
	g.Wait()
	for i, r := range append(held, refused...) {
		fatalIf(t, r != i, "result %d is %d", i, r)
	}
	errorIf(t, len(held)+len(refused) != 1000, "%d held and %d refused", len(held), len(refused))
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
