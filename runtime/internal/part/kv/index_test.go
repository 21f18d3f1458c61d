package kv

import (
	"fmt"
	"slices"
	"testing"

	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// An index that SQLite refuses to change falls behind from the least key of the turn on, and one with a damaged table is made anew.
func TestAnIndexThatCannotBeChangedIsLate(t *testing.T) {
	list := []*kvrows.Index{
		{Prefix: []byte("a"), IndexState: kvrows.IndexState{ID: 1}},
		{Prefix: []byte("b"), IndexState: kvrows.IndexState{ID: 2, Behind: true, After: []byte("bm"), Due: 3}},
		{Prefix: []byte("c"), IndexState: kvrows.IndexState{ID: 3, Behind: true, After: []byte("cm"), Due: 3}},
	}
	state := func(ix kvrows.Index) string {
		return fmt.Sprintf("%d after %q at %d %t", ix.ID, ix.After, ix.Due, ix.Fresh)
	}
	for _, c := range []struct {
		x       indexing
		damaged bool
		want    []string
	}{
		{x: indexing{keys: map[string]bool{"ax": true, "by": true}}, want: []string{`1 after "a" at 9 false`, `2 after "" at 3 false`}},
		{x: indexing{keys: map[string]bool{"by": true}}, want: []string{`2 after "b" at 3 false`}},
		{x: indexing{ranges: []span{{"bz", ""}}}, want: []string{`2 after "b" at 3 false`, `3 after "" at 3 false`}},
		{x: indexing{all: true, from: "bz"}, want: []string{`2 after "b" at 3 false`, `3 after "" at 3 false`}},
		{x: indexing{build: 3}, want: []string{`3 after "cm" at 9 false`}},
		{x: indexing{build: 3}, damaged: true, want: []string{`3 after "" at 9 true`}},
		{x: indexing{keys: map[string]bool{"ax": true}}, damaged: true, want: []string{`1 after "" at 9 true`}},
	} {
		var got []string
		for _, ix := range c.x.late(list, c.damaged, false, 9-indexPause.Milliseconds()) {
			errorIf(t, !ix.Behind, "%d is not behind", ix.ID)
			got = append(got, state(ix))
		}
		errorIf(t, !slices.Equal(got, c.want), "%+v: %q, want %q", c.x, got, c.want)
	}
}
