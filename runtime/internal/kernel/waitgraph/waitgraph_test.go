package waitgraph

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// TestGraphFollowsItsModel enters and leaves edges at random, and compares the refusals with
// reachability in a plain list.
func TestGraphFollowsItsModel(t *testing.T) {
	type edge struct{ from, to, id int }
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 300 {
		var g Graph[int, int]
		var edges []edge
		reaches := func(from, to int) bool {
			seen := map[int]bool{from: true}
			for grew := true; grew; {
				grew = false
				for _, e := range edges {
					if seen[e.from] && !seen[e.to] {
						seen[e.to], grew = true, true
					}
				}
			}
			return seen[to]
		}
		for id := range 60 {
			if len(edges) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(edges))
				g.Leave(edges[i].from, edges[i].id)
				g.Leave(edges[i].from, edges[i].id) // it may be called more than once
				edges = slices.Delete(edges, i, i+1)
				continue
			}
			e := edge{r.IntN(8), r.IntN(8), id}
			cycle := g.Enter(e.from, e.to, e.id)
			if refuse := reaches(e.to, e.from); refuse != (cycle != nil) {
				t.Fatalf("%v: a wait %v gives the cycle %v", edges, e, cycle)
			} else if !refuse {
				edges = append(edges, e)
				continue
			}
			refused++
			fatalIf(t, cycle[0] != e.from || cycle[1] != e.to || cycle[len(cycle)-1] != e.from,
				"%v: the wait %v closes the cycle %v", edges, e, cycle)
			for i, from := range cycle[1 : len(cycle)-1] {
				fatalIf(t, !slices.ContainsFunc(edges, func(x edge) bool { return x.from == from && x.to == cycle[i+2] }),
					"%v: the cycle %v has an edge that does not stand", edges, cycle)
			}
		}
		waiting := make(map[int]bool)
		for _, e := range edges {
			waiting[e.from] = true
		}
		fatalIf(t, g.Len() != len(waiting), "%d nodes wait, want %d", g.Len(), len(waiting))
		for _, e := range edges {
			g.Leave(e.from, e.id)
		}
		fatalIf(t, g.Len() != 0, "%d nodes wait for nothing", g.Len())
	}
	errorIf(t, refused < 100, "only %d waits were refused", refused)
}

func TestOfTwoWaitsThatAreADeadlockOneIsRefused(t *testing.T) {
	for range 1000 {
		var g Graph[string, int]
		var wg sync.WaitGroup
		var cycles [2][]string
		wg.Go(func() { cycles[0] = g.Enter("a", "b", 1) })
		wg.Go(func() { cycles[1] = g.Enter("b", "a", 2) })
		wg.Wait()
		fatalIf(t, (cycles[0] == nil) == (cycles[1] == nil), "%v", cycles)
	}
}

func TestChainFollowsTheLeastOfSeveralEdges(t *testing.T) {
	var g Graph[string, int]
	for i, e := range [][2]string{{"a", "c"}, {"a", "b"}, {"a", "d"}, {"b", "f"}, {"b", "e"}, {"c", "g"}} {
		errorIf(t, g.Enter(e[0], e[1], i) != nil, "%v closes a circle", e)
	}
	for from, want := range map[string][]string{"a": {"a", "b", "e"}, "c": {"c", "g"}, "g": {"g"}} {
		got := g.Chain(from, cmp.Less[string])
		errorIf(t, !slices.Equal(got, want), "from %s: %v, want %v", from, got, want)
	}
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
