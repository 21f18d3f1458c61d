package mailbox

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// TestBoxActsLikeASlice compares a box with a slice over random steps, with revocations in the
// middle of batches.
func TestBoxActsLikeASlice(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all atomic.Int64
		b := Box[int]{All: &all}
		var model []int // the items that wait, with those of the batch
		var batch *Batch[int]
		var given, inBatch int
		for n := range 400 {
			switch r.IntN(8) {
			case 0, 1, 2:
				b.Put(n, int64(n))
				model = append(model, n)
			case 3, 4, 5:
				item, ok := 0, false
				if batch != nil {
					item, ok = batch.Next()
				}
				fatalIf(t, ok != (inBatch > 0), "seed %d: Next gave out %v, the model has %d in the batch", seed, ok, inBatch)
				if ok {
					fatalIf(t, item != model[0], "seed %d: got %d, want %d", seed, item, model[0])
					model, inBatch, given = model[1:], inBatch-1, given+1
				}
			case 6:
				if inBatch == 0 {
					batch = b.Take()
					inBatch = len(model)
					fatalIf(t, (batch == nil) != (len(model) == 0), "seed %d: Take returned %v of %d items", seed, batch, len(model))
				}
			case 7:
				old := batch
				b.Revoke()
				batch, inBatch = nil, 0
				if old != nil {
					_, ok := old.Next()
					fatalIf(t, ok, "seed %d: a revoked batch gave an item out", seed)
				}
				if r.IntN(4) == 0 {
					got := b.Drain()
					fatalIf(t, !slices.Equal(got, model), "seed %d: Drain returned %v, want %v", seed, got, model)
					model = nil
				}
			}
			sum := int64(0)
			for _, item := range model {
				sum += int64(item)
			}
			fatalIf(t, b.Count() != int64(len(model)) || b.Bytes() != sum || all.Load() != sum || b.Empty() != (len(model) == inBatch),
				"seed %d: the box counts %d items of %d bytes, the model %d of %d", seed, b.Count(), b.Bytes(), len(model), sum)
		}
		fatalIf(t, given == 0, "seed %d gave out nothing", seed)
	}
}

// TestRevokeWhileTheOwnerTakes checks that each item is given out once, though the batch is revoked
// under its owner.
func TestRevokeWhileTheOwnerTakes(t *testing.T) {
	const items = 64
	for range 500 {
		var mu sync.Mutex
		var all atomic.Int64
		b := Box[int]{All: &all}
		for i := range items {
			b.Put(i, 1)
		}
		var first, second []int
		batch := b.Take()
		var wg sync.WaitGroup
		wg.Go(func() {
			for item, ok := batch.Next(); ok; item, ok = batch.Next() {
				first = append(first, item)
			}
		})
		wg.Go(func() {
			mu.Lock()
			b.Put(items, 1)
			b.Revoke()
			next := b.Take()
			mu.Unlock()
			for item, ok := next.Next(); ok; item, ok = next.Next() {
				second = append(second, item)
			}
		})
		wg.Wait()
		got := append(first, second...)
		fatalIf(t, !slices.IsSorted(got) || len(got) != items+1 || b.Count() != 0 || all.Load() != 0,
			"the owners got %v and then %v; %d items and %d bytes are left", first, second, b.Count(), all.Load())
	}
}

func TestCheckNamesTheLimitThatIsExceeded(t *testing.T) {
	var all atomic.Int64
	mine, other := Box[int]{All: &all}, Box[int]{All: &all}
	l := Limits{Count: 2, Bytes: 10, All: 15}
	check := func(b *Box[int], bytes int64, want Fullness) {
		t.Helper()
		got := b.Check(bytes, l)
		fatalIf(t, got != want, "Check(%d) = %d, want %d", bytes, got, want)
	}
	check(&mine, 100, Room) // one item may be larger than any limit
	mine.Put(1, 8)
	check(&mine, 2, Room)
	check(&mine, 3, FullBytes)
	check(&other, 7, Room)
	check(&other, 8, FullNode)
	mine.Put(2, 1)
	check(&mine, 1, FullCount)
	mine.Take().Next()
	check(&mine, 1, Room)
}

func TestABoxThatIsUsedAgainAndAgainDoesNotAllocate(t *testing.T) {
	var all atomic.Int64
	b := Box[*int]{All: &all}
	item := new(int)
	if n := testing.AllocsPerRun(100, func() {
		for range 3 {
			b.Put(item, 1)
		}
		for batch := b.Take(); batch != nil; batch = b.Take() {
			for _, ok := batch.Next(); ok; _, ok = batch.Next() {
			}
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// TestOneItemInSixtyFourIsObserved checks how many waits are observed, even of boxes with one item.
func TestOneItemInSixtyFourIsObserved(t *testing.T) {
	var all atomic.Int64
	for _, each := range []int{1, 64, 1000} {
		items, observed := 0, 0
		waits := &Waits{Observe: func(s float64) {
			observed++
			errorIf(t, s < 0 || s > 60, "an item waited %v s", s)
		}}
		for items < 64_000 {
			b := Box[int]{All: &all, Waits: waits}
			for i := range each {
				b.Put(i, 1)
				batch := b.Take()
				batch.Next()
				items++
			}
		}
		want := items / WaitSample
		errorIf(t, observed < want/2 ||
			observed > want*2, "%d items a box: %d of %d were observed, want about %d", each, observed, items, want)
	}
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
