package runtime_test

import (
	"context"
	"slices"
	"strconv"
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
)

func TestFirstCallCreatesTheActor(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		st := h.Status("bot", "a")
		if st.State != host.Awake || st.Version == 0 || st.Generation != 1 {
			t.Fatalf("%+v", st)
		}
		_, err := run.Call(t.Context(), bots.Ref(h, "b"), named(add(1)), actor.Existing())
		wantCode(t, err, actor.NotFound)
		if exists(t, h, "b") {
			t.Fatal("a call that demands an actor made one")
		}
	})
}

func TestExplicitCreateTakesInputAndRefusesDuplicates(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		wantCode(t, open.Call(ctx, bots.Ref(h, "a"), "refuse"), actor.FailedPrecondition)
		if exists(t, h, "a") {
			t.Fatal("a creation that failed left the actor")
		}
		if err := open.Call(ctx, bots.Ref(h, "a"), "x"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, open.Call(ctx, bots.Ref(h, "a"), "y"), actor.AlreadyExists)
		wantCode(t, bots.Ref(h, "a").Create(ctx), actor.AlreadyExists)
		if got := look(t, h, "a").Log; !slices.Equal(got, []string{"open x"}) {
			t.Fatal(got)
		}
	})
}

func TestFirstCallThatFailsLeavesNothing(t *testing.T) {
	for name, f := range map[string]action{
		"error": func(b *bot, ctx *actor.Context) (string, error) {
			b.N = 7
			said.Emit(ctx, "x")
			ring.After(ctx, time.Hour, "x")
			return "", errRefused
		},
		"panic": func(b *bot, ctx *actor.Context) (string, error) {
			b.N = 7
			things.Put(ctx, "x", "y")
			panic("boom")
		},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
				if _, err := do(h, "a", f); err == nil {
					t.Fatal("the call succeeded")
				}
				if exists(t, h, "a") {
					t.Fatal("the actor is in the directory")
				}
				for range bots.List(t.Context(), h) {
					t.Fatal("the actor is listed")
				}
				h.Restart()
				if exists(t, h, "a") {
					t.Fatal("the actor is in the store")
				}
				mustDo(t, h, "a", add(1))
			})
		})
	}
}

// TestCreateHookOfAFirstCallThatFailsLeavesNothing: the hook's turn succeeded, and is undone with the call that caused it.
func TestCreateHookOfAFirstCallThatFailsLeavesNothing(t *testing.T) {
	attempt := 0
	spec := actor.Spec[bot]{OnCreate: func(b *bot, ctx *actor.Context) error {
		if ctx.Key()[0] != "a" {
			return nil
		}
		attempt++
		name := strconv.Itoa(attempt)
		b.Log = append(b.Log, name)
		said.Emit(ctx, name)
		return deliver.Send(ctx, bots.Ref(ctx, "told by "+name), note{From: "a"})
	}}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		_, err := do(h, "a", func(*bot, *actor.Context) (string, error) { return "", errRefused })
		wantCode(t, err, actor.FailedPrecondition)
		mustDo(t, h, "a", add(1))
		h.Settle()
		if got := look(t, h, "a").Log; !slices.Equal(got, []string{"2"}) {
			t.Fatalf("the state has %q of the hook", got)
		}
		if events := h.Events("bot", "a"); len(events) != 1 || string(events[0].Data) != `"2"` {
			t.Fatalf("events: %+v", events)
		}
		if exists(t, h, "told by 1") || !exists(t, h, "told by 2") {
			t.Fatal("the message of the call that failed was delivered, or the other was not")
		}
	})
}

func TestHooksRunInOrderInTheTurnsThatTheyBelongTo(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	hook := func(name string) func(*bot, *actor.Context) error {
		return func(b *bot, ctx *actor.Context) error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, name)
			b.Log = append(b.Log, name)
			return nil
		}
	}
	spec := actor.Spec[bot]{OnCreate: hook("create"), OnWake: hook("wake"), OnSleep: hook("sleep"), OnDestroy: hook("destroy"), IdleTimeout: time.Minute}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		time.Sleep(2 * time.Minute)
		if st := h.Status("bot", "a"); st.State != host.Asleep {
			t.Fatalf("state %s after the idle time", st.State)
		}
		mustDo(t, h, "a", add(1))
		if got := look(t, h, "a"); got.N != 2 || !slices.Equal(got.Log, []string{"create", "wake", "sleep", "wake"}) {
			t.Fatalf("%+v", got)
		}
		if err := bots.Ref(h, "a").Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"create", "wake", "sleep", "wake", "destroy"}; !slices.Equal(calls, want) {
			t.Fatalf("hooks %v, want %v", calls, want)
		}
	})
}

func TestDestroyHookThatFailsKeepsTheActor(t *testing.T) {
	spec := actor.Spec[bot]{OnDestroy: func(*bot, *actor.Context) error { return errRefused }}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		wantCode(t, bots.Ref(h, "a").Destroy(t.Context()), actor.FailedPrecondition)
		if look(t, h, "a").N != 1 {
			t.Fatal("the state changed")
		}
	})
}

func TestStateIsRestoredAfterErrorAndPanic(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		before := h.Status("bot", "a").Version
		_, err := do(h, "a", func(b *bot, ctx *actor.Context) (string, error) { b.N = 100; return "", errRefused })
		wantCode(t, err, actor.FailedPrecondition)
		if got := mustDo(t, h, "a", add(0)); got != "1" {
			t.Fatal(got)
		}
		_, err = do(h, "a", func(b *bot, ctx *actor.Context) (string, error) { b.N = 100; panic("boom") })
		if e := wantCode(t, err, actor.Crashed); e.Retryable || e.Metadata["error_id"] == "" || strings.Contains(e.Message, "boom") {
			t.Fatalf("%+v", e)
		}
		if got := mustDo(t, h, "a", add(0)); got != "1" {
			t.Fatal(got)
		}
		if v := h.Status("bot", "a").Version; v != before {
			t.Fatalf("version %d, want %d: failed turns and turns that change nothing have none", v, before)
		}
	})
}

func TestTurnsThatShareACommitFailAlone(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(0)) // so that the method is known to be quick
		busy, release := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			do(h, "a", func(*bot, *actor.Context) (string, error) { close(busy); <-release; return "", nil })
		})
		<-busy
		got := make([]string, 20)
		errs := make([]error, 20)
		for i := range got {
			synctest.Wait()
			wg.Go(func() {
				got[i], errs[i] = do(h, "a", func(b *bot, ctx *actor.Context) (string, error) {
					b.N++
					if i == 3 || i == 19 {
						said.Emit(ctx, "failed")
						return "", errRefused
					}
					if i == 7 {
						panic("boom")
					}
					said.Emit(ctx, "ok")
					return add(0)(b, ctx)
				})
			})
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		for i, err := range errs {
			switch i {
			case 3, 19:
				wantCode(t, err, actor.FailedPrecondition)
			case 7:
				wantCode(t, err, actor.Crashed)
			default:
				if err != nil {
					t.Fatalf("turn %d: %v", i, err)
				}
			}
		}
		h.Crash()
		if n := look(t, h, "a").N; n != 17 {
			t.Fatalf("%d turns are kept, want 17", n)
		}
		events := h.Events("bot", "a")
		if len(events) != 17 {
			t.Fatalf("%d events", len(events))
		}
		for i, e := range events {
			if e.Sequence != uint64(i+1) || i > 0 && e.Version <= events[i-1].Version {
				t.Fatalf("event %d: %+v", i, e)
			}
		}
	})
}

func TestDeadlineAndTraceReachTheCallee(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		want, _ := ctx.Deadline()
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		inner := named(action(func(b *bot, ctx *actor.Context) (string, error) {
			d, ok := ctx.Deadline()
			if !ok || !d.Equal(want) {
				t.Errorf("deadline of the callee %v, want %v", d, want)
			}
			<-ctx.Done()
			return "", ctx.Err() // its reply may be as early as the end of its caller's wait
		}))
		name := named(action(func(b *bot, ctx *actor.Context) (string, error) {
			out, err := run.Call(ctx, bots.Ref(ctx, "b"), inner)
			if err == nil {
				t.Error("the inner call outlived its caller")
			}
			return out, err
		}))
		within(t, 3*time.Second, func() {
			_, err := run.Call(ctx, bots.Ref(h, "a"), name, actor.Traceparent(trace))
			wantCode(t, err, actor.DeadlineExceeded)
		})
		outer := named(action(func(b *bot, ctx *actor.Context) (string, error) {
			return run.Call(ctx, bots.Ref(ctx, "c"), named(action(func(b *bot, ctx *actor.Context) (string, error) { return ctx.Traceparent(), nil })))
		}))
		got, err := run.Call(t.Context(), bots.Ref(h, "a"), outer, actor.Traceparent(trace))
		if err != nil || got != trace {
			t.Fatal(got, err)
		}
	})
}

func TestCallerWhoGivesUpIsAnsweredAtOnceAndTheTurnSeesIt(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan error, 1)
		go func() { time.Sleep(time.Second); cancel() }()
		within(t, time.Second, func() {
			_, err := run.Call(ctx, bots.Ref(h, "a"), named(action(func(b *bot, ctx *actor.Context) (string, error) {
				<-ctx.Done()
				seen <- ctx.Err()
				return "", ctx.Err()
			})))
			wantCode(t, err, actor.Canceled)
		})
		if err := <-seen; err != context.Canceled {
			t.Fatal(err)
		}
	})
}

func TestFullMailboxAnswersOverloadedAtOnce(t *testing.T) {
	for name, limits := range map[string]actor.Limits{"count": {MailboxCount: 3}, "bytes": {MailboxBytes: 300}} {
		t.Run(name, func(t *testing.T) {
			with(t, actor.Spec[bot]{Limits: limits}, func(t *testing.T, h *actortest.Harness) {
				release := make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() { do(h, "a", func(*bot, *actor.Context) (string, error) { <-release; return "", nil }) })
				synctest.Wait()
				accepted := 0
				for range 10 {
					done := make(chan error, 1)
					wg.Go(func() { _, err := do(h, "a", add(1)); done <- err })
					synctest.Wait()
					select {
					case err := <-done:
						if e := wantCode(t, err, actor.Overloaded); !e.Retryable {
							t.Fatal("not retryable although nothing was done")
						}
					default:
						accepted++
					}
				}
				if accepted < 3 || accepted > 4 {
					t.Fatalf("%d calls were accepted", accepted)
				}
				mustDo(t, h, "other", add(1)) // its neighbours do not suffer
				close(release)
				wg.Wait()
				if n := look(t, h, "a").N; n != accepted {
					t.Fatalf("%d turns ran, %d were accepted", n, accepted)
				}
			})
		})
	}
}

func TestStuckHandlerIsAbandonedAndNamed(t *testing.T) {
	spec := actor.Spec[bot]{Limits: actor.Limits{TurnTimeout: time.Second}}
	withOptions(t, spec, func(o *runtime.Options) { o.TurnGrace = time.Second }, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		release := make(chan struct{})
		late := make(chan error, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := do(h, "a", func(b *bot, ctx *actor.Context) (string, error) {
				b.N = 100
				<-release
				late <- things.Put(ctx, "late", "x")
				return "", nil
			})
			if e := wantCode(t, err, actor.DeadlineExceeded); !strings.Contains(e.Metadata["handler"], "run") {
				t.Errorf("the handler is not named: %+v", e)
			}
		})
		synctest.Wait()
		for range 5 { // they wait behind the stuck turn, some of them in the batch that its goroutine took
			wg.Go(func() { mustDo(t, h, "a", add(1)) })
		}
		within(t, 4*time.Second, wg.Wait)
		if got := look(t, h, "a").N; got != 6 {
			t.Fatalf("N is %d, want 6", got)
		}
		close(release)
		if err := <-late; err == nil {
			t.Fatal("the abandoned turn could still write")
		}
		synctest.Wait()
		mustDo(t, h, "a", add(1))
		h.Crash()
		if got := look(t, h, "a"); got.N != 7 {
			t.Fatalf("N is %d, want 7", got.N)
		}
	})
}

// hangOnce blocks its first caller.
func hangOnce(hung *atomic.Bool, release chan struct{}) {
	if hung.CompareAndSwap(false, true) {
		<-release
	}
}

func TestStuckHookOrMessageDoesNotStopTheWatchdog(t *testing.T) {
	var release chan struct{} // made inside the bubble
	var stuck atomic.Bool
	spec := actor.Spec[bot]{
		Limits: actor.Limits{TurnTimeout: time.Second},
		OnCreate: func(b *bot, ctx *actor.Context) error {
			if ctx.Key()[0] == "slow" {
				hangOnce(&stuck, release)
			}
			return nil
		},
	}
	withOptions(t, spec, func(o *runtime.Options) { o.TurnGrace = time.Second }, func(t *testing.T, h *actortest.Harness) {
		release = make(chan struct{})
		defer close(release)
		_, err := do(h, "slow", add(1))
		wantCode(t, err, actor.DeadlineExceeded)
		if exists(t, h, "slow") {
			t.Fatal("the abandoned creation was kept")
		}
		mustDo(t, h, "slow", add(1))
		var once atomic.Bool
		hang := named(action(func(*bot, *actor.Context) (string, error) { hangOnce(&once, release); return "", nil }))
		mustDo(t, h, "sender", func(b *bot, ctx *actor.Context) (string, error) {
			deliver.Send(ctx, bots.Ref(ctx, "target"), note{From: "sender", N: 1, Run: hang})
			return "", deliver.Send(ctx, bots.Ref(ctx, "target"), note{From: "sender", N: 2})
		})
		time.Sleep(time.Minute)
		if got := look(t, h, "target").Notes["sender"]; !slices.Equal(got, []int{1, 2}) {
			t.Fatalf("messages handled: %v", got)
		}
		if st := h.Status("bot", "sender"); st.PendingSends+st.FailedSends != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestCloseDoesNotWaitForeverForAHandlerThatDoesNotReturn(t *testing.T) {
	disk := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		rt := disk.open(t, func(o *runtime.Options) { o.DrainTimeout, o.TurnGrace = time.Second, time.Second })
		var wg sync.WaitGroup
		wg.Go(func() {
			run.Call(context.Background(), bots.Ref(rt, "a"), named(action(func(*bot, *actor.Context) (string, error) { <-release; return "", nil })))
		})
		synctest.Wait()
		within(t, 3*time.Second, func() {
			if err := rt.Close(); err == nil || !strings.Contains(err.Error(), "run") {
				t.Fatalf("Close names no handler: %v", err)
			}
		})
		close(release)
		wg.Wait()
	})
}

func TestHandlerThatEndsItsGoroutineIsACrash(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		_, err := do(h, "a", func(b *bot, ctx *actor.Context) (string, error) { b.N = 9; goexit(); return "", nil })
		wantCode(t, err, actor.Crashed)
		if got := mustDo(t, h, "a", add(1)); got != "2" {
			t.Fatal(got)
		}
	})
}

func TestQueryThatEndsItsGoroutineIsACrashAndItsCallerGoesOn(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		answer := make(chan error, 1)
		go func() {
			defer close(answer) // also if the query ends this goroutine
			_, err := ask.Call(t.Context(), bots.Ref(h, "a"),
				named(query(func(bot, *actor.ReadContext) (string, error) { goexit(); return "", nil })))
			answer <- err
		}()
		err, ok := <-answer
		if !ok {
			t.Fatal("the query ended the goroutine of its caller")
		}
		wantCode(t, err, actor.Crashed)
		if look(t, h, "a").N != 1 {
			t.Error("the next query does not see the state")
		}
	})
}
