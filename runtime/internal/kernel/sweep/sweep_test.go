package sweep

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// A sleeper is awake until it is put to sleep.
type sleeper struct {
	name    string
	used    int64
	state   State
	restive bool // it must stay awake a little longer
}

// A house has sleepers, of which it can bear most awake, and is content with enough.
type house struct {
	Sweep[*sleeper]
	all           []*sleeper
	most, content int
	walks         int
	slept         []string
	retired       []string
}

func newHouse(most, content int) *house {
	h := &house{most: most, content: content}
	h.Over = func() bool { return h.awake() > h.most }
	h.Enough = func() bool { return h.awake() <= h.content }
	h.Each = func(f func(*sleeper)) {
		h.walks++
		for _, v := range slices.Clone(h.all) {
			f(v)
		}
	}
	h.State = func(v *sleeper) State { return v.state }
	h.Used = func(v *sleeper) time.Time { return time.UnixMilli(v.used) }
	h.Sleep = func(v *sleeper) bool {
		if v.restive {
			return false
		}
		if !v.state.Busy {
			v.state.Busy = true
			h.slept = append(h.slept, v.name)
		}
		return true
	}
	h.Retire = func(v *sleeper) {
		v.state.Busy = true
		h.retired = append(h.retired, v.name)
	}
	return h
}

func (h *house) awake() (n int) {
	for _, v := range h.all {
		if !v.state.Busy {
			n++
		}
	}
	return n
}

func (h *house) wake(name string, s State) *sleeper {
	v := &sleeper{name: name, used: time.Now().UnixMilli(), state: s}
	h.all = append(h.all, v)
	return v
}

// look looks once, and returns the names that it put to sleep.
func (h *house) look() (slept []string, wait time.Duration, more bool) {
	h.slept = nil
	wait, more = h.Look(time.Now())
	return h.slept, wait, more
}

func TestLeastRecentlyUsedSleepFirstAndOneWalkServesManyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(6, 4)
		add := func(names ...string) {
			for _, name := range names {
				time.Sleep(time.Second)
				h.wake(name, State{Idle: time.Hour})
			}
		}
		h.Idle = time.Hour
		add("a", "b", "c", "d", "e", "f", "g")
		h.all[1].used = time.Now().UnixMilli() + 1
		want := func(names ...string) {
			t.Helper()
			slept, _, more := h.look()
			fatalIf(t, !slices.Equal(slept, names) || !more, "%v fell asleep, want %v; more %v", slept, names, more)
		}
		want("a", "c", "d")
		want()
		add("h", "i")
		time.Sleep(time.Second)
		h.all[4].used = time.Now().UnixMilli() // e, since the walk
		want()
		add("j")
		want("f", "g", "b")
		fatalIf(t, h.walks != 1, "%d walks", h.walks)
		add("k", "l", "m") // of what the walk found nothing is left
		want("h", "i", "e")
		fatalIf(t, h.walks != 2, "%d walks", h.walks)
	})
}

func TestValueWithAShortIdleTimeDoesNotWaitForOneWithALongTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(100, 90)
		h.Idle = time.Second
		h.wake("long", State{Idle: time.Hour})
		_, wait, _ := h.look()
		h.wake("short", State{Idle: time.Second})
		time.Sleep(wait)
		slept, _, _ := h.look()
		fatalIf(t, !slices.Equal(slept, []string{"short"}), "after %v %v fell asleep", wait, slept)
	})
}

func TestWhatWorksIsRetiredOnlyIfNothingElseCanSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(1, 1)
		first := h.wake("first", State{Works: true})
		h.wake("second", State{Works: true})
		idle := h.wake("idle", State{})
		idle.restive = true
		h.look()
		fatalIf(t, h.retired != nil || len(h.slept) != 0, "%v %v", h.retired, h.slept)
		idle.restive = false
		time.Sleep(time.Second)
		h.look()
		fatalIf(t, h.retired != nil || !slices.Equal(h.slept, []string{"idle"}), "%v %v", h.retired, h.slept)
		first.used += 10
		time.Sleep(time.Second)
		_, _, more := h.look()
		fatalIf(t, !slices.Equal(h.retired, []string{"second"}) || more, "%v %v", h.retired, more)
	})
}

func TestLooksThatFindNothingDoNotWalkAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(1, 1)
		h.wake("a", State{Idle: time.Hour}).restive = true
		h.wake("b", State{Idle: time.Hour}).restive = true
		each := h.Each
		h.Each = func(f func(*sleeper)) {
			time.Sleep(10 * time.Millisecond) // a long walk
			each(f)
		}
		for range 100 {
			_, _, more := h.look()
			fatalIf(t, !more, "it gave up")
			time.Sleep(time.Millisecond)
		}
		fatalIf(t, h.walks != 1, "%d walks of 10 ms in a tenth of a second", h.walks)
	})
}

func TestAValueThatMustStayAwakeForHoursIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(9, 9)
		stays := h.wake("stays", State{Idle: time.Second})
		stays.restive = true
		looks := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				_, wait, _ := h.look()
				time.Sleep(wait)
			}
		}
		looks(time.Hour)
		errorIf(t, h.walks < 360 || h.walks > 380, "%d walks in an hour", h.walks)
		stays.restive = false
		looks(maxAgain)
		errorIf(t, !slices.Equal(h.slept, []string{"stays"}), "%v fell asleep", h.slept)
		h.walks = 0
		h.wake("again", State{Idle: time.Second}).restive = true
		looks(2 * time.Second)
		errorIf(t, h.walks < 4, "%d walks in two seconds, after another one", h.walks)
	})
}

func TestMemoryThatBecomesShortAfterAWalkIsRelievedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(2, 1)
		h.Idle = time.Hour
		each := h.Each
		h.Each = func(f func(*sleeper)) {
			time.Sleep(100 * time.Millisecond) // a long walk
			each(f)
		}
		h.wake("a", State{Idle: time.Hour})
		h.look()
		h.wake("b", State{Idle: time.Hour})
		h.wake("c", State{Idle: time.Hour})
		slept, _, _ := h.look()
		fatalIf(t, !slices.Equal(slept, []string{"a", "b"}), "%v fell asleep", slept)
	})
}

func TestCandidatesOfValuesThatNeverSleepByThemselvesAreKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(4, 3)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			h.wake(name, State{})
			time.Sleep(time.Second)
		}
		slept, wait, more := h.look()
		fatalIf(t, !slices.Equal(slept, []string{"a", "b"}) || !more, "%v fell asleep, more %v", slept, more)
		h.wake("f", State{})
		h.wake("g", State{})
		if slept, _, _ := h.look(); !slices.Equal(slept, []string{"c", "d"}) || h.walks != 1 {
			t.Fatalf("%v fell asleep after %d walks", slept, h.walks)
		}
		time.Sleep(wait)
		if _, _, more := h.look(); more || h.idle != nil {
			t.Fatalf("after %v the candidates are still kept", wait)
		}
	})
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
