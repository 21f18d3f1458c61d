package keyval

import (
	"strconv"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// TestMeterForgetsTheActorThatRestsLongest counts requests of more actors than a meter has room for.
func TestMeterForgetsTheActorThatRestsLongest(t *testing.T) {
	m := newMeter()
	at := func(i int) host.Address { return host.Address{Type: "t", Key: []string{strconv.Itoa(i)}} }
	for i := range 2 * maxMetered {
		m.add(addressOf(at(i)), "get", time.Millisecond, false)
		m.add(addressOf(at(0)), "get", time.Millisecond, false)
	}
	if len(m.actors) != maxMetered || m.recent.Len() != maxMetered {
		t.Errorf("%d actors, of which %d are in order", len(m.actors), m.recent.Len())
	}
	if n := m.of(at(0))["get"].count; n != 2*maxMetered+1 {
		t.Errorf("the one that is used has %d", n)
	}
	if len(m.of(at(1))) != 0 || len(m.of(at(2*maxMetered-1))) != 1 {
		t.Error("another was forgotten")
	}
}

// TestMeterBuckets counts times in the buckets of a histogram, which are cumulative.
func TestMeterBuckets(t *testing.T) {
	m := newMeter()
	for _, took := range []time.Duration{500 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 200 * time.Millisecond, time.Minute} {
		m.add("a", "get", took, took == time.Minute)
	}
	got := *m.actors["a"].Value.(*metered).timings["get"]
	want := timing{count: 5, errors: 1, sum: 60_204.5, buckets: [len(bounds)]uint64{2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4}}
	if got != want {
		t.Errorf("%+v", got)
	}
}

func TestAddressesDiffer(t *testing.T) {
	seen := make(map[string]host.Address)
	for _, a := range []host.Address{{Type: "t"}, {Type: "t", Key: []string{""}}, {Type: "t", Key: []string{"", ""}}, {Type: "t", Key: []string{"a", "b"}}, {Type: "t", Key: []string{"a\x00\x01b"}}, {Type: "ta", Key: []string{"b"}}} {
		s := addressOf(a)
		if other, taken := seen[s]; taken {
			t.Errorf("%v and %v", a, other)
		}
		seen[s] = a
	}
}
