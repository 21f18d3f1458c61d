package main

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		child(text)
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector keeps each process for a second
	os.Exit(m.Run())
}

// TestEachStageIsMeasured runs everything in a small form, with stores that an earlier run made.
func TestEachStageIsMeasured(t *testing.T) {
	g := &growth{dir: t.TempDir(), actors: 100, hot: 50, runs: 10, rounds: 1, time: 5 * time.Millisecond, soak: 50 * time.Millisecond}
	first := g.built(true)
	second := g.built(true)
	if first.Built[cairnSide] != second.Built[cairnSide] || first.Built[cairnSide].Rate == 0 {
		t.Errorf("the stores were built again: %+v, then %+v", first, second)
	}
	var out strings.Builder
	g.measure(&out, true)
	t.Log(out.String())
	for _, line := range []string{
		"\nbuild: ", "\ntables on disk", "\nopen after a kill", "\nquery of any actor", "\ndurable call of any actor",
		"\ndurable calls of 50 hot actors", "\nlisting, ", "\n10 parked workflow runs\n", "\nfull load for 50ms",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("there is no line %q", line)
		}
	}
	if len(g.reports) != 8 || len(g.soaked) != 2 {
		t.Errorf("%d stages and %d lines of the soak", len(g.reports), len(g.soaked))
	}
	positive := func(name string, v ...float64) {
		for i, v := range v {
			if !(v > 0) || math.IsInf(v, 0) {
				t.Errorf("%s: figure %d is %v", name, i, v)
			}
		}
	}
	for _, r := range g.reports {
		positive(r.name, r.ratio)
		for _, v := range append(r.ours, r.raw...) {
			switch {
			case strings.HasPrefix(r.name, "tables"):
				positive(r.name, v.Disk, v.Payload)
			case v.Rate == 0 || v.P50 == 0:
				positive(r.name, v.Took, v.CPU, v.Memory)
			default:
				positive(r.name, v.Rate, v.P50, v.P99, v.CPU, v.Memory)
			}
		}
	}
	for _, v := range g.soaked {
		positive("soak", v.Rate, v.P50, v.P99, v.P999, v.Max, v.CPU, v.Memory, v.Disk, v.WriteAmp)
	}
	g.remove()
	if _, err := os.Stat(g.dir); err == nil {
		t.Error("the stores remain")
	}
}

// markBytes is what a commit of the engine may have beyond its rows: how far the log is synced.
const markBytes = 18

// TestTwinWritesWhatACallWrites compares the bytes of commits, so that the ratios compare like with
// like.
func TestTwinWritesWhatACallWrites(t *testing.T) {
	const n = 20
	bytesOf := func(name string) float64 {
		s := open(name, t.TempDir())
		defer s.close()
		s.create(1)
		found(s.call(1, false))
		before := s.logical()
		for range n {
			found(s.call(1, false))
		}
		return (s.logical() - before) / n
	}
	ours, twin := bytesOf(cairnSide), bytesOf(rawSide)
	if twin < ours-6-markBytes || twin > ours+6 {
		t.Errorf("the twin writes %v bytes, a call %v", twin, ours)
	}
}

// TestEntriesOfTheTwinExpire lets an entry's time pass.
func TestEntriesOfTheTwinExpire(t *testing.T) {
	w := openRaw(t.TempDir())
	defer w.close()
	w.create(1)
	found(w.call(1, true))
	w.expires[0].at = time.Now()
	found(w.call(1, false))
	if len(w.expires) != 0 {
		t.Errorf("%d entries are left", len(w.expires))
	}
	w.destroy(1)
	if w.get(1) || w.list() != 0 {
		t.Error("the actor is still there")
	}
}

func TestHistogramHasTheQuantiles(t *testing.T) {
	h := new(histogram)
	for i := range 10_000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	for p, want := range map[float64]float64{0.001: 10e-6, 0.5: 5e-3, 0.99: 9.9e-3, 0.9999: 10e-3} {
		if got := h.quantile(p); math.Abs(got-want) > want*0.02+1e-6 {
			t.Errorf("quantile %v is %v, want %v", p, got, want)
		}
	}
	for _, d := range []time.Duration{0, 1, 63, 64, 65, 1 << 40, math.MaxInt64} {
		one := new(histogram)
		if one.add(d); math.Abs(one.quantile(0.5)*1e9-float64(max(d, 1))) > float64(d)*0.02+1 {
			t.Errorf("%d is counted as %v", d, one.quantile(0.5)*1e9)
		}
	}
}
