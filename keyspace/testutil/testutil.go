// Package testutil has what tests of all packages say in one line.
package testutil

import "testing"

// Must ends the test if err is not nil. where says of what.
func Must(t testing.TB, err error, where ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(append(where, err)...)
	}
}

// Check is Must for goroutines of a test, which goes on.
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

// ErrorIf is FatalIf for a test that goes on.
func ErrorIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Errorf(format, args...)
	}
}
