package attach

import (
	"sync"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

type (
	red  struct{ name string }
	blue struct{ name string }
)

func (r *red) Name() string  { return r.name }
func (b *blue) Name() string { return b.name }

func TestValuesAreFoundByType(t *testing.T) {
	var l List
	fatalIf(t, Get[*red](&l) != nil, "an empty list has a value")
	r := Make(&l, func() *red { return &red{"r"} })
	b := Make(&l, func() *blue { return &blue{"b"} })
	again := Make(&l, func() *red { t.Fatal("made again"); return nil })
	fatalIf(t, again != r, "got %v, want %v", again, r)
	fatalIf(t, Get[*red](&l) != r || Get[*blue](&l) != b, "a value is not found by its type")
	names := ""
	Each(&l, func(n interface{ Name() string }) { names += n.Name() })
	fatalIf(t, names != "br", "Each visited %q, want the last attached first", names)
	Each(&l, func(*List) { t.Fatal("visited a value of another type") })
}

func TestConcurrentMakersGetOneValue(t *testing.T) {
	var l List
	var wg sync.WaitGroup
	got := make([]*red, 16)
	for i := range got {
		wg.Go(func() {
			Make(&l, func() *blue { return new(blue) })
			got[i] = Make(&l, func() *red { return new(red) })
		})
	}
	wg.Wait()
	for _, r := range got {
		fatalIf(t, r != got[0], "two makers got different values")
	}
	n := 0
	Each(&l, func(*red) { n++ })
	fatalIf(t, n != 1, "%d values of one type are attached, want 1", n)
}

var fatalIf = testutil.FatalIf
