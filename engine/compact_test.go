package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestCompactDropsWhatWasOverwritten writes the same keys many times over, and compares the size of the tables.
func TestCompactDropsWhatWasOverwritten(t *testing.T) {
	s := openTest(t, Options{})
	const actors, times = 20, 30
	for n := range actors {
		sp := openSpace(t, s, n)
		for i := range times {
			for k := range 5 {
				put(t, sp.Writes(), kv(fmt.Sprint("key-", k)), fmt.Sprintf("%d %s", i, strings.Repeat(fmt.Sprint(n, i, k), 100)))
			}
			commit(t, sp)
			sp.Writes().Advance(0)
		}
		sp.Close()
		if n%5 == 4 { // several tables
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := s.db.Metrics().Total().TablesSize
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := s.db.Metrics(); m.Total().TablesSize > before || m.ReadAmp() != 1 { // it may have compacted itself meanwhile
		t.Errorf("%d bytes before and %d after, in %d runs", before, m.Total().TablesSize, m.ReadAmp())
	}
	for n := range actors {
		sp := openSpace(t, s, n)
		page, err := sp.Writes().List(ListQuery{Prefix: kv("")})
		if err != nil || len(page.Entries) != 5 {
			t.Fatalf("actor %d has %d entries: %v", n, len(page.Entries), err)
		}
		for _, e := range page.Entries {
			if !strings.HasPrefix(string(e.Value), fmt.Sprint(times-1, " ")) {
				t.Errorf("actor %d: %q is %q", n, e.Key, e.Value)
			}
		}
		sp.Close()
	}
}

func TestCompactEndsWithItsContextAndRefusesAClosedStore(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), kv("a"), "1")
	commit(t, sp)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Compact(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
	sp.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
}
