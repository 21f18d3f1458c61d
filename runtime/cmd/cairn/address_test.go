package main

import (
	"slices"
	"testing"
)

func TestAddressIsReadBackAsWritten(t *testing.T) {
	for _, test := range []struct {
		text string
		typ  string
		key  []string
	}{
		{"cell", "cell", nil},
		{"cell/acme/eu", "cell", []string{"acme", "eu"}},
		{"cell/a%2Fb", "cell", []string{"a/b"}},
		{"cell/~/x", "cell", []string{"", "x"}},
		{"cell/~-/~./~..", "cell", []string{"-", ".", ".."}},
		{"cell/~~home", "cell", []string{"~home"}},
		{"cell/~~", "cell", []string{"~"}},
		{"cell/100%25", "cell", []string{"100%"}},
		{"Order-2_b/%C3%BC%20x", "Order-2_b", []string{"ü x"}},
		{"cell/user@example.com", "cell", []string{"user@example.com"}},
	} {
		a, err := parseAddress(test.text)
		if err != nil || a.Type != test.typ || !slices.Equal(a.Key, test.key) {
			t.Errorf("%s is read as %+v, %v", test.text, a, err)
			continue
		}
		if got := formatAddress(a.Type, a.Key); got != test.text {
			t.Errorf("%s is written as %s", test.text, got)
		}
	}
	// Outside of a URL these parts need no mark.
	if a, err := parseAddress("cell/-/./.."); err != nil || !slices.Equal(a.Key, []string{"-", ".", ".."}) {
		t.Errorf("got %+v, %v", a, err)
	}
	for _, text := range []string{"", "/", "/a", "1cell/a", "cell//a", "cell/", "cell/%zz", "cell/~x", "cell/%ff", "ce ll/a"} {
		if a, err := parseAddress(text); err == nil {
			t.Errorf("%q is read as %+v", text, a)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"cell/a%2Fb/~", "cell/~~x/-", "cell", "cell/%", "cell/日本"} {
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
