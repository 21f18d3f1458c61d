package replay

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

func TestNamesKeepTheirIndices(t *testing.T) {
	stored := newRows()
	n := journal.NewNames(nil)
	strange := []string{"a", "p/q/r", "x~7", "nul\x00inside", "ü", strings.Repeat("é", 128), "w:0"}
	for i, s := range strange {
		index, isNew, err := n.Index(s)
		fatalIf(t, err != nil || !isNew || index != uint32(i), "%q: %d, %v, %v", s, index, isNew, err)
		if again, isNew, err := n.Index(s); again != index || isNew || err != nil {
			t.Fatalf("%q again: %d, %v, %v", s, again, isNew, err)
		}
	}
	must(t, n.Write(stored))
	loaded, err := journal.LoadNames(stored)
	must(t, err)
	for i, s := range strange {
		if index, isNew, err := loaded.Index(s); index != uint32(i) || isNew || err != nil || loaded.Name(uint32(i)) != s {
			t.Errorf("%q loads as %d, %v, %v", s, index, isNew, err)
		}
	}
	if got := loaded.Name(99); got != "?99" {
		t.Errorf("an index without a name prints %q", got)
	}
	if _, ok := loaded.Lookup("nobody"); ok || loaded.Len() != len(strange) {
		t.Error("looking up registers")
	}
}

func TestNamesThatCannotBeUsed(t *testing.T) {
	for _, s := range []string{"", strings.Repeat("x", MaxName+1), "\xff"} {
		n := journal.NewNames(nil)
		var bad *NameError
		if _, _, err := n.Index(s); !errors.As(err, &bad) || n.Len() != 0 {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestTooManyNames(t *testing.T) {
	n := journal.NewNames(nil)
	for i := range MaxNames {
		if n.Crowded() != (i > journal.CrowdedNames) {
			t.Fatalf("crowded with %d names: %v", i, n.Crowded())
		}
		if _, isNew, err := n.Index("item " + strconv.Itoa(i)); err != nil || !isNew {
			t.Fatal(err)
		}
	}
	_, _, err := n.Index("one more")
	var bad *NameError
	if !errors.As(err, &bad) || bad.Name != "one more" || !strings.Contains(err.Error(), "ForEach") || !strings.Contains(err.Error(), "Loop") {
		t.Error(err)
	}
	if i, isNew, err := n.Index("item 7"); i != 7 || isNew || err != nil {
		t.Errorf("a name that is there: %d, %v, %v", i, isNew, err)
	}
}

func TestNamesOfAnUndoneTransactionAreWrittenByTheNext(t *testing.T) {
	stored := newRows()
	n := journal.NewNames(nil)
	n.Begin()
	n.Index("a")
	n.Write(newRows())
	n.Undone()
	n.Begin()
	n.Index("b")
	must(t, n.Write(stored))
	n.Begin()
	loaded, err := journal.LoadNames(stored)
	errorIf(t, err != nil || loaded.Len() != 2 || loaded.Name(0) != "a", "%v, %v", loaded, err)
	n.Undone()
	errorIf(t, n.Written() != 2, "names of an earlier transaction are written again")
}

func TestNamesThatAreMissing(t *testing.T) {
	stored := newRows()
	stored.Put(journal.NameKey(nil, 0), []byte("a"))
	stored.Put(journal.NameKey(nil, 2), []byte("c"))
	var bad *CorruptError
	if _, err := journal.LoadNames(stored); !errors.As(err, &bad) {
		t.Error(err)
	}
	if _, err := loadImage(stored); !errors.As(err, &bad) {
		t.Error(err)
	}
}

func TestPaths(t *testing.T) {
	n := journal.NewNames([]string{"serve", "checkout", "a/b"})
	for want, l := range map[string]journal.Location{"": nil, "serve": loc(0), "serve~3/checkout": loc(0, [2]int{0, 3}, 1)} {
		if got := n.Path(l); got != want {
			t.Errorf("%x prints %q, want %q", []byte(l), got, want)
		}
	}
	if got := n.Path(loc(2, 9)); got != "a/b/?9" {
		t.Error(got)
	}
	if got := n.Path(journal.Location{0x99}); got != "?99" {
		t.Error(got)
	}
}

func BenchmarkNameIndex(b *testing.B) {
	n := journal.NewNames(nil)
	for i := range 1000 {
		n.Index("item " + strconv.Itoa(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, isNew, _ := n.Index("item 777"); isNew {
			b.Fatal("new")
		}
	}
}
