package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

var errDisk = errors.New("the disk is broken")

// reading is a query that returns the count.
var reading = query(func(b bot, _ *actor.ReadContext) (string, error) { return string(rune('0' + b.N)), nil })

// TestNothingLeavesBeforeItIsDurable holds the sync of the log up and then makes it fail.
func TestNothingLeavesBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		rt := n.open(t, func(o *runtime.Options) { o.DrainTimeout = time.Second })
		ctx := t.Context()
		ref := bots.Ref(rt, "a")
		for range 3 {
			if _, err := run.Call(ctx, ref, named(add(1))); err != nil {
				t.Fatal(err)
			}
		}
		stream, err := rt.Subscribe(ctx, botA, host.Subscription{})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		hold := make(chan struct{})
		n.disk.Fail(func(op, path string) error {
			if op == "sync" && strings.HasSuffix(path, ".log") {
				<-hold
				return errDisk
			}
			return nil
		})
		var mu sync.Mutex
		answers := make(map[string]error)
		var wg sync.WaitGroup
		start := func(name string, f func() error) {
			wg.Go(func() {
				err := f()
				mu.Lock()
				defer mu.Unlock()
				answers[name] = err
			})
			synctest.Wait()
		}
		call := func(f action) func() error {
			return func() error { _, err := run.Call(ctx, ref, named(f)); return err }
		}
		start("write", call(func(b *bot, ctx *actor.Context) (string, error) {
			b.N++
			said.Emit(ctx, "x")
			return "", deliver.Send(ctx, bots.Ref(ctx, "b"), note{From: "a", N: 1})
		}))
		start("read turn", call(func(b *bot, _ *actor.Context) (string, error) { return string(rune('0' + b.N)), nil }))
		start("error that shows state", call(func(b *bot, _ *actor.Context) (string, error) { return "", errRefused }))
		start("query", func() error { _, err := ask.Call(ctx, ref, named(reading)); return err })
		start("event", func() error { _, err := stream.Next(ctx); return err })
		start("resumed event", func() error {
			s, err := rt.Subscribe(ctx, botA, host.Subscription{Resume: true})
			if err != nil {
				return err
			}
			defer s.Close()
			_, err = s.Next(ctx)
			return err
		})
		start("crash", call(func(b *bot, _ *actor.Context) (string, error) { panic("boom") }))
		start("query after a crash", func() error { _, err := ask.Call(ctx, ref, named(reading)); return err })
		start("destroy", func() error { return bots.Ref(rt, "a").Destroy(ctx) })
		start("not found", func() error { _, err := run.Call(ctx, ref, named(add(1)), actor.Existing()); return err })
		start("successor", call(add(1)))
		start("successor's query", func() error { _, err := ask.Call(ctx, ref, named(reading)); return err })
		mu.Lock()
		for name, err := range answers {
			t.Errorf("%s was answered before the disk was: %v", name, err)
		}
		mu.Unlock()
		close(hold)
		synctest.Wait()
		if _, err := rt.Lookup(ctx, host.Address{Type: "bot", Key: []string{"b"}}); err == nil {
			t.Error("the message left")
		}
		mu.Lock()
		for name, err := range answers {
			var e *actor.Error
			if errors.As(err, &e); e == nil || e.Code != actor.Unavailable {
				t.Errorf("%s: %v", name, err)
			} else if name == "write" && e.Retryable {
				t.Errorf("%s: the caller is told that nothing was done, which nobody knows", name)
			}
		}
		mu.Unlock()
		// The store is read-only now: what was never durable must not show, not even after the actor left memory.
		for range 2 {
			if _, err := run.Call(ctx, ref, named(add(0))); actor.CodeOf(err) != actor.Unavailable {
				t.Errorf("a turn on what was never durable: %v", err)
			}
			if _, err := ask.Call(ctx, ref, named(reading)); actor.CodeOf(err) != actor.Unavailable {
				t.Errorf("a query on what was never durable: %v", err)
			}
			time.Sleep(time.Hour)
		}
		if rt.Err() == nil {
			t.Error("the node says that it is well")
		}
		rt.Close()
		wg.Wait()
	})
}

// TestWhatWasNeverDurableIsNotShownToOperators lets the sync of commits fail and reads what the store holds by every way
// that wakes no actor: the actors of those commits are refused, and lists leave them out and name them.
func TestWhatWasNeverDurableIsNotShownToOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		rt := n.open(t, func(o *runtime.Options) { o.DrainTimeout = time.Second })
		ctx := t.Context()
		for _, key := range []string{"destroyed", "lost", "safe", "sound"} {
			if _, err := run.Call(ctx, bots.Ref(rt, key), named(add(1))); err != nil {
				t.Fatal(err)
			}
		}
		answer := n.holdSync()
		var calls, readers sync.WaitGroup
		calls.Go(func() { run.Call(ctx, bots.Ref(rt, "lost"), named(add(1))) })
		calls.Go(func() { run.Call(ctx, bots.Ref(rt, "new"), named(add(1))) })
		calls.Go(func() { bots.Ref(rt, "destroyed").Destroy(ctx) })
		synctest.Wait()
		reads := map[string]func() error{
			"status of a changed actor":   func() error { _, err := rt.Lookup(ctx, botAt("lost")); return err },
			"status of a new actor":       func() error { _, err := rt.Lookup(ctx, botAt("new")); return err },
			"status of a destroyed actor": func() error { _, err := rt.Lookup(ctx, botAt("destroyed")); return err },
			"keys":                        func() error { _, err := rt.Inspect(ctx, botAt("lost"), host.InspectQuery{ValueBytes: 100}); return err },
		}
		lists := []struct {
			q    host.ListQuery
			want string
		}{
			{host.ListQuery{}, "safe sound; without bot/destroyed bot/lost bot/new"},
			{host.ListQuery{Type: "bot"}, "safe sound; without bot/destroyed bot/lost bot/new"},
			{host.ListQuery{Type: "bot", Prefix: []string{"lost"}}, "; without bot/lost"},
			{host.ListQuery{Type: "bot", Prefix: []string{"safe"}}, "safe; without"},
			// The pages hold what the store has: lost and new, then safe and sound.
			{host.ListQuery{Type: "bot", Limit: 2}, "; without bot/destroyed bot/lost bot/new, safe sound; without"},
			{host.ListQuery{Type: "bot", Limit: 1}, "; without bot/destroyed bot/lost, ; without bot/new, safe; without, sound; without"},
		}
		var mu sync.Mutex
		early := true
		check := func(name string, err error, failed bool) {
			mu.Lock()
			defer mu.Unlock()
			if early || failed {
				t.Errorf("%s: %v, before the disk answered: %t", name, err, early)
			}
		}
		refused := func(err error) bool {
			var e *actor.Error
			return errors.As(err, &e) && e.Code == actor.Unavailable && e.Metadata["reason"] == "uncertain" && strings.Contains(e.Message, "restart")
		}
		again := func(when string) {
			for name, read := range reads {
				readers.Go(func() { err := read(); check(name+when, err, !refused(err)) })
			}
			for _, l := range lists {
				readers.Go(func() {
					got, err := listAll(ctx, rt, l.q)
					check(fmt.Sprintf("list %+v%s: %s", l.q, when, got), err, err != nil || got != l.want)
				})
			}
			readers.Go(func() {
				var found int
				var last error
				for _, err := range bots.List(ctx, rt) {
					if last = err; err == nil {
						found++
					}
				}
				check("actors in Go"+when, last, found != 2 || !refused(last) || !strings.Contains(last.Error(), `["destroyed"] ["lost"] ["new"]`))
			})
		}
		again("")
		impatient, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := rt.List(impatient, host.ListQuery{}); actor.CodeOf(err) != actor.DeadlineExceeded {
			t.Errorf("a list whose caller gives up: %v", err)
		}
		if _, err := rt.Lookup(ctx, botAt("safe")); err != nil {
			t.Errorf("an actor without commits under way: %v", err)
		}
		mu.Lock()
		early = false
		mu.Unlock()
		answer()
		readers.Wait()
		calls.Wait()
		time.Sleep(time.Hour) // actors leave memory, except actors that the disk lost
		again(", later")
		readers.Wait()
		if _, err := rt.Lookup(ctx, botAt("safe")); err != nil {
			t.Errorf("an actor whose commits are durable, later: %v", err)
		}
		rt.Close()
	})
}

// holdSync holds the next sync of the log up until answer is called, and lets it and all later ones fail.
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

// listAll reads a list page by page, and says of each page which keys it has and which actors it is without.
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

// TestPauseThatWasNeverDurableIsNotListed lets the sync of the commit fail that pauses a run, and lists the runs.
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
		if err := office.at(rt, "b").Pause(ctx, "look at it"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		answer := n.holdSync()
		var done sync.WaitGroup
		done.Go(func() { _ = office.at(rt, "a").Pause(ctx, "look at it") })
		synctest.Wait()
		reads := map[string]func() (string, error){
			"runs": func() (string, error) {
				var got string
				for q := (host.RunQuery{Limit: 1}); ; {
					page, err := rt.Runs(ctx, q)
					for _, r := range page.Runs {
						got += strings.Join(r.Key, "/")
					}
					if q.Cursor = page.Cursor; err != nil || q.Cursor == "" {
						return got + "; without" + addresses(page.Uncertain), err
					}
				}
			},
			"counts": func() (string, error) {
				n, err := rt.CountRuns(ctx)
				return fmt.Sprint(n.Counts) + "; without" + addresses(n.Uncertain), err
			},
		}
		want := map[string]string{"runs": "b; without desk/a", "counts": "[{desk paused operator 1}]; without desk/a"}
		released := false
		var mu sync.Mutex
		for name, read := range reads {
			done.Go(func() {
				got, err := read()
				mu.Lock()
				defer mu.Unlock()
				if !released || err != nil || got != want[name] {
					t.Errorf("%s: %s, %v, after the disk answered: %t", name, got, err, released)
				}
			})
		}
		synctest.Wait()
		if page, err := rt.Runs(ctx, host.RunQuery{Type: "bot"}); err != nil || page.Uncertain != nil {
			t.Errorf("runs of a type without commits under way: %+v, %v", page, err)
		}
		mu.Lock()
		released = true
		mu.Unlock()
		answer()
		done.Wait()
		time.Sleep(time.Hour)
		for name, read := range reads {
			if got, err := read(); err != nil || got != want[name] {
				t.Errorf("%s, later: %s, %v", name, got, err)
			}
		}
		rt.Close()
	})
}

func TestTwoNodesOnOneDirectoryAreRefused(t *testing.T) {
	n := newNode()
	rt := n.open(t, nil)
	defer rt.Close()
	_, err := runtime.Open(t.Context(), runtime.Options{Dir: "data", Disk: n.disk, Actors: []actor.Definition{botDefinition(actor.Spec[bot]{})}})
	if !errors.Is(err, engine.ErrLocked) {
		t.Fatalf("the second node: %v", err)
	}
}
