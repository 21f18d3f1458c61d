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
		_, c := run(false)
		fatalIf(t, !c.over || c.carrier != first.carrier || len(all.free) != 1, "over: %v, %d free", c.over, len(all.free))
	}
	fatalIf(t, begun != 4, "Begin was called %d times", begun)
	// A parked coroutine keeps its goroutine, and ends with its run.
	r, parked := run(true)
	_, c := run(false)
	fatalIf(t, c.carrier == parked.carrier || parked.over || len(all.free) != 1, "over: %v, %d free", parked.over, len(all.free))
	r.Close()
	fatalIf(t, !parked.over || len(all.free) != 1, "over: %v, %d free", parked.over, len(all.free))
	// A coroutine whose run is closed before it begins runs nothing.
	r = Open(RunOptions{Coroutines: all})
	r.spawn(func(*coroutine) { t.Error("it runs") })
	r.Close()

	late, c := run(true)
	run(false)
	free := all.free[0]
	all.Close()
	_, goes := free.next()
	errorIf(t, goes || len(all.free) != 0, "a free goroutine has not ended")
	late.ready(c)
	late.step(c)
	errorIf(t, !c.over || len(all.free) != 0, "a goroutine is kept after the end")
	_, goes = c.carrier.next()
	errorIf(t, goes, "a goroutine has not ended")
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
	errorIf(t, len(all.free) != maxFree, "%d goroutines are kept, want %d", len(all.free), maxFree)
}
