package directory

import (
	"strconv"
	"sync"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestAValueIsMadeOnceAndFound(t *testing.T) {
	d := New[*string]()
	fatalIf(t, d.Find([]byte("a")) != nil || d.Len() != 0, "an empty directory has a value")
	own := func(key string) *string { return &key }
	a := d.FindOrMake([]byte("a"), own)
	fatalIf(t, *a != "a" || d.FindOrMake([]byte("a"), own) != a || d.Find([]byte("a")) != a || d.Len() != 1,
		"the value that was made is not the one found")
	d.Remove([]byte("a"), new(string))
	fatalIf(t, d.Find([]byte("a")) != a, "removing another value removed this one")
	d.Remove([]byte("a"), a)
	fatalIf(t, d.Find([]byte("a")) != nil || d.Len() != 0, "a removed value is found")
}

func TestAClosedDirectoryTakesNoNewValue(t *testing.T) {
	d := New[*string]()
	own := func(key string) *string { return &key }
	a := d.FindOrMake([]byte("a"), own)
	d.Close()
	fatalIf(t, d.FindOrMake([]byte("b"), own) != nil || d.Find([]byte("b")) != nil, "a closed directory took a value")
	fatalIf(t, d.FindOrMake([]byte("a"), own) != a, "a closed directory lost a value")
}

func TestEachVisitsEveryValueAndHoldsNoLock(t *testing.T) {
	d := New[int]()
	for i := 1; i <= 200; i++ {
		d.FindOrMake([]byte(strconv.Itoa(i)), func(string) int { return i })
	}
	sum := 0
	d.Each(func(i int) {
		sum += i
		d.Remove([]byte(strconv.Itoa(i)), i) // would block if Each held the lock
	})
	fatalIf(t, sum != 200*201/2 || d.Len() != 0, "Each visited a sum of %d, and %d values are left", sum, d.Len())
}

func TestConcurrentMakersGetOneValuePerKey(t *testing.T) {
	d := New[*int]()
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := make(map[string]*int)
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				key := strconv.Itoa(i)
				v := d.FindOrMake([]byte(key), func(string) *int { return new(int) })
				mu.Lock()
				if got[key] == nil {
					got[key] = v
				}
				errorIf(t, got[key] != v, "two makers of key %s got different values", key)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestFindDoesNotAllocate(t *testing.T) {
	d := New[*int]()
	d.FindOrMake([]byte("a"), func(string) *int { return new(int) })
	if n := testing.AllocsPerRun(100, func() {
		var buf [8]byte
		fatalIf(t, d.Find(append(buf[:0], 'a')) == nil, "not found")
	}); n != 0 {
		t.Fatalf("Find allocates %v times", n)
	}
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
