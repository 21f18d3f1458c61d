package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

// Many entries that expire at once are removed in slices. One wake-up leads from each to the next, with a pause for calls.
func TestManyEntriesExpireInSlices(t *testing.T) {
	const entries = 2000
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{}, nil)
		for i := 0; i < entries; i += 500 {
			var all []string
			for j := range 500 {
				all = append(all, fmt.Sprintf("k.%d=1@5000", i+j))
			}
			g.kv(all...)
		}
		time.Sleep(5 * time.Second)
		var began, last time.Time
		slices, left := 0, g.storedKeys()
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			rows, err := g.store.Wakes(nil, 1<<60, 10)
			if err != nil || len(rows) > 1 {
				t.Fatalf("%d wake-ups stand: %v", len(rows), err)
			}
			if now := g.storedKeys(); now < left {
				if slices++; slices == 1 {
					began = time.Now()
				} else if pause := time.Since(last); pause < 3*time.Millisecond {
					t.Errorf("a slice followed another after %s", pause)
				}
				if left-now > 256 {
					t.Errorf("a slice removed %d keys", left-now)
				}
				left, last = now, time.Now()
			}
		}
		if slices < entries/256 || last.Sub(began) > 200*time.Millisecond {
			t.Errorf("%d slices in %s", slices, last.Sub(began))
		}
		if n := g.storedKeys(); n > 10 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// storedKeys returns how many keys the store has of actor a.
func (g *stage) storedKeys() (n int64) {
	g.t.Helper()
	g.must("a", func(_ *puppet, t host.Turn) error { n = kernelTurn(t).Core.Rows.Keys(); return nil })
	return n
}
