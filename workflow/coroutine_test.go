package workflow

import "testing"

func TestCoroutinesServeOneRunAfterAnother(t *testing.T) {
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
	for range 3 {
		if _, c := run(false); !c.over || begun != 1 || len(all.free) != 1 {
			t.Fatalf("over: %v, %d coroutines begun, %d free", c.over, begun, len(all.free))
		}
	}
	// One that is parked serves its run alone, and ends with it.
	r, parked := run(true)
	if run(false); begun != 2 || parked.over || len(all.free) != 1 {
		t.Fatalf("%d coroutines begun, %d free", begun, len(all.free))
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
		t.Error("a free coroutine has not ended")
	}
	late.ready(c)
	if late.step(c); !c.over || len(all.free) != 0 {
		t.Error("a coroutine is kept after the end")
	}
	if _, ok := c.strand.next(); ok {
		t.Error("a coroutine has not ended")
	}
}

func TestOnlySoManyCoroutinesAreKept(t *testing.T) {
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
		t.Errorf("%d coroutines are kept, want %d", len(all.free), maxFree)
	}
}
