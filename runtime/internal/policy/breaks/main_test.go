package main

import "testing"

// Code that moves or changes must not take a break out of the list without notice.
func TestEachBreakHasItsPlaceAndItsTests(t *testing.T) {
	*show = true
	read()
	for _, e := range parse() {
		if path, verdict := e.try(); verdict != "found" {
			t.Errorf("%s: %s, %s", e.name, verdict, path)
		}
	}
}
