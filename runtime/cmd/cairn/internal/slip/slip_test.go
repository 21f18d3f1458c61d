package slip

import "testing"

func TestNearestFindsSlips(t *testing.T) {
	types := []string{"cell", "airport", "route"}
	for word, want := range map[string]string{
		"cel": "cell", "clel": "cell", "airprot": "airport", "Routes": "route", "tenant": "", "x": "", "longcell": "",
	} {
		if got, ok := Nearest(word, types); got != want || ok != (want != "") {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
