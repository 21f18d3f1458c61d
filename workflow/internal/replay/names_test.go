package replay

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestNamesKeepTheirIndices(t *testing.T) {
	journal := newRows()
	n := newNames(nil)
	strange := []string{"a", "p/q/r", "x~7", "nul\x00inside", "ü", strings.Repeat("é", 128), "w:0"}
	for i, s := range strange {
		index, isNew, err := n.index(s)
		if err != nil || !isNew || index != uint32(i) {
			t.Fatalf("%q: %d, %v, %v", s, index, isNew, err)
		}
		if again, isNew, err := n.index(s); again != index || isNew || err != nil {
			t.Fatalf("%q again: %d, %v, %v", s, again, isNew, err)
		}
	}
	if err := n.write(journal); err != nil {
		t.Fatal(err)
	}
	loaded, err := loadNames(journal)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range strange {
		if index, isNew, err := loaded.index(s); index != uint32(i) || isNew || err != nil || loaded.name(uint32(i)) != s {
			t.Errorf("%q loads as %d, %v, %v", s, index, isNew, err)
		}
	}
	if got := loaded.name(99); got != "?99" {
		t.Errorf("an index without a name prints %q", got)
	}
	if _, ok := loaded.lookup("nobody"); ok || loaded.len() != len(strange) {
		t.Error("looking up registers")
	}
}

func TestNamesThatCannotBeUsed(t *testing.T) {
	for _, s := range []string{"", strings.Repeat("x", MaxName+1), "\xff"} {
		n := newNames(nil)
		var bad *NameError
		if _, _, err := n.index(s); !errors.As(err, &bad) || n.len() != 0 {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestTooManyNames(t *testing.T) {
	n := newNames(nil)
	for i := range MaxNames {
		if n.crowded() != (i > crowdedNames) {
			t.Fatalf("crowded with %d names: %v", i, n.crowded())
		}
		if _, isNew, err := n.index("item " + strconv.Itoa(i)); err != nil || !isNew {
			t.Fatal(err)
		}
	}
	_, _, err := n.index("one more")
	var bad *NameError
	if !errors.As(err, &bad) || bad.Name != "one more" || !strings.Contains(err.Error(), "ForEach") || !strings.Contains(err.Error(), "Loop") {
		t.Error(err)
	}
	if i, isNew, err := n.index("item 7"); i != 7 || isNew || err != nil {
		t.Errorf("a name that is there: %d, %v, %v", i, isNew, err)
	}
}

func TestNamesOfAnUndoneTransactionAreWrittenByTheNext(t *testing.T) {
	journal := newRows()
	n := newNames(nil)
	n.begin()
	n.index("a")
	n.write(newRows())
	n.undone()
	n.begin()
	n.index("b")
	if err := n.write(journal); err != nil {
		t.Fatal(err)
	}
	n.begin()
	loaded, err := loadNames(journal)
	if err != nil || loaded.len() != 2 || loaded.name(0) != "a" {
		t.Errorf("%v, %v", loaded, err)
	}
	n.undone()
	if n.written != 2 {
		t.Error("names of an earlier transaction are written again")
	}
}

func TestNamesThatAreMissing(t *testing.T) {
	journal := newRows()
	journal.Put(nameKey(nil, 0), []byte("a"))
	journal.Put(nameKey(nil, 2), []byte("c"))
	var bad *CorruptError
	if _, err := loadNames(journal); !errors.As(err, &bad) {
		t.Error(err)
	}
	if _, err := loadImage(journal); !errors.As(err, &bad) {
		t.Error(err)
	}
}

func TestPaths(t *testing.T) {
	n := newNames([]string{"serve", "checkout", "a/b"})
	for want, l := range map[string]location{"": nil, "serve": loc(0), "serve~3/checkout": loc(0, [2]int{0, 3}, 1)} {
		if got := n.path(l); got != want {
			t.Errorf("%x prints %q, want %q", []byte(l), got, want)
		}
	}
	if got := n.path(loc(2, 9)); got != "a/b/?9" {
		t.Error(got)
	}
	if got := n.path(location{0x99}); got != "?99" {
		t.Error(got)
	}
}

func BenchmarkNameIndex(b *testing.B) {
	n := newNames(nil)
	for i := range 1000 {
		n.index("item " + strconv.Itoa(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, isNew, _ := n.index("item 777"); isNew {
			b.Fatal("new")
		}
	}
}
