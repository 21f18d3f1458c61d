package slip

import (
	"strings"
	"testing"
)

func TestNearestFindsSlips(t *testing.T) {
	types := []string{"cell", "airport", "route"}
	for word, want := range map[string]string{"cel": "cell", "clel": "cell", "airprot": "airport", "Routes": "route", "tenant": "", "x": ""} {
		if got, ok := Nearest(word, types); got != want || ok != (want != "") {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if d := distance("", "abc"); d != 3 {
		t.Errorf("distance from nothing is %d", d)
	}
	if d := distance(strings.Repeat("ab", 5), strings.Repeat("ba", 5)); d != 2 {
		t.Errorf("distance is %d, want 2", d)
	}
}
