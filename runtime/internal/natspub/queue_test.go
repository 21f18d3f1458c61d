package natspub

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTheQueueKeepsOrderAndLosesNoRow(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		q := queue{maxRows: 1 + rng.IntN(8), maxBytes: 4096}
		var want, got []uint64
		pending := []uint64{} // allocated and not pushed: commits of different actors settle out of order
		seq := uint64(0)
		drain := func(n int) {
			for _, r := range q.take(nil, n, 1000) {
				got = append(got, r.seq)
			}
			if r, ok := q.next(); ok {
				k := 1 + rng.Uint64N(r.n)
				for i := range k {
					got = append(got, r.first+i)
				}
				q.advance(k)
			}
		}
		for range 500 {
			if ms, waits := q.oldest(); waits != (len(got) < len(want)) || waits && ms != emitted(0, 1, false).TimeMS {
				t.Fatalf("seed %d: %d of %d, the oldest is of %d", seed, len(got), len(want), ms)
			}
			switch rng.IntN(5) {
			case 0, 1, 2:
				seq++
				pending = append(pending, seq)
				i := rng.IntN(min(len(pending), 3))
				s := pending[i]
				pending = slices.Delete(pending, i, i+1)
				fatalIf(t, !q.push(newRecord(s, emitted(0, 1, false, "e"))), "a row was dropped")
				want = append(want, s)
			case 3:
				drain(1 + rng.IntN(4))
			case 4:
				waiting := want[len(got):]
				if len(waiting) == 0 {
					break
				}
				var drop []uint64
				for _, s := range waiting {
					if rng.IntN(10) == 0 {
						drop = append(drop, s)
					}
				}
				slices.Sort(drop)
				q.remove(drop)
				want = slices.DeleteFunc(want, func(s uint64) bool { return contains(drop, s) })
			}
		}
		for len(got) < len(want) {
			before := len(got)
			drain(10)
			fatalIf(t, len(got) == before, "seed %d: nothing comes, %d of %d", seed, len(got), len(want))
		}
		fatalIf(t, !slices.Equal(got, want), "seed %d:\ngot  %v\nwant %v", seed, got, want)
		if _, waits := q.oldest(); waits || q.bytes != 0 {
			t.Fatalf("seed %d: %d bytes left", seed, q.bytes)
		}
	}
}

func TestAMillionRowsThatWaitAreFewRuns(t *testing.T) {
	q := queue{maxRows: 10, maxBytes: 1 << 20}
	set := emitted(0, 1, false, "e")
	for seq := uint64(1); seq <= 1_000_000; seq++ {
		q.push(record{seq: seq, set: set, size: 100})
	}
	errorIf(t, len(q.runs) != 1 || len(q.mem) != 10, "%d runs, %d in memory", len(q.runs), len(q.mem))
}
