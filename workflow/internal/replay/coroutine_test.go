package replay

import "testing"

func TestOneCoroutineAfterAnotherHasTheSameGoroutine(t *testing.T) {
	begun := 0
	all := &Coroutines{Begin: func() { begun++ }}
	run := func(park bool) (*Run, *coroutine) {
		r := Open(RunOptions{Coroutines: all})
		c := r.spawn(func(c *coroutine) {
			if park {
				c.park()
			}
		})
		r.step(c)
		return r, c
	}
	_, first := run(false)
	for range 3 {
		if _, c := run(false); !c.over || c.carrier != first.carrier || len(all.free) != 1 {
			t.Fatalf("over: %v, on the same goroutine: %v, %d free", c.over, c.carrier == first.carrier, len(all.free))
		}
	}
	fatalIf(t, begun != 4, "Begin was called %d times", begun)
	// One that is parked has its goroutine for itself, and ends with its run.
	r, parked := run(true)
	if _, c := run(false); c.carrier == parked.carrier || parked.over || len(all.free) != 1 {
		t.Fatalf("on the same goroutine: %v, over: %v, %d free", c.carrier == parked.carrier, parked.over, len(all.free))
	}
	if r.Close(); !parked.over || len(all.free) != 1 {
		t.Fatalf("over: %v, %d free", parked.over, len(all.free))
	}
	// A coroutine whose run is closed before it begins runs nothing.
	r = Open(RunOptions{Coroutines: all})
	r.spawn(func(*coroutine) { t.Error("it runs") })
	r.Close()

	late, c := run(true)
	run(false)
	free := all.free[0]
	all.Close()
	if _, ok := free.next(); ok || len(all.free) != 0 {
		t.Error("a free goroutine has not ended")
	}
	late.ready(c)
	if late.step(c); !c.over || len(all.free) != 0 {
		t.Error("a goroutine is kept after the end")
	}
	if _, ok := c.carrier.next(); ok {
		t.Error("a goroutine has not ended")
	}
}

func TestOnlySoManyGoroutinesOfCoroutinesAreKept(t *testing.T) {
	all := new(Coroutines)
	defer all.Close()
	r := Open(RunOptions{Coroutines: all})
	for range maxFree + 10 {
		r.spawn(func(*coroutine) {})
	}
	for len(r.coroutines) > 0 {
		r.step(r.coroutines[0])
	}
	if len(all.free) != maxFree {
		t.Errorf("%d goroutines are kept, want %d", len(all.free), maxFree)
	}
}
