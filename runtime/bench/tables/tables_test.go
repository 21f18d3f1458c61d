package main

import (
	"testing"
	"time"
)

func TestEveryVariantReadsWhatItWrote(t *testing.T) {
	rows := newRows(40, 1000, t.TempDir())
	for _, v := range variants {
		r := rows.measure(t.TempDir(), v, 1<<20, time.Millisecond)
		if r.size <= 0 || r.build <= 0 {
			t.Errorf("%s: %+v", v.name, r)
		}
		for _, kind := range kinds {
			if _, ok := r.spent[kind]; !ok {
				t.Errorf("%s: nothing was measured of %q", v.name, kind)
			}
		}
	}
}
