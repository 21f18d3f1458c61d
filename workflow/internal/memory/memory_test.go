package memory

import (
	"reflect"
	"testing"
	"time"
)

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
		!reflect.DeepEqual(n.list[2:4], want.list[2:4]) || n.next == nil || n.next.Name != "root" ||
		!n.when.Equal(want.when) || n.when.Location() != time.Local {
		t.Errorf("%+v", n)
	}
	if n.children["a"] != n.children["b"] || n.list[4] != any(n.children["a"]) {
		t.Error("what was one is two")
	}
}
