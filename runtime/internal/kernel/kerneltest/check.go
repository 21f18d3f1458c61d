package kerneltest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
	"weak"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
)

// look returns what an actor has. found is false if there is no actor.
func (x *trial) look(a host.Address) (l look, found bool) {
	_, found, err := x.store.Lookup(engine.Identity{Namespace: namespace, Type: a.Type, Key: a.Key})
	if err == nil && !found {
		return l, false
	}
	if err == nil {
		err = x.call(a, "look", nil, &l)
	}
	if err == nil && x.s.Show != nil && a.Key[0] == subject.Key[0] {
		l.Seen, err = x.s.Show(x.k, a)
	}
	if err != nil {
		x.fatalf("%s cannot be read: %v", address.Format(a), err)
	}
	return l, true
}

// settle waits until all work has ended that ends, and checks all claims.
func (x *trial) settle() {
	time.Sleep(settled)
	x.check(true)
}

// check compares the actors with the model. ended: all work must have ended.
func (x *trial) check(ended bool) {
	synctest.Wait()
	now, found := x.look(subject)
	at := now
	if x.s.Elsewhere {
		at, _ = x.look(Target)
	}
	if x.s.Operates {
		x.checkLast(now.Seen)
		return
	}
	x.mu.Lock()
	uses, out := slices.Clone(x.uses), maps.Clone(x.out)
	x.mu.Unlock()
	used, endings := count(now.Used), count(at.Ended)
	known := make(map[int]bool)
	for _, u := range uses {
		known[u.n] = true
		gone := u.life.ended || u.life.ending && !x.survives(u.life, used)
		switch n := used[u.n]; {
		case n > 1:
			x.faultf("use %d is there %d times", u.n, n)
		case n > 0 && u.failed():
			x.faultf("use %d failed, and the state has it", u.n)
		case n > 0 && gone:
			x.faultf("use %d is of an actor that was destroyed, and its successor has it", u.n)
		case n == 0 && u.acked() && !gone && !found:
			x.faultf("use %d was acknowledged, and there is no actor", u.n)
		case n == 0 && u.acked() && !gone:
			x.faultf("use %d was acknowledged, and the state does not have it: %v", u.n, now.Used)
		}
		if out[u.n] && u.failed() {
			x.faultf("use %d failed, and a client got its number", u.n)
		} else if out[u.n] && used[u.n] == 0 && !u.acked() && !gone {
			x.faultf("a client got number %d, and the turn is lost", u.n)
		}
		x.checkEnd(u, endings[u.n], used[u.n] > 0, gone, ended)
	}
	for _, n := range slices.Concat(now.Used, at.Ended, slices.Collect(maps.Keys(out))) {
		if !known[n] {
			x.faultf("number %d is none of the uses", n)
		}
	}
	if x.s.Read != nil || x.s.Show != nil {
		x.checkSeen(&now, endings)
	}
}

// checkLast checks that the part shows the last use of the actor that lives. One that was cut off
// may have replaced it.
func (x *trial) checkLast(seen []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var may []int
	must := false
	for _, u := range x.uses {
		switch {
		case u.life.ended:
		case u.acked():
			may, must = []int{u.n}, !u.life.ending
		case !u.failed():
			may = append(may, u.n)
		}
	}
	if len(seen) == 0 && must || len(seen) > 1 || len(seen) == 1 && !slices.Contains(may, seen[0]) {
		x.list = append(x.list, fmt.Sprintf("the part shows %v, and the last use is one of %v", seen, may))
	}
}

// survives reports whether an actor still lives whose destruction was not acknowledged.
func (x *trial) survives(l *life, used map[int]int) bool {
	return slices.ContainsFunc(x.uses, func(u *use) bool { return u.life == l && used[u.n] > 0 })
}

// checkEnd checks how often the work of a use has ended.
func (x *trial) checkEnd(u *use, n int, kept, gone, ended bool) {
	switch must := ended && x.s.Ends > 0 && !x.s.Mortal; {
	case n > 1:
		x.faultf("the work of use %d has ended %d times", u.n, n)
	case n > 0 && u.failed():
		x.faultf("use %d failed, and its work has ended", u.n)
	case n > 0 && gone && !x.s.Elsewhere:
		x.faultf("the work of use %d has ended in the successor of its actor", u.n)
	case n > 0 && !kept && !gone:
		x.faultf("the work of use %d has ended, and its turn is lost", u.n)
	case n == 0 && must && (kept || x.s.Elsewhere && u.acked()):
		x.faultf("the work of use %d has not ended", u.n)
	}
}

// checkSeen compares what the part shows with the state of the actor.
func (x *trial) checkSeen(now *look, ended map[int]int) {
	want := slices.Clone(now.Used)
	if x.s.Shows == ShowsOpen {
		want = slices.DeleteFunc(want, func(n int) bool { return ended[n] > 0 })
	}
	seen := slices.Sorted(slices.Values(now.Seen))
	if slices.Sort(want); !slices.Equal(seen, want) {
		x.faultf("the part shows %v, and the actor has used %v", seen, want)
	}
}

func count(list []int) map[int]int {
	m := make(map[int]int)
	for _, n := range list {
		m[n]++
	}
	return m
}

// unchanged runs f and checks that it leaves nothing in the store and publishes nothing.
func (x *trial) unchanged(what string, f func()) {
	synctest.Wait()
	before, sets := x.dump(), x.published()
	f()
	synctest.Wait()
	if d := difference(before, x.dump()); d != "" {
		x.faultf("%s leaves something in the store:\n%s", what, d)
	}
	if n := x.published(); n != sets {
		x.faultf("%s publishes %d change sets", what, n-sets)
	}
}

// forever is later than all rows of the wake index.
const forever = 1 << 62

// wakes returns the wake index.
func (x *trial) wakes() []engine.Wake {
	rows, err := x.store.Wakes(nil, forever, 1000)
	if err != nil {
		x.fatalf("the wake index cannot be read: %v", err)
	}
	return rows
}

// wakeText describes a row of the wake index.
func wakeText(w *engine.Wake) string {
	return fmt.Sprintf("a row of kind %s of %s, due %d, %q %q", w.Kind, w.ID, w.Due, w.Name, w.Instance)
}

// dump returns the content of the store, by names for people.
func (x *trial) dump() map[string]string {
	all := make(map[string]string)
	page, err := x.store.Actors(engine.ActorsQuery{Namespace: namespace})
	if err != nil {
		x.fatalf("the directory cannot be read: %v", err)
	}
	for _, a := range page.Actors {
		all[fmt.Sprintf("actor %s",
			a.Identity.Key)] = fmt.Sprintf("%s version %d, %d keys of %d bytes", a.ID,
			a.Head.Version, a.Head.Keys, a.Head.Bytes)
		snap := x.store.Snapshot(a.ID)
		keys, err := snap.List(engine.ListQuery{})
		snap.Close()
		if err != nil {
			x.fatalf("actor %v cannot be read: %v", a.Identity.Key, err)
		}
		for _, e := range keys.Entries {
			all[fmt.Sprintf("key %s of %s", keyspace.Format(e.Key),
				a.Identity.Key)] = fmt.Sprintf("%x, version %d", e.Value, e.Version)
		}
	}
	for _, w := range x.wakes() {
		all[wakeText(&w)] = "there"
	}
	rows, err := x.store.Outbox(0, 1000)
	if err != nil {
		x.fatalf("the outbox cannot be read: %v", err)
	}
	for _, r := range rows {
		all[fmt.Sprintf("row %d of the outbox", r.Seq)] = fmt.Sprintf("%d bytes", len(r.Record))
	}
	return all
}

// difference describes how two dumps differ; "" if they do not.
func difference(before, after map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if old, ok := before[k]; !ok {
			fmt.Fprintf(&b, "\t%s: new: %s\n", k, after[k])
		} else if old != after[k] {
			fmt.Fprintf(&b, "\t%s: %s, before %s\n", k, after[k], old)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[k]; !ok {
			fmt.Fprintf(&b, "\t%s: gone\n", k)
		}
	}
	return b.String()
}

// noneOfTheDead checks that the wake index has no rows of actors that are gone. Those of messages
// stay, and those of keys that expire, which the kernel drops when they are due.
func (x *trial) noneOfTheDead() {
	for _, w := range x.wakes() {
		_, _, ok, err := x.store.Identity(w.ID)
		if err != nil {
			x.fatalf("the directory cannot be read: %v", err)
		}
		if !ok && w.Kind != keyspace.WakeExpiry && !(x.s.Elsewhere && w.Due == 0) {
			x.faultf("the wake index has a row of an actor that was destroyed: %s", wakeText(&w))
		}
	}
}

// noRows checks that the wake index is empty, except for the row at 0 that may stay as long as its
// actor.
func (x *trial) noRows() {
	for _, w := range x.wakes() {
		if _, _, lives, _ := x.store.Identity(w.ID); !lives || x.s.Stays == 0 || w.Due != 0 || w.Kind != x.s.Stays {
			x.faultf("all work has ended, and the wake index has %s", wakeText(&w))
		}
	}
}

// finish checks that an actor with nothing to do costs nothing, and closes the node.
func (x *trial) finish() {
	x.settle()
	time.Sleep(max(time.Minute, x.s.Rests))
	synctest.Wait()
	x.noRows()
	for _, a := range []host.Address{subject, Target} {
		if x.k.Find(a) != nil {
			x.faultf("%s has nothing to do, and stays in memory", address.Format(a))
		}
	}
	if n := x.k.Remains.Len(); n > 0 {
		x.faultf("the remains of %d actors stay in memory", n)
	}
	const ofNode, ofClock = "spawn.(*Group).Go.func1(", "clock.(*Clock).Run("
	if goroutinesOf(ofNode, "\x00") == "" {
		x.fatalf("no goroutine of the node is called %s", ofNode) // or the next check finds nothing
	}
	if g := goroutinesOf(ofNode, ofClock); g != "" {
		x.faultf("goroutines work for a node that rests:\n%s", g)
	}
	if n := x.k.Failures.Len(); n > 0 {
		x.faultf("%d actors count as failed", n)
	}
	x.leaveMemory()
	x.stop()
}

// leaveMemory checks that nothing refers to the cores that are gone.
func (x *trial) leaveMemory() {
	left := func(c weak.Pointer[kernel.Core]) bool { return c.Value() != nil }
	for tries := 0; tries < 3 && slices.ContainsFunc(x.cores, left); tries++ {
		runtime.GC() // the caches of pools are emptied by the second collection
	}
	for i, c := range x.cores {
		if left(c) {
			x.faultf("core %d of %d is gone, and something still refers to it", i+1, len(x.cores))
		}
	}
}

// stacks has room for what goroutinesOf reads. Under the race detector fresh memory is dear.
var stacks struct {
	sync.Mutex
	buf [1 << 20]byte
}

// goroutinesOf returns the stacks of the goroutines of the bubble that are in one function and not
// in another. This one and those of the bubble itself do not count.
func goroutinesOf(in, not string) string {
	stacks.Lock()
	all := strings.Split(string(stacks.buf[:runtime.Stack(stacks.buf[:], true)]), "\n\n")
	stacks.Unlock()
	_, bubble, _ := strings.Cut(all[0], "synctest bubble ")
	bubble, _, _ = strings.Cut(bubble, "]")
	return strings.Join(slices.DeleteFunc(all[1:], func(g string) bool {
		head, stack, _ := strings.Cut(g, "\n")
		return !strings.HasSuffix(head, "synctest bubble "+bubble+"]:") ||
			!strings.Contains(stack, in) || strings.Contains(stack, not) ||
			strings.Contains(head, "synctest.Run") || strings.HasPrefix(stack, "testing")
	}), "\n\n")
}
