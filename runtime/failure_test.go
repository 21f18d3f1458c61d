package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	gort "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

// A migration that panics fails its actor, and not the node. So does state that a newer program
// wrote, and it stays unchanged.
func TestStateTooNewIsRefusedAndDataUntouched(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		before := fmt.Sprint(h.Inspect("bot", "a"))
		for _, spec := range []actor.Spec[bot]{
			{Version: 1},
			{Version: 3, Migrate: func(*bot, actor.Stored) error { panic("boom") }},
		} {
			h.Restart(botDefinition(spec))
			for range 2 {
				_, err := do(h, "a", add(1))
				told := wantCode(t, err, actor.ActorFailed).Metadata["reason"]
				st := h.Status("bot", "a")
				fatalIf(t, st.State != host.Failed, "%+v", st)
				for _, reason := range []string{told, st.Failure.Reason} {
					errorIf(t, spec.Migrate == nil && !strings.Contains(reason, "version 2"), "%s", reason)
				}
			}
			errorIf(t, fmt.Sprint(h.Inspect("bot", "a")) != before, "the data changed from %s", before)
			mustDo(t, h, fmt.Sprint("b", spec.Version), add(1))
		}
		migrate := func(b *bot, old actor.Stored) error {
			err := old.Decode(b)
			b.Log = append(b.Log, fmt.Sprintf("from %d", old.Version()))
			return err
		}
		for _, spec := range []actor.Spec[bot]{{Version: 3, Migrate: migrate}, {Version: 3}} { // then the migrated state is saved
			h.Restart(botDefinition(spec))
			got := look(t, h, "a")
			fatalIf(t, got.N != 1 || !slices.Equal(got.Log, []string{"from 2"}), "%+v", got)
		}
	}, botDefinition(actor.Spec[bot]{Version: 2}))
}

func TestDrainFinishesCallsRefusesNewOnesAndKeepsMessages(t *testing.T) {
	for _, hook := range []bool{false, true} {
		t.Run(fmt.Sprintf("sleep hook %v", hook), func(t *testing.T) {
			spec := actor.Spec[bot]{}
			var slept atomic.Int64
			if hook {
				spec.OnSleep = func(*bot, *actor.Context) error { slept.Add(1); return nil }
			}
			with(t, spec, func(t *testing.T, h *actortest.Harness) {
				var open atomic.Bool
				gate := named(action(func(*bot, *actor.Context) (string, error) {
					if !open.Load() {
						return "", errRefused
					}
					return "", nil
				}))
				mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
					return "", deliver.Send(ctx, bots.Ref(ctx, "x"), note{From: "a", N: 1, Run: gate})
				})
				h.Settle()
				var wg sync.WaitGroup
				wg.Go(func() {
					out, err := do(h, "b", func(b *bot, ctx *actor.Context) (string, error) {
						time.Sleep(2 * time.Second)
						return run.Call(ctx, bots.Ref(ctx, "c"), named(add(5))) // calls of running turns go on
					})
					errorIf(t, err != nil || out != "5", "the call in flight: %q %v", out, err)
				})
				synctest.Wait()
				rt := h.Runtime()
				wg.Go(func() {
					time.Sleep(time.Second)
					_, err := do(rt, "d", add(1))
					errorIf(t, actor.CodeOf(err) != actor.Unavailable, "a call while the node drains: %v", err)
				})
				within(t, 3*time.Second, func() { h.Restart() })
				wg.Wait()
				errorIf(t, hook && slept.Load() < 3, "%d sleep hooks ran", slept.Load())
				open.Store(true)
				time.Sleep(time.Minute)
				got := look(t, h, "x").Notes["a"]
				errorIf(t, !slices.Equal(got, []int{1}), "%v", got)
			})
		})
	}
}

func TestIdleActorsTakeNoGoroutineAndCloseLeavesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside, _ := bubbled()
		rt := newNode().open(t, nil)
		synctest.Wait()
		before, _ := bubbled()
		for i := range 200 {
			mustDo(t, rt, fmt.Sprint(i), add(1))
		}
		synctest.Wait()
		now, stacks := bubbled()
		errorIf(t, now-before > 10+4*gort.GOMAXPROCS(0), "%d goroutines for 200 idle actors:\n%s", now-before, stacks)
		must(t, rt.Close())
		synctest.Wait()
		now, stacks = bubbled()
		errorIf(t, now > outside, "%d goroutines are left after Close:\n%s", now-outside, stacks)
	})
}

// bubbled counts the goroutines of the caller's synctest bubble. The process has others that come
// and go, such as finalizers and leftovers of an earlier test; a count of all would blame them on
// this test.
func bubbled() (int, []byte) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:gort.Stack(stacks, true)]
	head, _, _ := bytes.Cut(stacks, []byte("\n"))
	_, bubble, ok := bytes.Cut(head, []byte(", synctest bubble "))
	if !ok {
		panic("not in a bubble: " + string(head))
	}
	return bytes.Count(stacks, append([]byte(", synctest bubble "), bubble...)), stacks
}

// Real time would include the node's later writes to the disk in memory.
func TestAwakeIdleActorTakesLittleMemory(t *testing.T) {
	synctest.Test(t, awakeIdleActorTakesLittleMemory)
}

func awakeIdleActorTakesLittleMemory(t *testing.T) {
	const most = 2560 // alone it is below 2,000; beside other tests the heap has more
	per := memoryOfAwakeIdleActor(t)
	for range 3 { // the heap is shared: the store's buffers come and go in it
		if per > most {
			per = memoryOfAwakeIdleActor(t)
		}
	}
	errorIf(t, per > most, "%d bytes per awake idle actor", per)
}

func memoryOfAwakeIdleActor(t *testing.T) int64 {
	t.Helper()
	const actors = 1_000
	n, one := newNode(), named(add(0))
	open := func() *runtime.Runtime { return n.open(t, func(o *runtime.Options) { o.NoSync = true }) }
	heap := func() int64 {
		gort.GC()
		gort.GC()
		var m gort.MemStats
		gort.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	rt := open()
	for i := range actors { // first life: the rows are in the store and its caches
		must(t, errOf(run.Call(t.Context(), bots.Ref(rt, fmt.Sprint(i)), one)))
	}
	must(t, rt.Close())
	rt = open()
	mustDo(t, rt, "0", add(0))
	asleep, look := heap(), named(reading)
	for i := range actors {
		must(t, errOf(ask.Call(t.Context(), bots.Ref(rt, fmt.Sprint(i)), look)))
	}
	per := (heap() - asleep) / actors
	must(t, rt.Close())
	return per
}

var errDisk = errors.New("the disk is broken")

// reading is a query that returns the count.
var reading = query(func(b bot, _ *actor.ReadContext) (string, error) { return string(rune('0' + b.N)), nil })

// A crowd of readers records each answer, and whether it came before the disk answered.
type crowd struct {
	sync.WaitGroup
	mu    sync.Mutex
	told  map[string]error
	early []string
	open  bool // the disk has answered
}

func newCrowd() *crowd { return &crowd{told: make(map[string]error)} }

// start runs f under a name.
func (c *crowd) start(name string, f func() error) {
	c.Go(func() {
		err := f()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told[name] = err
		if !c.open {
			c.early = append(c.early, fmt.Sprintf("%s: %v", name, err))
		}
	})
}

// answer makes the disk answer, and waits until each reader has an answer.
func (c *crowd) answer(disk func()) {
	c.mu.Lock()
	c.open = true
	c.mu.Unlock()
	disk()
	synctest.Wait()
}

// TestNothingLeavesBeforeItIsDurable delays the sync of the log and then makes it fail.
func TestNothingLeavesBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		rt := n.open(t, func(o *runtime.Options) { o.DrainTimeout = time.Second })
		ctx, ref := t.Context(), bots.Ref(rt, "a")
		for range 3 {
			mustDo(t, rt, "a", add(1))
		}
		stream, err := rt.Subscribe(ctx, botA, host.Subscription{})
		must(t, err)
		defer stream.Close()
		answer := n.holdSync()
		c := newCrowd()
		start := func(name string, f func() error) { c.start(name, f); synctest.Wait() }
		call := func(f action) func() error { return func() error { return errOf(do(rt, "a", f)) } }
		look := func() error { return errOf(peek(rt, "a", reading)) }
		start("write", call(func(b *bot, ctx *actor.Context) (string, error) {
			b.N++
			said.Emit(ctx, "x")
			return "", deliver.Send(ctx, bots.Ref(ctx, "b"), note{From: "a", N: 1})
		}))
		start("read turn", call(func(b *bot, _ *actor.Context) (string, error) { return string(rune('0' + b.N)), nil }))
		start("error that shows state", call(func(*bot, *actor.Context) (string, error) { return "", errRefused }))
		start("query", look)
		start("event", func() error { return errOf(stream.Next(ctx)) })
		start("resumed event", func() error {
			s, err := rt.Subscribe(ctx, botA, host.Subscription{Resume: true})
			if err != nil {
				return err
			}
			defer s.Close()
			return errOf(s.Next(ctx))
		})
		start("crash", call(func(*bot, *actor.Context) (string, error) { panic("boom") }))
		start("query after a crash", look)
		start("destroy", func() error { return ref.Destroy(ctx) })
		start("not found", func() error { return errOf(run.Call(ctx, ref, named(add(1)), actor.Existing())) })
		start("successor", call(add(1)))
		start("successor's query", look)
		c.answer(answer)
		errorIf(t, len(c.early) > 0, "answered before the disk was: %q", c.early)
		errorIf(t, errOf(rt.Lookup(ctx, botAt("b"))) == nil, "the message left")
		errorIf(t, len(c.told) < 11, "%d answers", len(c.told)) // the event has no error: it does not come
		for name, err := range c.told {
			e, _ := errors.AsType[*actor.Error](err)
			fatalIf(t, e == nil || e.Code != actor.Unavailable, "%s: %v", name, err)
			errorIf(t, name == "write" && e.Retryable, "%s: the caller is told that nothing was done, which nobody knows", name)
		}
		// The store is read-only now. Data that was never durable must not show, even after the
		// actor left memory.
		for range 2 {
			wantCode(t, errOf(do(rt, "a", add(0))), actor.Unavailable)
			wantCode(t, look(), actor.Unavailable)
			time.Sleep(10 * time.Minute)
		}
		errorIf(t, rt.Err() == nil, "the node says that it is well")
		rt.Close()
		c.Wait()
	})
}

// TestWhatWasNeverDurableIsNotShownToOperators makes the sync of commits fail and reads the store
// in every way that wakes no actor. The actors of those commits are refused; lists omit them and
// name them.
func TestWhatWasNeverDurableIsNotShownToOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		rt := n.open(t, func(o *runtime.Options) { o.DrainTimeout = time.Second })
		ctx := t.Context()
		for _, key := range []string{"destroyed", "lost", "safe", "sound"} {
			mustDo(t, rt, key, add(1))
		}
		answer := n.holdSync()
		var calls sync.WaitGroup
		calls.Go(func() { do(rt, "lost", add(1)) })
		calls.Go(func() { do(rt, "new", add(1)) })
		calls.Go(func() { bots.Ref(rt, "destroyed").Destroy(ctx) })
		synctest.Wait()
		// refused returns nil for the error of an actor whose last commit may be lost.
		refused := func(err error) error {
			e, _ := errors.AsType[*actor.Error](err)
			if e != nil && e.Code == actor.Unavailable && e.Metadata["reason"] == "uncertain" && strings.Contains(e.Message, "restart") {
				return nil
			}
			return fmt.Errorf("not refused: %v", err)
		}
		reads := map[string]func() error{
			"status of a changed actor":   func() error { return refused(errOf(rt.Lookup(ctx, botAt("lost")))) },
			"status of a new actor":       func() error { return refused(errOf(rt.Lookup(ctx, botAt("new")))) },
			"status of a destroyed actor": func() error { return refused(errOf(rt.Lookup(ctx, botAt("destroyed")))) },
			"keys": func() error {
				return refused(errOf(rt.Inspect(ctx, botAt("lost"), host.InspectQuery{ValueBytes: 100})))
			},
			"actors in Go": func() error {
				found := 0
				var last error
				for _, err := range bots.List(ctx, rt) {
					if last = err; err == nil {
						found++
					}
				}
				if found != 2 || !strings.Contains(fmt.Sprint(last), `["destroyed"] ["lost"] ["new"]`) {
					return fmt.Errorf("%d actors, %v", found, last)
				}
				return refused(last)
			},
		}
		for _, l := range []struct {
			q    host.ListQuery
			want string
		}{
			{host.ListQuery{}, "safe sound; without bot/destroyed bot/lost bot/new"},
			{host.ListQuery{Type: "bot"}, "safe sound; without bot/destroyed bot/lost bot/new"},
			{host.ListQuery{Type: "bot", Prefix: []string{"lost"}}, "; without bot/lost"},
			{host.ListQuery{Type: "bot", Prefix: []string{"safe"}}, "safe; without"},
			// The pages follow the store: lost and new, then safe and sound.
			{host.ListQuery{Type: "bot", Limit: 2}, "; without bot/destroyed bot/lost bot/new, safe sound; without"},
			{host.ListQuery{Type: "bot", Limit: 1}, "; without bot/destroyed bot/lost, ; without bot/new, safe; without, sound; without"},
		} {
			reads[fmt.Sprintf("list %+v", l.q)] = func() error { return wantText(l.want)(listAll(ctx, rt, l.q)) }
		}
		readAll(t, reads, func(answerDisk func()) {
			impatient, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			wantCode(t, errOf(rt.List(impatient, host.ListQuery{})), actor.DeadlineExceeded)
			must(t, errOf(rt.Lookup(ctx, botAt("safe")))) // it has no commits under way
			answerDisk()
			calls.Wait()
		}, answer)
		must(t, errOf(rt.Lookup(ctx, botAt("safe"))))
		rt.Close()
	})
}

// readAll reads in all ways before the disk has answered, and again later. No reader may have an
// answer before.
func readAll(t *testing.T, reads map[string]func() error, meanwhile func(answer func()), answer func()) {
	t.Helper()
	for when := range 2 { // actors leave memory meanwhile, except actors that the disk lost
		c := newCrowd()
		c.open = when > 0
		for name, read := range reads {
			c.start(name, read)
		}
		if when == 0 {
			synctest.Wait()
			meanwhile(func() { c.answer(answer) })
		}
		c.Wait()
		errorIf(t, len(c.early) > 0, "told before the disk has answered: %q", c.early)
		for name, err := range c.told {
			errorIf(t, err != nil, "%s, time %d: %v", name, when, err)
		}
		if when == 0 {
			time.Sleep(10 * time.Minute)
		}
	}
}

// wantText returns a function that compares the text that was read.
func wantText(want string) func(got string, err error) error {
	return func(got string, err error) error {
		if err != nil || got != want {
			return fmt.Errorf("%s, %v; want %s", got, err, want)
		}
		return nil
	}
}

// holdSync delays the next sync of the log until answer is called. It and all later ones fail.
func (n *node) holdSync() (answer func()) {
	hold := make(chan struct{})
	n.disk.Fail(func(op, path string) error {
		if op == "sync" && strings.HasSuffix(path, ".log") {
			<-hold
			return errDisk
		}
		return nil
	})
	return func() { close(hold) }
}

// listAll reads a list page by page, and returns the keys and the omitted actors of each page.
func listAll(ctx context.Context, rt *runtime.Runtime, q host.ListQuery) (string, error) {
	var pages []string
	for {
		page, err := rt.List(ctx, q)
		if err != nil {
			return strings.Join(pages, ", "), err
		}
		var keys []string
		for _, s := range page.Actors {
			keys = append(keys, s.Key...)
		}
		pages = append(pages, strings.Join(keys, " ")+"; without"+addresses(page.Uncertain))
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return strings.Join(pages, ", "), nil
		}
	}
}

func addresses(list []host.Address) (s string) {
	for _, a := range list {
		s += " " + a.Type + "/" + strings.Join(a.Key, "/")
	}
	return s
}

// TestPauseThatWasNeverDurableIsNotListed makes the sync of the commit that pauses a run fail, and
// lists the runs.
func TestPauseThatWasNeverDurableIsNotListed(t *testing.T) {
	does("naps undurably", func(ctx workflow.Context, _ claim) (string, error) {
		return "", workflow.Sleep(ctx, "nap", 100*time.Hour)
	})
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		rt := n.open(t, func(o *runtime.Options) {
			o.Actors, o.DrainTimeout = append(o.Actors, office.definition()), time.Second
		})
		ctx := t.Context()
		for _, key := range []string{"a", "b", "c"} {
			startClaim(t, rt, key, "naps undurably")
		}
		must(t, office.at(rt, "b").Pause(ctx, "look at it"))
		synctest.Wait()
		answer := n.holdSync()
		var pausing sync.WaitGroup
		pausing.Go(func() { _ = office.at(rt, "a").Pause(ctx, "look at it") })
		synctest.Wait()
		readAll(t, map[string]func() error{
			"runs": func() error {
				got := ""
				for q := (host.RunQuery{Limit: 1}); ; {
					page, err := rt.Runs(ctx, q)
					for _, r := range page.Runs {
						got += strings.Join(r.Key, "/")
					}
					if q.Cursor = page.Cursor; err != nil || q.Cursor == "" {
						return wantText("b; without desk/a")(got+"; without"+addresses(page.Uncertain), err)
					}
				}
			},
			"counts": func() error {
				n, err := rt.CountRuns(ctx)
				return wantText("[{desk paused operator 1}]; without desk/a")(fmt.Sprint(n.Counts)+"; without"+addresses(n.Uncertain), err)
			},
		}, func(answerDisk func()) {
			page, err := rt.Runs(ctx, host.RunQuery{Type: "bot"}) // a type without commits under way
			errorIf(t, err != nil || page.Uncertain != nil, "%+v, %v", page, err)
			answerDisk()
			pausing.Wait()
		}, answer)
		rt.Close()
	})
}
