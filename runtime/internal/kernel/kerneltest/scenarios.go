package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// scenarios are what may happen to actors that use a part.
var scenarios = []scenario{
	one("use", used),
	one("creation fails", creationFails),
	one("turn fails", turnFails),
	one("group", inOneCommit),
	one("commit is refused", commitRefused),
	one("abandon", abandoned),
	one("durable first", durableFirst),
	one("sleep", sleeps),
	one("pause", paused),
	one("restart", restarted),
	one("crash", crashed),
	one("leftovers", leftovers),
	one("destroy", destroyed),
	one("two lives", twoLives),
	one("destroy and crash", destroyedInACrash),
	{"crash at every sync", crashAtEverySync},
}

// middle is a moment at which the work that Use began has not ended.
const middle = 5 * time.Second

// The part is used in turns, alone and in one commit with others, and works after a restart.
func used(x *trial) {
	x.use(1, succeeds)
	x.use(2, succeeds)
	x.check(false)
	x.settle()
	x.use(3, succeeds)
	x.stop()
	x.start()
	x.use(4, succeeds)
}

// failures are the deeds after which nothing of a turn may be left.
var failures = []deed{fails, panics, hangs}

// A call that creates its actor fails: there is no actor.
func creationFails(x *trial) {
	for i, then := range failures {
		x.unchanged(fmt.Sprintf("a creation whose call does %q", then), func() {
			x.use(i+1, then)
			if _, found := x.look(subject); found {
				x.faultf("the call that creates the actor does %q, and there is an actor", then)
			}
		})
	}
	x.full(func() { x.use(8, succeeds) })
	x.use(9, succeeds)
	x.settle()
}

// A turn fails after it has used the part. The memory of the part must agree with the store.
func turnFails(x *trial) {
	x.use(1, succeeds)
	x.settle()
	for i, then := range failures {
		n := 10 * (i + 1)
		x.unchanged(fmt.Sprintf("a turn that does %q", then), func() { x.use(n, then) })
		x.check(true)
		x.use(n+1, succeeds)
		x.check(false)
		x.use(n+2, then)
		x.check(false)
		x.settle()
	}
	x.stop()
	x.start()
	x.check(true)
}

// Turns of one commit fail between others that succeed.
func inOneCommit(x *trial) {
	x.use(1, succeeds)
	x.together(func(call func(n int, then deed)) {
		call(2, succeeds)
		call(3, fails)
		call(4, succeeds)
		call(5, fails)
		call(6, panics)
		call(7, succeeds)
		call(8, fails)
	})
	x.check(false)
	x.settle()
	x.stop()
	x.start()
	x.use(9, succeeds)
}

// together holds calls in the mailbox, so that they share commits.
func (x *trial) together(calls func(call func(n int, then deed))) {
	var all sync.WaitGroup
	all.Go(func() {
		if err := x.order(order{Then: holds}); err != nil && !x.cut.Load() {
			x.faultf("the actor cannot be held: %v", err)
		}
	})
	synctest.Wait()
	calls(func(n int, then deed) {
		all.Go(func() { x.use(n, then) })
		synctest.Wait()
	})
	x.open()
	all.Wait()
}

// The disk is full: the commit is refused after the turns have succeeded.
func commitRefused(x *trial) {
	x.use(1, succeeds)
	x.settle()
	x.full(func() {
		x.unchanged("a commit that is refused", func() {
			x.together(func(call func(n int, then deed)) {
				call(2, succeeds)
				call(3, fails)
				call(4, succeeds)
			})
		})
	})
	x.use(5, succeeds)
	x.check(false)
}

// full runs f while the disk has no room, so that all uses fail.
func (x *trial) full(f func()) {
	room := func(free uint64) {
		x.mu.Lock()
		x.noRoom = free == 0
		x.mu.Unlock()
		x.disk.SetFree(free)
		time.Sleep(2 * time.Second) // the store looks once a second
	}
	room(0)
	f()
	room(1 << 40)
}

// A handler ignores its deadline, and uses the part again when it has been abandoned.
func abandoned(x *trial) {
	x.use(1, succeeds)
	x.together(func(call func(n int, then deed)) {
		call(2, perhaps)
		call(3, hangs)
		call(4, succeeds)
	})
	x.check(false)
	x.end()
	x.use(5, succeeds)
	x.check(false)
}

// The disk does not sync: nothing may leave.
func durableFirst(x *trial) {
	x.use(1, succeeds)
	x.settle()
	thaw := make(chan struct{})
	x.mu.Lock()
	x.locked = true
	x.mu.Unlock()
	x.disk.Fail(func(op, path string) error {
		if op == "sync" && strings.HasSuffix(path, ".log") {
			<-thaw
		}
		return nil
	})
	var answered, seen atomic.Bool
	var all sync.WaitGroup
	all.Go(func() { x.use(2, succeeds); answered.Store(true) })
	synctest.Wait()
	for _, a := range []host.Address{subject, Target} {
		all.Go(func() {
			l, _ := x.look(a)
			seen.Store(seen.Load() || count(l.Used)[2]+count(l.Ended)[2]+count(l.Seen)[2] > 0)
		})
	}
	synctest.Wait()
	time.Sleep(x.s.Ends + middle)
	if answered.Load() {
		x.faultf("a turn was acknowledged before it was durable")
	}
	if seen.Load() {
		x.faultf("a query shows a turn that is not durable")
	}
	x.mu.Lock()
	x.locked = false
	x.mu.Unlock()
	x.disk.Fail(nil)
	close(thaw)
	all.Wait()
	x.check(false)
}

// The actor sleeps in the middle of the part's work.
func sleeps(x *trial) {
	x.use(1, succeeds)
	x.meet()
	time.Sleep(middle)
	if stays := x.k.Find(subject) != nil; stays != x.s.Awake {
		x.faultf("in memory in the middle: %t, and the subject says %t", stays, x.s.Awake)
	}
	x.settle()
	x.use(2, succeeds)
	x.meet()
}

// An operator pauses the actor in which the work ends. It does not end before the actor is resumed.
func paused(x *trial) {
	a := subject
	if x.s.Elsewhere {
		a = Target
	}
	x.use(1, succeeds)
	if x.s.Elsewhere {
		x.settle() // there is a target
	}
	x.use(2, succeeds)
	pause := func() {
		if err := x.call(a, host.ActorPause, []byte(`{"reason":"a trial"}`), nil); err != nil {
			x.fatalf("the actor cannot be paused: %v", err)
		}
	}
	pause()
	before, _ := x.look(a)
	for _, again := range []func(){func() {}, func() { x.stop(); x.start() }, x.crash} {
		again()
		time.Sleep(settled)
		synctest.Wait()
		if after, _ := x.look(a); len(after.Ended) > len(before.Ended)+1 ||
			!x.s.Elsewhere && len(after.Ended) > len(before.Ended) {
			x.faultf("the actor is paused, and work has ended in it: %v, before %v", after.Ended, before.Ended)
		}
	}
	if err := x.call(a, "use", []byte(`{"n":3}`), nil); host.CodeOf(err) != host.ActorPaused {
		x.faultf("a call of an actor that is paused is answered with %v", err)
	}
	if err := x.call(a, host.ActorResume, nil, nil); err != nil {
		x.fatalf("the actor cannot be resumed: %v", err)
	}
	x.settle()
	x.use(4, succeeds)
}

// The node stops in order in the middle. The next start finds the begun work by its row at 0.
func restarted(x *trial) {
	x.use(1, succeeds)
	x.use(2, succeeds)
	time.Sleep(middle)
	x.stop()
	x.start()
	x.settle()
	x.use(3, succeeds)
	x.stop()
	x.start()
	x.stop()
	x.start()
}

// The node crashes in the middle, once when nothing has happened and once when all has ended.
func crashed(x *trial) {
	x.use(1, succeeds)
	x.use(2, succeeds)
	x.crash()
	x.check(false)
	x.settle()
	x.crash()
	x.check(true)
	x.use(3, succeeds)
	time.Sleep(middle)
	x.crash()
	x.crash()
}

// litter writes a row of each kind that the part has, with nothing behind it.
func (x *trial) litter(t *kernel.Turn) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	for _, p := range x.k.Parts {
		if p.Name() != x.s.Part {
			continue
		}
		if w, ok := p.(kernel.Waker); ok {
			for _, kind := range w.Kinds() {
				t.Core.Rows.SetWake(t.Start.Add(middle).UnixMilli(), kind, "leftover", "")
			}
		}
		if r, ok := p.(kernel.Recoverer); ok {
			t.Core.Rows.SetWake(0, r.StandsFor(), "", "")
		}
	}
	return nil
}

// Rows of the wake index that nothing stands behind are removed, and change nothing.
func leftovers(x *trial) {
	x.use(1, succeeds)
	x.settle()
	if err := x.order(order{Then: litters}); err != nil {
		x.fatalf("the rows cannot be written: %v", err)
	}
	x.stop()
	x.start()
	x.settle()
}

// The actor is destroyed in the middle, by a call and by its own turn.
func destroyed(x *trial) {
	x.use(1, succeeds)
	x.use(2, succeeds)
	x.meet()
	time.Sleep(middle)
	x.destroy()
	x.noneOfTheDead()
	x.settle()
	x.use(3, succeeds)
	x.meet()
	x.use(4, destroys)
	x.noneOfTheDead()
	x.settle()
	if _, found := x.look(subject); found {
		x.faultf("the actor was destroyed, and is there")
	}
	x.use(5, destroys) // it is created and destroyed by one call
	x.noneOfTheDead()
}

// The actor is destroyed and created again at once, with work of both lives under way.
func twoLives(x *trial) {
	x.use(1, succeeds)
	x.meet()
	x.destroy()
	x.noneOfTheDead()
	x.use(2, succeeds)
	x.meet()
	x.check(false)
	x.together(func(call func(n int, then deed)) {
		call(3, succeeds)
		call(4, destroys)
		call(5, succeeds)
	})
	x.noneOfTheDead()
	x.check(false)
	x.settle()
	x.use(6, succeeds)
	x.stop()
	x.start()
	x.destroy()
	x.use(7, succeeds)
	x.stop()
	x.start()
}

// The node crashes right after the actor was destroyed, and right after it was created again.
func destroyedInACrash(x *trial) {
	x.use(1, succeeds)
	x.destroy()
	x.crash()
	x.noneOfTheDead()
	x.check(false)
	x.use(2, succeeds)
	x.destroy()
	x.use(3, succeeds)
	x.crash()
	x.noneOfTheDead()
	x.check(false)
	x.settle()
}

// story is what happens to an actor before the node crashes.
func story(x *trial) {
	for _, step := range []func(){
		func() { x.use(1, succeeds) },
		func() { x.use(2, succeeds) },
		func() { x.use(3, fails) },
		func() { time.Sleep(middle) },
		func() { x.use(4, succeeds) },
		func() { time.Sleep(x.s.Ends + Busy) },
		func() { x.use(5, succeeds) },
		func() { x.destroy() },
		func() { x.use(6, succeeds) },
		func() { time.Sleep(x.s.Ends + Busy) },
		func() { x.use(7, succeeds) },
	} {
		if step(); x.cut.Load() {
			return
		}
	}
}

// few is at how many syncs the short form crashes.
const few = 2

// crashAtEverySync counts the syncs of the story, and crashes the node at each of them in turn,
// before it is done: with nothing of it kept and with half of it kept. The number of syncs varies,
// so a story may end before the last of them; if most do, the crashes test nothing.
func crashAtEverySync(t *testing.T, s *Subject) (faults []string) {
	var syncs atomic.Int64
	faults = try(t, s, func(x *trial) {
		x.disk.Fail(func(op, _ string) error {
			if op == "sync" {
				syncs.Add(1)
			}
			return nil
		})
		story(x)
		x.disk.Fail(nil)
		x.check(false)
	})
	n := int(syncs.Load())
	if len(faults) > 0 || n == 0 {
		return faults
	}
	tried, crashed := 0, 0
	crash := func(k, unsynced int) {
		tried++
		for _, fault := range try(t, s, func(x *trial) {
			if x.crashAt(k, unsynced) {
				crashed++
			}
		}) {
			faults = append(faults,
				fmt.Sprintf("crash at sync %d of %d, %d%% of the rest kept: %s", k, n, unsynced, fault))
		}
	}
	if Long() {
		for k := 1; k <= n && len(faults) == 0; k++ {
			crash(k, 0)
			crash(k, 50)
		}
	} else {
		for i := range min(few, n) {
			each := n / min(few, n)
			crash(1+i*each+rand.IntN(each), rand.IntN(2)*50) // drawn, so that all are tried in time
		}
	}
	if len(faults) == 0 && 2*crashed < tried {
		faults = append(faults,
			fmt.Sprintf("only %d of %d stories had as many syncs as the first, which had %d", crashed, tried, n))
	}
	return faults
}

// crashAt tells the story until sync k begins, and cuts the power then. It reports whether the
// story reached sync k.
func (x *trial) crashAt(k, unsynced int) bool {
	var syncs atomic.Int64
	var once sync.Once
	reached, thaw, told := make(chan struct{}), make(chan struct{}), make(chan struct{})
	x.disk.Fail(func(op, _ string) error {
		if op == "sync" && syncs.Add(1) >= int64(k) {
			once.Do(func() { close(reached) })
			<-thaw
		}
		return nil
	})
	go func() {
		defer close(told)
		x.attempt(func() { story(x) })
	}()
	select {
	case <-reached:
	case <-told: // commits share syncs, as it happens: there is no sync k this time
		x.disk.Fail(nil)
		close(thaw) // for a sync that has begun since
		x.check(false)
		return false
	}
	x.cut.Store(true)
	x.k.Halt()
	left := x.disk.Crash(uint64(k), unsynced)
	close(thaw)
	x.k.Kill()
	<-told
	x.store.Close()
	x.disk, x.k = left, nil
	x.start()
	x.noneOfTheDead()
	x.check(false)
	x.settle()
	x.use(8, succeeds)
	return true
}
