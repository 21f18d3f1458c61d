package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	gort "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
)

// TestTurnScripts of package node tests turns. The tests here need a context, a query or another
// program.

func TestDeadlineAndTraceReachTheCallee(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		want, _ := ctx.Deadline()
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		call := func(key string, f action) action {
			return func(_ *bot, ctx *actor.Context) (string, error) { return run.Call(ctx, bots.Ref(ctx, key), named(f)) }
		}
		within(t, 3*time.Second, func() {
			_, err := run.Call(ctx, bots.Ref(h, "a"), named(call("b", func(_ *bot, ctx *actor.Context) (string, error) {
				if d, ok := ctx.Deadline(); !ok || !d.Equal(want) {
					t.Errorf("deadline of the callee %v, want %v", d, want)
				}
				<-ctx.Done()
				return "", ctx.Err() // its reply may come as early as the end of its caller's wait
			})))
			wantCode(t, err, actor.DeadlineExceeded)
		})
		// A caller that gives up is answered at once, and the turn sees it.
		ctx, cancel = context.WithCancel(t.Context())
		seen := make(chan error, 1)
		go func() { time.Sleep(time.Second); cancel() }()
		within(t, time.Second, func() {
			_, err := run.Call(ctx, bots.Ref(h, "a"), named(action(func(_ *bot, ctx *actor.Context) (string, error) {
				<-ctx.Done()
				seen <- ctx.Err()
				return "", ctx.Err()
			})))
			wantCode(t, err, actor.Canceled)
		})
		err := <-seen
		errorIf(t, err != context.Canceled, "the turn sees %v", err)
		got, err := run.Call(t.Context(), bots.Ref(h, "a"), named(call("c", func(_ *bot, ctx *actor.Context) (string, error) {
			return ctx.Traceparent(), nil
		})), actor.Traceparent(trace))
		errorIf(t, err != nil || !strings.HasPrefix(got, trace[:36]), "%q, %v", got, err)
	})
}

func TestImpatientCallerDoesNotFailTheActorThatItWakes(t *testing.T) {
	spec := actor.Spec[bot]{OnWake: func(_ *bot, ctx *actor.Context) error {
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		h.Restart()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := run.Call(ctx, bots.Ref(h, "a"), named(add(1)))
		wantCode(t, err, actor.DeadlineExceeded)
		got := mustDo(t, h, "a", add(0))
		errorIf(t, got != "1", "%s", got)
	})
}

func TestQueryCannotWriteNorCallActionsAndMayCrash(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(1))
		for name, c := range map[string]struct {
			f    query
			want actor.Code
		}{
			"call": {func(_ bot, ctx *actor.ReadContext) (string, error) {
				return run.Call(ctx, bots.Ref(ctx, "b"), named(add(1)))
			}, actor.ReadOnly},
			"destroy": {func(_ bot, ctx *actor.ReadContext) (string, error) {
				return "", bots.Ref(h, "a").Destroy(ctx) // through the node, with the query's context
			}, actor.ReadOnly},
			"panic":  {func(bot, *actor.ReadContext) (string, error) { panic("boom") }, actor.Crashed},
			"goexit": {func(bot, *actor.ReadContext) (string, error) { gort.Goexit(); return "", nil }, actor.Crashed},
		} {
			answer := make(chan error, 1)
			go func() {
				defer close(answer) // even if the query ends this goroutine
				_, err := peek(h, "a", c.f)
				answer <- err
			}()
			if err, ok := <-answer; !ok || actor.CodeOf(err) != c.want {
				t.Errorf("%s: %v, answered: %t", name, err, ok)
			}
			errorIf(t, look(t, h, "a").N != 1, "%s: the next query does not see the state", name)
		}
	})
}

// The goroutines that run queries make small answers in their own buffer. The next answer must not
// change an earlier one.
func TestAnswersOfQueriesShareNoMemory(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		var answers [][]byte
		var want []string
		for i, n := range []int{1, 0, 3, 500, 507, 508, 509, 510, 511, 512, 513, 5000, 2} {
			text := strings.Repeat(string(rune('a'+i)), n)
			r := host.Request{Address: botA, Method: "ask"}
			reply, err := invoke(t, h, r, named(query(func(bot, *actor.ReadContext) (string, error) { return text, nil })), nil)
			must(t, err)
			_ = append(reply.Output, "what a caller appends"...)
			answers, want = append(answers, reply.Output), append(want, `"`+text+`"`)
		}
		for i, a := range answers {
			errorIf(t, string(a) != want[i], "answer %d is %q by now, want %q", i, a, want[i])
		}
	})
}

func TestOfTwoTurnsThatCallEachOtherExactlyOneFails(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		for range 20 {
			var ready, wg sync.WaitGroup
			ready.Add(2)
			var out [2]string
			meet := func(i int, key, other string) {
				wg.Go(func() {
					out[i] = mustDo(t, h, key, func(_ *bot, ctx *actor.Context) (string, error) {
						ready.Done()
						ready.Wait()
						out, err := run.Call(ctx, bots.Ref(ctx, other), named(add(1)))
						if actor.CodeOf(err) == actor.Cycle {
							return "cycle", nil
						}
						return out, err
					})
				})
			}
			within(t, 0, func() { meet(0, "a", "b"); meet(1, "b", "a"); wg.Wait() })
			fatalIf(t, (out[0] == "cycle") == (out[1] == "cycle"), "%q", out)
		}
	})
}

func TestQueryBackIntoAnActorThatWaitsIsNoCycle(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(41))
		mustDo(t, h, "a", func(b *bot, ctx *actor.Context) (string, error) {
			b.N = 100 // not committed, so the query does not see it
			return run.Call(ctx, bots.Ref(ctx, "b"), named(action(func(_ *bot, ctx *actor.Context) (string, error) {
				n := look(t, ctx, "a").N
				errorIf(t, n != 41, "the query saw %d", n)
				return "", nil
			})))
		})
	})
}

// A query of a sleeping or new actor needs a turn, to wake it.
func TestQueryThatWouldWaitForItsOwnCallerIsACycle(t *testing.T) {
	asking := func(key string, f query) query {
		return func(_ bot, ctx *actor.ReadContext) (string, error) {
			return ask.Call(ctx, bots.Ref(ctx, key), named(f))
		}
	}
	nothing := query(func(bot, *actor.ReadContext) (string, error) { return "", nil })
	spec := actor.Spec[bot]{OnWake: func(_ *bot, ctx *actor.Context) error {
		if ctx.Key()[0] == "calls-a" {
			_, err := run.Call(ctx, bots.Ref(ctx, "a"), named(add(1)))
			return err
		}
		return nil
	}}
	with(t, spec, func(t *testing.T, h *actortest.Harness) {
		// First a is new: its first turn asks b, whose query asks a. Then b's query wakes an actor
		// whose wake hook calls a.
		for _, key := range []string{"a", "calls-a"} {
			within(t, 0, func() {
				_, err := do(h, "a", func(_ *bot, ctx *actor.Context) (string, error) {
					return ask.Call(ctx, bots.Ref(ctx, "b"), named(asking(key, nothing)))
				})
				wantCode(t, err, actor.Cycle)
			})
			mustDo(t, h, "a", add(1))
			mustDo(t, h, "b", add(1))
		}
	})
}

// The reply of a to b is in a commit that is not made yet when a's next turn asks b, which is being
// created.
func TestReplyThatWaitsForTheDiskIsNoCycle(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		mustDo(t, h, "a", add(0)) // known to be quick, so that its turns share commits
		var wg sync.WaitGroup
		release := make(chan struct{})
		start := func(key string, f action) { wg.Go(func() { mustDo(t, h, key, f) }); synctest.Wait() }
		start("a", block(release))
		start("b", func(_ *bot, ctx *actor.Context) (string, error) {
			return run.Call(ctx, bots.Ref(ctx, "a"), named(add(1)))
		})
		start("a", func(_ *bot, ctx *actor.Context) (string, error) {
			return ask.Call(ctx, bots.Ref(ctx, "b"), named(reading))
		})
		within(t, 0, func() { close(release); wg.Wait() })
	})
}

func TestCloseDoesNotWaitForeverForAHandlerThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		rt := newNode().open(t, func(o *runtime.Options) { o.DrainTimeout, o.TurnGrace = time.Second, time.Second })
		var wg sync.WaitGroup
		wg.Go(func() { do(rt, "a", block(release)) })
		synctest.Wait()
		within(t, 3*time.Second, func() {
			err := rt.Close()
			fatalIf(t, err == nil || !strings.Contains(err.Error(), "run"), "Close names no handler: %v", err)
		})
		close(release)
		wg.Wait()
	})
}

func TestOverdueAlarmsFirePacedAfterARestart(t *testing.T) {
	var running, most atomic.Int64
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		text := named(action(func(b *bot, _ *actor.Context) (string, error) {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(100 * time.Millisecond)
			running.Add(-1)
			b.N++
			return "", nil
		}))
		for i := range 100 {
			mustDo(t, h, fmt.Sprint(i), func(_ *bot, ctx *actor.Context) (string, error) { return "", ring.After(ctx, time.Hour, text) })
		}
		h.Crash()
		time.Sleep(time.Hour + 10*time.Second)
		errorIf(t, most.Load() > 8, "%d alarms fired at once", most.Load())
		for i := range 100 {
			n := look(t, h, fmt.Sprint(i)).N
			errorIf(t, n != 1, "alarm %d fired %d times", i, n)
		}
	}, func(o *runtime.Options) { o.AlarmConcurrency = 8 })
}

// TestSessionScripts of package gateway tests the order of calls. Here a node runs many calls at
// once.

// A socket is a WebSocket to the bot a of a node.
type socket struct {
	t  *testing.T
	rt *runtime.Runtime
	ws *websocket.Conn
}

// A heard is a message from the node.
type heard struct {
	ID            int
	Output, Error json.RawMessage
	Traceresponse string
}

func openSocket(t *testing.T) *socket {
	t.Helper()
	rt := openDir(t, t.TempDir(), botDefinition(actor.Spec[bot]{}))
	t.Cleanup(func() { rt.Close() })
	s := httptest.NewServer(rt.Handler())
	t.Cleanup(s.Close)
	ws, _, err := websocket.Dial(t.Context(), s.URL+"/actors/bot/a/-/connect", &websocket.DialOptions{Subprotocols: []string{"cairn.v1"}})
	must(t, err)
	t.Cleanup(func() { ws.CloseNow() })
	ws.SetReadLimit(-1)
	c := &socket{t, rt, ws}
	c.say(`{"connect":{}}`)
	c.hear()
	return c
}

func (s *socket) say(format string, args ...any) {
	err := s.ws.Write(s.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...))
	errorIf(s.t, err != nil, "%v", err)
}

func (s *socket) hear() (m heard) {
	s.t.Helper()
	_, b, err := s.ws.Read(s.t.Context())
	must(s.t, err)
	must(s.t, json.Unmarshal(b, &m))
	return m
}

func TestCallsOverOneWebSocketRunInTheOrderInWhichTheyWereSent(t *testing.T) {
	t.Parallel()
	const requests, each = 300, 4 // each fourth is a query
	s := openSocket(t)
	length := named(query(func(b bot, _ *actor.ReadContext) (string, error) { return fmt.Sprint(len(b.Notes["w"])), nil }))
	places := make(chan struct{}, 64) // bounds the requests in flight
	go func() {
		for id := 1; id <= requests; id++ {
			places <- struct{}{}
			if id%each == 0 {
				s.say(`{"id":%d,"call":"ask","input":%q}`, id, length)
			} else {
				s.say(`{"id":%d,"call":"deliver","input":{"From":"w","N":%d}}`, id, id)
			}
		}
	}()
	for range requests {
		m := s.hear()
		<-places
		want := fmt.Sprintf("%q", fmt.Sprint(m.ID-m.ID/each))
		fatalIf(t, m.Error != nil || m.ID%each == 0 && string(m.Output) != want, "query %d sees %s calls, %s; %s were sent before it",
			m.ID, m.Output, m.Error, want)
	}
	got := look(t, s.rt, "a").Notes["w"]
	errorIf(t, len(got) != requests-requests/each || !slices.IsSorted(got), "%d calls ran, in the order %v", len(got), got)
}

func TestAnswersOverAWebSocketNameTheirTrace(t *testing.T) {
	t.Parallel()
	s := openSocket(t)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, what := range []string{`"call":"deliver","input":{"From":"w","N":1}`, `"call":"nothing"`} {
		for flag, from := range map[string]string{
			"-01": `,"traceparent":"00-` + trace + `-b7ad6b7169203331-01"`, "-00": `,"traceparent":"00-` + trace + `-b7ad6b7169203331-00"`,
		} {
			s.say(`{"id":1,%s%s}`, what, from)
			got := s.hear().Traceresponse
			errorIf(t, len(got) != 55 || !strings.HasPrefix(got, "00-"+trace) ||
				strings.Contains(got, "b7ad6b7169203331") || !strings.HasSuffix(got, flag),
				"%s%s: %q", what, from, got)
		}
		s.say(`{"id":1,%s}`, what)
		got := s.hear().Traceresponse
		errorIf(t, len(got) != 55 || !strings.HasSuffix(got, "-01"), "%s: %q", what, got)
	}
}
