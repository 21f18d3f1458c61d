package queuerows

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAMessageTriedAgainDoesNotMoveTheFrontBack(t *testing.T) {
	f := front{ranked: true}
	for id := uint64(1); id <= 1_000; id++ {
		f.add(place{0, id})
	}
	for id := uint64(1); id <= 500; id++ {
		f.remove(place{0, id})
	}
	for id := uint64(1); id <= 100; id += 7 {
		f.add(place{0, id})
		fatalIf(t, !f.runs[0].exact || f.runs[0].from.id != id, "runs %+v", f.runs)
		f.remove(place{0, id})
		fatalIf(t, len(f.runs) != 1 || f.runs[0].from.id != 501, "runs %+v", f.runs)
	}
	for id := uint64(500); id <= 1_000; id++ {
		got := f.remove(place{0, id})
		fatalIf(t, got != (id > 500), "remove %d: %v", id, got)
	}
	fatalIf(t, len(f.runs) != 0 || f.n != 0, "left %+v", f)
}

// TestAFrontCountsAndBounds compares fronts with the places themselves.
func TestAFrontCountsAndBounds(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := front{ranked: seed%2 == 0}
		var in []place
		for range 3_000 {
			p := place{rng.Int64N(3), 1 + rng.Uint64N(60)}
			if i := slices.Index(in, p); i < 0 && rng.IntN(2) == 0 {
				f.add(p)
				in = append(in, p)
			} else if i >= 0 {
				fatalIf(t, !f.remove(p), "seed %d: %+v is not in %+v", seed, p, f)
				in = slices.Delete(in, i, i+1)
			}
			var again front
			again.ranked = f.ranked
			s := scan{b: f.append(nil)}
			again.decode(&s)
			if err := s.end(); err != nil || f.n != int64(len(in)) || !slices.Equal(f.runs, again.runs) {
				t.Fatalf("seed %d: %+v, decoded %+v, %v; %d places", seed, f, again, err, len(in))
			}
			covered := 0
			for i, r := range f.runs {
				n := int64(0)
				first := last
				for _, p := range in {
					if !p.before(r.from) && p.before(f.end(i)) {
						n++
						if p.before(first) {
							first = p
						}
					}
				}
				fatalIf(t, n != r.n || r.exact && first != r.from, "seed %d: run %d of %+v has %d, first %+v", seed, i, f, n, first)
				covered += int(n)
			}
			fatalIf(t, covered != len(in), "seed %d: runs %+v cover %d of %d", seed, f.runs, covered, len(in))
		}
	}
}
