package main

import (
	"slices"
	"testing"
)

// The scenarios of testdata/scripts/call.txt have addresses that are read and written.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{
		"cell/a%2Fb/~", "cell/~~x/-", "cell", "cell/%", "cell/日本", "cell/~-/~./~..", "", "/", "Order-2_b/%C3%BC%20x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAddress(text)
		if err != nil {
			return
		}
		again, err := parseAddress(formatAddress(a.Type, a.Key))
		if err != nil || again.Type != a.Type || !slices.Equal(again.Key, a.Key) {
			t.Fatalf("%q is %q, which is written %s and read as %q, %v", text, a, formatAddress(a.Type, a.Key), again, err)
		}
	})
}
