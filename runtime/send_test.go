package runtime_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// send makes an action that sends numbers to a bot, in one turn.
func send(from, to string, numbers ...int) action {
	return func(b *bot, ctx *actor.Context) (string, error) {
		for _, n := range numbers {
			deliver.Send(ctx, bots.Ref(ctx, to), note{From: from, N: n})
		}
		return "", nil
	}
}

func TestMessagesArriveInOrderForEachPair(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		for i := range 20 {
			mustDo(t, h, "a", send("a", "x", 10*i, 10*i+1))
			mustDo(t, h, "b", send("b", "x", i))
			mustDo(t, h, "a", send("a", "y", i))
		}
		h.Settle()
		x, y := look(t, h, "x").Notes, look(t, h, "y").Notes
		if len(x["a"]) != 40 || !slices.IsSorted(x["a"]) || len(x["b"]) != 20 || !slices.IsSorted(x["b"]) || len(y["a"]) != 20 || !slices.IsSorted(y["a"]) {
			t.Fatal(x, y)
		}
		if st := h.Status("bot", "a"); st.PendingSends != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestMessageThatKeepsFailingIsRetriedThenMovedAside(t *testing.T) {
	spec := actor.Spec[bot]{Limits: actor.Limits{SendAttempts: 4}}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		var tries atomic.Int64
		bad := named(action(func(*bot, *actor.Context) (string, error) { tries.Add(1); return "", errRefused }))
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
			deliver.Send(ctx, bots.Ref(ctx, "x"), note{From: "a", N: 1, Run: bad})
			return "", deliver.Send(ctx, bots.Ref(ctx, "x"), note{From: "a", N: 2})
		})
		h.Settle()
		if st := h.Status("bot", "a"); st.PendingSends != 2 || st.FailedSends != 0 {
			t.Fatalf("while it is tried: %+v", st)
		}
		time.Sleep(time.Minute)
		st := h.Status("bot", "a")
		if tries.Load() != 4 || st.PendingSends != 0 || st.FailedSends != 1 {
			t.Fatalf("%d tries; %+v", tries.Load(), st)
		}
		if got := look(t, h, "x").Notes["a"]; !slices.Equal(got, []int{2}) {
			t.Fatal(got)
		}
		h.Crash()
		time.Sleep(time.Minute)
		if st := h.Status("bot", "a"); st.FailedSends != 1 || tries.Load() != 4 {
			t.Fatalf("after a crash: %+v", st)
		}
	})
}

func TestMessagesThatWereGivenUpAreSentAgainByHand(t *testing.T) {
	spec := actor.Spec[bot]{Limits: actor.Limits{SendAttempts: 1}}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		var mended atomic.Bool
		run := named(action(func(*bot, *actor.Context) (string, error) {
			if mended.Load() {
				return "", nil
			}
			return "", errRefused
		}))
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
			for n := range 3 {
				deliver.Send(ctx, bots.Ref(ctx, "x"), note{From: "a", N: n, Run: run})
			}
			return "", nil
		})
		h.Settle()
		a, ctx := bots.Ref(h, "a"), t.Context()
		var ids []uint64
		for m, err := range a.DeadMessages().List(ctx) {
			if err != nil || m.Type != "bot" || !slices.Equal(m.Key, []string{"x"}) || m.Method != "deliver" || len(m.Input) == 0 {
				t.Fatalf("%+v, %v", m, err)
			}
			ids = append(ids, m.ID)
		}
		if len(ids) != 3 {
			t.Fatal(ids)
		}
		mended.Store(true)
		if n, err := a.DeadMessages().Delete(ctx, ids[0]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := a.DeadMessages().Requeue(ctx, ids[2]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := a.DeadMessages().RequeueAll(ctx); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		h.Settle()
		if got := look(t, h, "x").Notes["a"]; !slices.Equal(got, []int{2, 1}) {
			t.Fatal(got)
		}
		if n, err := a.DeadMessages().DeleteAll(ctx); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	})
}

func TestSettlementThatTheDiskRefusesIsRepeated(t *testing.T) {
	spec := actor.Spec[bot]{Limits: actor.Limits{SendAttempts: 6}}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		full := named(action(func(*bot, *actor.Context) (string, error) { return "", errRefused }))
		mustDo(t, h, "x", add(1))
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
			return "", deliver.Send(ctx, bots.Ref(ctx, "x"), note{From: "a", N: 1, Run: full})
		})
		h.Disk().SetFree(0) // before the last attempt, so that the message cannot be moved aside
		time.Sleep(time.Minute)
		if st := h.Status("bot", "a"); st.PendingSends != 1 || st.FailedSends != 0 {
			t.Fatalf("while the disk is full: %+v", st)
		}
		h.Disk().SetFree(1 << 40)
		time.Sleep(time.Minute)
		if st := h.Status("bot", "a"); st.PendingSends != 0 || st.FailedSends != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestLateMessageDoesNotReachTheSuccessorOfADestroyedActor(t *testing.T) {
	for name, waits := range map[string]bool{"made later": false, "made before the message is handled": true} {
		t.Run(name, func(t *testing.T) {
			with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
				mustDo(t, h, "x", add(1))
				old := h.Status("bot", "x").ID
				// The target's mailbox is held up while the message is on its way, and the destruction comes first.
				release := make(chan struct{})
				go do(h, "x", func(*bot, *actor.Context) (string, error) { <-release; return "", nil })
				synctest.Wait()
				go bots.Ref(h, "x").Destroy(t.Context())
				synctest.Wait()
				if waits {
					go do(h, "x", add(0))
					synctest.Wait()
				}
				mustDo(t, h, "a", send("a", "x", 1))
				synctest.Wait()
				close(release)
				synctest.Wait()
				time.Sleep(time.Minute)
				mustDo(t, h, "x", add(1))
				if st := h.Status("bot", "a"); st.PendingSends != 0 || st.FailedSends != 1 {
					t.Fatalf("%+v", st)
				}
				if got := look(t, h, "x"); len(got.Notes) != 0 || got.N != 1 {
					t.Fatalf("%+v", got)
				}
				if id := h.Status("bot", "x").ID; id == old {
					t.Fatal("the new actor has the id of the old one")
				}
				mustDo(t, h, "a", send("a", "x", 2)) // one that is sent now reaches the new actor
				h.Settle()
				if got := look(t, h, "x").Notes["a"]; !slices.Equal(got, []int{2}) {
					t.Fatal(got)
				}
			})
		})
	}
}

// rows returns the rows of an actor's space in the store, and those of its index.
func rows(t *testing.T, d *engine.Disk, id string) int {
	t.Helper()
	var actorID keyspace.ActorID
	if err := actorID.UnmarshalText([]byte(id)); err != nil {
		t.Fatal(err)
	}
	s, err := engine.Open(t.Context(), engine.Options{Dir: "data/store", Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	snap := s.Snapshot(actorID)
	defer snap.Close()
	page, err := snap.List(engine.ListQuery{})
	if err != nil {
		t.Fatal(err)
	}
	n := len(page.Entries)
	if head, err := snap.Head(); err != nil || head != (engine.Head{}) {
		t.Errorf("a head is left: %+v %v", head, err)
	}
	if _, _, ok, err := s.Identity(actorID); ok || err != nil {
		t.Error("an identity is left", err)
	}
	wakes, err := s.Wakes(nil, 1<<50, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wakes {
		if w.ID == actorID {
			n++
		}
	}
	return n
}

func TestDestroyRemovesEveryKeyAndMessagesThatWaitAreStillDelivered(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash %v", crash), func(t *testing.T) {
			with(t, actor.Spec[bot]{Limits: actor.Limits{SendAttempts: 8}}, func(t *testing.T, h *actortest.Harness) {
				var open atomic.Bool
				gate := named(action(func(*bot, *actor.Context) (string, error) {
					if !open.Load() {
						return "", errRefused
					}
					return "", nil
				}))
				mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
					b.N = 1
					things.Put(ctx, "k", "v")
					said.Emit(ctx, "x")
					ring.After(ctx, time.Hour, "x")
					ring.Named("other").After(ctx, 2*time.Hour, "x")
					for i := range 3 {
						deliver.Send(ctx, bots.Ref(ctx, "x"), note{From: "a", N: i, Run: gate})
					}
					never := named(action(func(*bot, *actor.Context) (string, error) { return "", errRefused }))
					return "", deliver.Send(ctx, bots.Ref(ctx, "y"), note{From: "a", N: 1, Run: never})
				})
				id := h.Status("bot", "a").ID
				mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
					ctx.DestroySelf()
					return "", deliver.Send(ctx, bots.Ref(ctx, "x"), note{From: "a", N: 3})
				})
				if exists(t, h, "a") || len(h.Inspect("bot", "a")) != 0 {
					t.Fatal("the actor is still there")
				}
				mustDo(t, h, "a", add(1)) // a successor, while the messages wait
				if h.Status("bot", "a").ID == id {
					t.Fatal("the successor has the old id")
				}
				if crash {
					h.Crash()
				}
				open.Store(true)
				time.Sleep(3 * time.Minute)
				if got := look(t, h, "x").Notes["a"]; !slices.Equal(got, []int{0, 1, 2, 3}) {
					t.Fatalf("delivered %v", got)
				}
				if got := look(t, h, "a"); got.N != 1 || len(got.Log) != 0 {
					t.Fatalf("the successor was touched: %+v", got)
				}
				h.Settle()
				if n := rows(t, h.Disk().Crash(1, 0), id); n != 0 {
					t.Fatalf("%d rows of the destroyed actor are left", n)
				}
			})
		})
	}
}

func TestMessageToAMissingActorCreatesItOnce(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		var tries atomic.Int64
		flaky := named(action(func(*bot, *actor.Context) (string, error) {
			if tries.Add(1) < 3 {
				return "", errRefused
			}
			return "", nil
		}))
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
			return "", deliver.Send(ctx, bots.Ref(ctx, "x"), note{From: "a", N: 1, Run: flaky})
		})
		h.Settle()
		if exists(t, h, "x") {
			t.Fatal("a message that failed made its target")
		}
		// Another caller creates the target meanwhile: the message must reach that one, once.
		mustDo(t, h, "x", add(1))
		time.Sleep(time.Minute)
		if got := look(t, h, "x"); got.N != 1 || !slices.Equal(got.Notes["a"], []int{1}) {
			t.Fatalf("%+v", got)
		}
	})
}
