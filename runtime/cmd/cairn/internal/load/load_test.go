package load

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A slowNode takes a time for each call, and fails from a call on if fail is set.
type slowNode struct {
	host.Node
	mu        sync.Mutex
	took      time.Duration
	calls     map[string]int
	destroyed []string
	inputs    []string
	fail      error
}

func (n *slowNode) Call(_ context.Context, r *host.Request) (host.Reply, error) {
	time.Sleep(n.took)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[r.Key[len(r.Key)-1]]++
	n.inputs = append(n.inputs, string(r.Input))
	return host.Reply{}, n.fail
}

func (n *slowNode) Destroy(_ context.Context, a host.Address) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls[a.Key[len(a.Key)-1]] == 0 {
		return host.Errorf(host.NotFound, "never created")
	}
	n.destroyed = append(n.destroyed, a.Key[len(a.Key)-1])
	return n.fail
}

func TestRunMeasuresEachNumberOfActorsWithEachNumberOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &slowNode{took: 10 * time.Millisecond, calls: map[string]int{}}
		p := Plan{Duration: 995 * time.Millisecond, Value: 3, Callers: []int{1, 4}, Actors: []int{2, 3}}
		cells := Cells(4)
		var got []Result
		err := p.Run(t.Context(), n, cells, func(r Result) error { got = append(got, r); return nil })
		var want []Result
		for _, actors := range p.Actors {
			for _, callers := range p.Callers {
				want = append(want, Result{
					Callers: callers, Actors: actors, Value: 3, Calls: 100 * callers, Seconds: 1, Rate: float64(100 * callers),
					P50: 10_000, P99: 10_000, Max: 10_000,
				})
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v\n%+v", err, got)
		}
		// 600 calls on two actors and 400 on three, and the call that creates each before each run.
		if len(n.inputs) != 1000+2*2+2*3 || n.calls["2"] < 160 || n.calls["3"] != 0 ||
			slices.ContainsFunc(n.inputs, func(in string) bool { return !strings.Contains(in, `"xxx"`) }) {
			t.Errorf("%d calls: %v", len(n.inputs), n.calls)
		}
		if err := Destroy(t.Context(), n, cells); err != nil || len(n.destroyed) != 3 {
			t.Errorf("%v, destroyed %v", err, n.destroyed)
		}
	})
}

func TestRunEndsAtTheFirstError(t *testing.T) {
	n := &slowNode{calls: map[string]int{}, fail: errors.New("full")}
	p := Plan{Duration: time.Hour, Callers: []int{2}, Actors: []int{2}}
	if err := p.Run(t.Context(), n, Cells(2), nil); !errors.Is(err, n.fail) {
		t.Error(err)
	}
	if err := Destroy(t.Context(), n, Cells(2)); !errors.Is(err, n.fail) {
		t.Error(err)
	}
	n.fail = nil
	full := errors.New("the disk is full")
	p.Duration = time.Nanosecond
	if err := p.Run(t.Context(), n, Cells(2), func(Result) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}

func TestDurationsReadWellAndQuantilesAreSamples(t *testing.T) {
	for us, want := range map[Micros]string{47.25: "47.2 µs", 999.9: "999.9 µs", 1500: "1.50 ms", 2.5e6: "2.50 s"} {
		if got := us.String(); got != want {
			t.Errorf("%v is written %q, want %q", float64(us), got, want)
		}
	}
	samples := make([]time.Duration, 100)
	for i := range samples {
		samples[i] = time.Duration(i+1) * time.Microsecond
	}
	for q, want := range map[float64]Micros{0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(samples, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
