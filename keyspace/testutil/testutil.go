// Package testutil has one-line checks for the tests of all packages.
package testutil

import "testing"

// Must ends the test if err is not nil. where describes the place.
func Must(t testing.TB, err error, where ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(append(where, err)...)
	}
}

// Check is Must for goroutines of a test; the test continues.
func Check(t testing.TB, err error, where ...any) {
	if err != nil {
		t.Helper()
		t.Error(append(where, err)...)
	}
}

// FatalIf ends the test with a message if something is wrong.
func FatalIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// ErrorIf is FatalIf, but the test continues.
func ErrorIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Errorf(format, args...)
	}
}
