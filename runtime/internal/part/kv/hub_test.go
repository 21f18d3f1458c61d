package kv

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
)

// All replies of a store wait for publish, however much is watched.
func TestPublishIsShort(t *testing.T) {
	const size = 1000
	h := new(hub)
	for n := range kv.MaxWatchers {
		w := &watch{hub: h, actor: "a", signal: make(chan struct{}, 1)}
		for p := range kv.MaxWatchedPrefixes {
			w.prefixes = append(w.prefixes, fmt.Sprintf("%s%02d%d", strings.Repeat("p", size+p*60+n%60), p, n))
		}
		must(t, h.join(w))
	}
	keys, ranges := &touched{version: 1}, &touched{version: 2}
	for i := range maxTouched {
		keys.keys = append(keys.keys, fmt.Sprint(strings.Repeat("p", 2000), i))
	}
	for i := range maxRanges {
		ranges.ranges = append(ranges.ranges, span{fmt.Sprintf("q%d", i), fmt.Sprintf("q%d~", i)})
	}
	for name, what := range map[string]*touched{"keys": keys, "ranges": ranges} {
		best := time.Hour
		for n := 0; n < 1000 && best > 10*time.Millisecond; n++ { // a loaded machine lets few end undisturbed
			began := time.Now()
			h.publish("a", what)
			best = min(best, time.Since(began))
		}
		errorIf(t, best > 10*time.Millisecond, "to publish %s takes %s", name, best)
	}
}

// What publish leaves to a reader is marked as publish marks it, and too much of it marks everything.
func TestReadersMarkWhatTheyAreHanded(t *testing.T) {
	h := new(hub)
	w := &watch{hub: h, actor: "a", signal: make(chan struct{}, 1), keys: []string{"b"}, prefixes: []string{"k"}}
	must(t, h.join(w))
	what := &touched{version: 5, keys: []string{"a", "b", "k1", "k\xff"}, ranges: []span{
		{"", "b"}, {"", "c"}, {"k", "k\xff"}, {"k7", ""}, {"k\xff", ""}, {"j", "k"}, {"j", "k0"}, {"l", "m"},
	}}
	for _, handed := range []bool{false, true} {
		if w.dirty = (dirt{}); handed {
			w.hand(what)
			w.touch("k1", 6) // a later one, marked before
		} else {
			h.publish("a", what)
		}
		d := w.take(0)
		want := map[string]engine.Version{"b": 5, "k1": 5}
		if handed {
			want["k1"] = 6
		}
		got := fmt.Sprint(d.keys)
		errorIf(t, got != fmt.Sprint(want) || len(d.ranges) != 4 || d.all, "handed %v: marked %v %v", handed, got, d.ranges)
	}
	w.dirty = dirt{}
	many := &touched{version: 7}
	for i := range maxTouched {
		many.keys = append(many.keys, fmt.Sprint("other", i))
	}
	for n, all := range []bool{false, false, true} {
		w.hand(many)
		errorIf(t, w.dirty.all != all, "%d keys: all %v", (n+1)*maxTouched, w.dirty.all)
	}
	errorIf(t, len(w.handed) != 0, "they are kept")
}
