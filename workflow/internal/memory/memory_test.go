package memory

import (
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
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

// TestRowsAgainstAModel changes rows at random, in transactions of which some are undone.
func TestRowsAgainstAModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rows := NewRows()
	committed := map[string]string{}
	for range rounds(500) {
		now := maps.Clone(committed)
		for range r.IntN(8) {
			key, other := pick(r, "abc", 2), pick(r, "abc", 2)
			switch r.IntN(3) {
			case 0:
				value := pick(r, "xy", 2)
				_ = rows.Put([]byte(key), []byte(value))
				now[key] = value
			case 1:
				_ = rows.Delete([]byte(key))
				delete(now, key)
			default:
				_ = rows.DeleteRange([]byte(key), []byte(other))
				maps.DeleteFunc(now, func(k, _ string) bool { return k >= key && k < other })
			}
		}
		wantRows(t, rows, now)
		if r.IntN(2) == 0 {
			rows.Commit()
			committed = now
		} else {
			rows.Rollback()
			wantRows(t, rows, committed)
		}
	}
}

func wantRows(t *testing.T, rows *Rows, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	var order []string
	_ = rows.Scan(nil, []byte{0xFF}, func(k, v []byte) error {
		got[string(k)] = string(v)
		order = append(order, string(k))
		return nil
	})
	if !maps.Equal(got, want) || !slices.IsSorted(order) {
		t.Fatalf("%v in the order %q, want %v", got, order, want)
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
