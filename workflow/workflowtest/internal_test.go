package workflowtest

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
)

// rounds returns how often a random test runs.
func rounds(n int) int {
	if os.Getenv("CAIRN_LONG") != "" {
		return 50 * n
	}
	return n
}

func pick(r *rand.Rand, alphabet string, most int) string {
	b := make([]byte, r.IntN(most+1))
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// TestGlobAgainstRegexp has patterns and texts of few characters, so that many match.
func TestGlobAgainstRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	matched := 0
	for range rounds(3_000) {
		pattern, text := pick(r, "ab*?/", 6), pick(r, "ab/", 6)
		expression := regexp.MustCompile("^" + strings.NewReplacer("*", "[^/]*", "?", "[^/]").Replace(pattern) + "$")
		want := expression.MatchString(text)
		if got := glob(pattern, text); got != want {
			t.Fatalf("glob(%q, %q) = %v", pattern, text, got)
		}
		if want {
			matched++
		}
	}
	if matched < 100 {
		t.Errorf("only %d of the pairs match", matched)
	}
}

func TestWithoutAttempts(t *testing.T) {
	for text, want := range map[string]string{
		`step "s" failed after 12 attempts: no`:  `step "s" failed: no`,
		`step "s" failed: no`:                    `step "s" failed: no`,
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
		{"pay", "repay", false}, {"pay", "undo of shop/pay", false}, {"undo of pay", "trip/undo of trip/pay", true}, {"undo of *", "pay", false},
		{"*", "a/b", true}, {"", "", true}, {"", "a", false},
	} {
		if got := matches(tt.pattern, tt.path); got != tt.want {
			t.Errorf("matches(%q, %q) = %v", tt.pattern, tt.path, got)
		}
	}
}
