package ledger

import (
	"slices"
	"sync"
	"testing"
)

func TestResultsKeepTheirOrderThroughACommitThatIsNotMade(t *testing.T) {
	var l Ledger[int, string]
	l.Add(1)
	l.Add(2)
	taken := l.Take()
	if !l.Empty() {
		t.Error("what was taken is held")
	}
	l.Add(3)
	if why := l.Give(taken); why != "" {
		t.Error(why)
	}
	if got := l.Take(); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("%v", got)
	}
}

func TestAbandonedLedgerHoldsNothing(t *testing.T) {
	var l Ledger[int, string]
	l.Add(1)
	taken := l.Take()
	l.Add(2)
	if got := l.Abandon("gone"); !slices.Equal(got, []int{2}) {
		t.Errorf("%v", got)
	}
	if l.Give(taken) != "gone" || l.Add(3) != "gone" || !l.Empty() {
		t.Error("a result is held that nobody will answer")
	}
}

// TestEachResultIsAnsweredOnce abandons a ledger while results come: each is held or refused, and none is both.
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
		if r != i {
			t.Fatalf("result %d is %d", i, r)
		}
	}
	if len(held)+len(refused) != 1000 {
		t.Errorf("%d held and %d refused", len(held), len(refused))
	}
}
