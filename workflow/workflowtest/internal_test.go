package workflowtest

import "testing"

func TestWithoutAttempts(t *testing.T) {
	for text, want := range map[string]string{
		`step "s" failed after 12 attempts: no`:  `step "s" failed: no`,
		`a after 2 attempts, b after 3 attempts`: `a, b`,
		`after attempts after x after 2 days`:    `after attempts after x after 2 days`,
	} {
		if got := withoutAttempts(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"pay", "pay", true}, {"pay", "shop~3/pay", true}, {"shop~*/pay", "shop~3/pay", true}, {"shop/pay", "shop~3/pay", false},
		{"pay", "repay", false}, {"pay", "undo of shop/pay", false}, {"undo of pay", "trip/undo of trip/pay",
			true}, {"undo of *", "pay", false},
		{"*", "a/b", true}, {"", "", true}, {"", "a", false},
		{"a*b*c", "axbybc", true}, {"a*b*c", "axbyb", false}, {"**", "x", true}, {"a?", "a", false}, {"?", "/",
			false}, {"*a", "b/aba", true},
	} {
		if got := matches(tt.pattern, tt.path); got != tt.want {
			t.Errorf("matches(%q, %q) = %v", tt.pattern, tt.path, got)
		}
	}
}
