package workflowtest

import (
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
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
	for range rounds(20_000) {
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

type node struct {
	Name     string
	next     *node
	children map[string]*node
	list     []any
	when     time.Time
	grid     [2][]int
}

func TestSnapshotRestoresEverything(t *testing.T) {
	build := func() *node {
		n := &node{Name: "root", children: map[string]*node{}, when: time.Date(2026, 1, 2, 3, 4, 5, 6, time.Local)}
		leaf := &node{Name: "leaf", grid: [2][]int{{1, 2}, {3}}}
		n.children["a"], n.children["b"] = leaf, leaf
		n.next = n // a cycle
		n.list = []any{1, "two", []string{"three"}, map[string]int{"four": 4}, leaf, nil}
		return n
	}
	n := build()
	s := take(n)
	n.Name = "changed"
	n.children["a"].grid[0][1] = 9
	n.children["c"] = &node{}
	n.list[2].([]string)[0] = "changed"
	n.list[3].(map[string]int)["four"] = 5
	n.next = nil
	s.restore()
	if want := build(); n.Name != want.Name || len(n.children) != 2 || !reflect.DeepEqual(n.children["a"].grid, want.children["a"].grid) ||
		!reflect.DeepEqual(n.list[2:4], want.list[2:4]) || n.next == nil || n.next.Name != "root" || !n.when.Equal(want.when) || n.when.Location() != time.Local {
		t.Errorf("%+v", n)
	}
	if n.children["a"] != n.children["b"] || n.list[4] != any(n.children["a"]) {
		t.Error("what was one is two")
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
