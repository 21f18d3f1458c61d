package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

var said = host.ConnectRequest{Events: []string{"said"}}

func TestAConnectionBringsItsEventsAndCalls(t *testing.T) {
	onStage(t, client.Options{Token: "secret"}, func(t *testing.T, s *stage, c *client.Client) {
		ctx := t.Context()
		s.emit(2)
		cn := s.connect(c, host.ConnectRequest{Params: []byte(`{"name":"<Ada>"}`), Events: []string{"said"}, Existing: true})
		w := cn.Welcome()
		errorIf(t, w.Connection == "" || w.Cursor != 2 || w.Resumed || !slices.Equal(w.Events, []string{"said"}), "%+v", w)
		const want = `connect room/a websocket params={"name":"<Ada>"} events=["said"] token="" after=- existing=true trace=""`
		errorIf(t, s.asked("connect")[0] != want, "%q", s.asked("connect"))
		s.emit(1)
		s.expect(cn, 3, 3)
		reply, err := call(cn, ctx, "echo", `{"text":"<&>"}`, "")
		errorIf(t, err != nil || string(reply.Output) != `{"text":"<&>"}` || reply.Version == 0 || reply.Replayed,
			"%s %+v %v", reply.Output, reply, err)
		must(t, cn.Unsubscribe(ctx, "said"))
		s.emit(1)
		must(t, cn.Subscribe(ctx, "said", "left"))
		s.emit(1)
		s.expect(cn, 5, 5)

		// Calls in CBOR go over HTTP, on behalf of the connection.
		reply, err = cn.Call(ctx, &host.Request{Method: "echo", Codec: host.CBOR, Input: []byte("\x01")})
		q := s.node.Requests()
		errorIf(t, err != nil || string(reply.Output) != "\x01" || q[len(q)-1].Connection != w.Token, "%q %v", reply.Output, err)

		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				reply, err := call(cn, ctx, "echo", fmt.Sprint(i), "")
				errorIf(t, err != nil || string(reply.Output) != fmt.Sprint(i), "%s %v, want %d", reply.Output, err, i)
			})
		}
		wg.Wait()
		for range 2 {
			must(t, cn.Close(ctx, false))
			ended := s.asked("disconnect")
			errorIf(t, !slices.Equal(ended, []string{"disconnect room/a " + w.Token}), "%q", ended)
		}
		wantCode(t, errOf(cn.Next(ctx)), host.Canceled)
		wantCode(t, errOf(call(cn, ctx, "echo", "1", "")), host.Canceled)
	})
}

func TestAConnectionSurvivesItsSockets(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, said)
		w := cn.Welcome()
		for last := uint64(0); last < 60; last += 3 {
			s.emit(2)
			s.cut()
			s.emit(1)
			s.expect(cn, last+1, last+3)
		}
		for _, line := range s.asked("connect")[1:] {
			errorIf(t, !strings.Contains(line, w.Token) || strings.Contains(line, "after=-"), "%s", line)
		}
		again := cn.Welcome()
		errorIf(t, !again.Resumed || again.Connection != w.Connection, "%+v", again)
	})
}

func TestAConnectionThatIsGoneIsMadeAnew(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{Params: []byte(`{"a":1}`)})
		was := cn.Welcome()
		must(t, errors.Join(cn.Subscribe(t.Context(), "said", "left"), cn.Unsubscribe(t.Context(), "left")))
		s.emit(1)
		s.expect(cn, 1, 1)
		s.stop()
		s.emit(1)
		time.Sleep(time.Hour) // longer than the grace of a connection
		s.start()
		time.Sleep(10 * time.Second) // enough to find that the node is back
		lines := s.asked("connect")
		want := `params={"a":1} events=["said"] token="` + was.Token + `" after=1@`
		fatalIf(t, !strings.Contains(lines[len(lines)-1], want), "%q", lines)
		s.expect(cn, 2, 2)
		w := cn.Welcome()
		errorIf(t, w.Resumed || w.Connection == was.Connection, "%+v", w)
		s.cut()
		s.emit(1)
		s.expect(cn, 3, 3)
		lines = s.asked("connect")
		errorIf(t, !strings.Contains(lines[len(lines)-1], w.Token), "%q", lines)
	})
}

func TestAConnectionTellsWhatItMissedAndBeginsAnewWithASuccessor(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.restart(4)
		cn := s.connect(c, said)
		s.emit(1)
		s.expect(cn, 1, 1)
		s.away(func() { s.emit(8) })
		missed := s.expect(cn, 6, 9)
		errorIf(t, missed != 4, "%d missed", missed)
		s.away(func() {
			s.reborn()
			s.emit(1)
		})
		s.expect(cn, 1, 1)
	})
}

// emitLarge emits 100 events, which are more than 4 MiB.
func (s *stage) emitLarge() {
	for range 100 {
		s.emit(1)
		synctest.Wait()
	}
}

func TestAReaderThatStandsStillBlocksNoCallAndMissesNothing(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.pad = `,"pad":"` + strings.Repeat("x", 60_000) + `"`
		cn := s.connect(c, said)
		s.emitLarge()
		must(t, errOf(call(cn, t.Context(), "echo", "1", "")))
		time.Sleep(time.Minute)
		s.expect(cn, 1, 100)
		errorIf(t, len(s.asked("connect")) < 2, "everything was held")
	})
}

func TestAReaderThatIsBehindDoesNotCostCallsThatCannotBeRepeated(t *testing.T) {
	onStage(t, client.Options{Attempts: 1}, func(t *testing.T, s *stage, c *client.Client) {
		s.pad = `,"pad":"` + strings.Repeat("x", 60_000) + `"`
		cn := s.connect(c, said)
		release := s.holding(`"long"`)
		answered := make(chan error)
		go func() { answered <- errOf(call(cn, t.Context(), "echo", `"long"`, "")) }()
		s.emitLarge()
		got := uint64(0)
		for { // all held events
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			d, err := cn.Next(ctx)
			cancel()
			if err != nil {
				break
			}
			got += uint64(len(d.Events))
		}
		release()
		must(t, <-answered)
		errorIf(t, got == 100, "everything was held")
		s.expect(cn, got+1, 100)
	})
}

func TestAConnectionIsLeftTakenUpAndEnded(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, said)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, errOf(cn.Next(ctx)), host.DeadlineExceeded)
		s.emit(1)
		s.expect(cn, 1, 1)
		waiting := make(chan error)
		go func() { waiting <- errOf(cn.Next(t.Context())) }()
		s.holding(`"held"`)
		go func() { waiting <- errOf(call(cn, t.Context(), "echo", `"held"`, "")) }()
		synctest.Wait()
		must(t, hangUp(cn))
		for range 2 {
			code := host.CodeOf(<-waiting)
			errorIf(t, code != host.Canceled && code != host.Unavailable, "what waits ends with %s", code)
		}
		ended := s.asked("disconnect")
		errorIf(t, len(ended) != 0, "a lost connection was ended: %q", ended)

		token := cn.Welcome().Token // another program continues with it
		s.emit(3)
		again := s.connect(c, host.ConnectRequest{Token: token, After: 2, HasAfter: true})
		w := again.Welcome()
		errorIf(t, !w.Resumed || w.Connection != cn.Welcome().Connection, "%+v", w)
		s.expect(again, 3, 4)
		s.away(func() {
			wantCode(t, again.Close(t.Context(), false), host.Unavailable)
			wantCode(t, errOf(again.Next(t.Context())), host.Canceled)
		})
		must(t, c.Disconnect(t.Context(), room, token))
		wantCode(t, c.Disconnect(t.Context(), room, token), host.Unauthenticated)
		s.stop()
		wantCode(t, errOf(c.Connect(t.Context(), room, host.ConnectRequest{})), host.Unavailable)
	})
}

func TestConnectingDistinguishesRefusalsFromOutages(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int // 0: the connection is lost at once
		body   string
		again  bool
		code   host.Code
	}{
		{"a proxy without a node", 503, "<html>", true, host.Unavailable},
		{"a broken proxy", 500, "<html>", true, host.Internal},
		{"a node that shuts down", 503, `{"code":"unavailable","message":"shutting down","retryable":true}`, true, host.Unavailable},
		{"a paused actor", 503, `{"code":"actor_paused","message":"paused"}`, true, host.ActorPaused},
		{"too many", 429, `{"code":"overloaded","message":"full","retryable":true}`, true, host.Overloaded},
		{"no token", 401, `{"code":"unauthenticated","message":"who?"}`, false, host.Unauthenticated},
		{"no such type", 404, `{"code":"unknown_type","message":"none"}`, false, host.UnknownType},
		{"no such page", 404, "<html>", false, host.Internal},
		{"something else", 200, "hello", false, host.Internal},
		{"lost at once", 0, "", true, host.Unavailable},
	} {
		for _, times := range []int{1, 1000} {
			t.Run(fmt.Sprint(tc.name, ", times ", times), func(t *testing.T) {
				once := tc.again && times == 1
				answer := func(try int, w http.ResponseWriter, _ *http.Request) bool {
					if try > times {
						return false
					}
					if tc.status == 0 {
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(tc.status)
					fmt.Fprint(w, tc.body)
					return true
				}
				onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
					s.onUpgrade(answer)
					tries := map[bool]int{false: 1, true: client.DefaultAttempts}[tc.again]
					if once {
						s.connect(c, host.ConnectRequest{})
						tries = 2
					} else {
						wantCode(t, errOf(c.Connect(t.Context(), room, host.ConnectRequest{})), tc.code)
					}
					errorIf(t, s.tries != tries, "%d tries, want %d", s.tries, tries)
				})
				// The same while it reconnects: it waits during an outage, and a refusal ends it.
				onStage(t, client.Options{MaxOutage: time.Minute}, func(t *testing.T, s *stage, c *client.Client) {
					cn := s.connect(c, said)
					s.onUpgrade(answer)
					s.cut()
					s.emit(1)
					if once {
						s.expect(cn, 1, 1)
						return
					}
					start := time.Now()
					wantCode(t, errOf(cn.Next(t.Context())), tc.code)
					took := time.Since(start)
					errorIf(t, tc.again != (took >= time.Minute) || !tc.again && took > time.Second ||
						took > 90*time.Second, "after %v", took)
				})
			})
		}
	}
}

func TestAByeEndsAConnectionOrAsksToComeBack(t *testing.T) {
	for name, tc := range map[string]struct {
		bye    *host.Error
		status websocket.StatusCode
		code   host.Code // "" if it comes back
	}{
		"shutting down":                 {host.Errorf(host.Unavailable, "shutting down").Retry(), websocket.StatusGoingAway, ""},
		"shutting down without a word":  {nil, websocket.StatusGoingAway, ""},
		"too slow":                      {host.Errorf(host.Overloaded, "too slow"), websocket.StatusTryAgainLater, ""},
		"a fault of the node":           {nil, websocket.StatusInternalError, ""},
		"a message that was too big":    {nil, websocket.StatusMessageTooBig, ""}, // the limit is not known
		"a status that nobody invented": {nil, 4711, ""},
		"the actor closed it": {host.Errorf(host.FailedPrecondition, "kicked"), websocket.StatusNormalClosure,
			host.FailedPrecondition},
		"the actor is gone": {host.Errorf(host.Destroyed, "gone"), websocket.StatusNormalClosure, host.Destroyed},
		"another client took it": {host.Errorf(host.Unavailable, "taken over").With("reason", "taken_over").Retry(),
			websocket.StatusGoingAway, host.Unavailable},
		"policy":                {host.Errorf(host.PermissionDenied, "no"), websocket.StatusPolicyViolation, host.PermissionDenied},
		"policy without a word": {nil, websocket.StatusPolicyViolation, host.PermissionDenied},
		"ended without a word":  {nil, websocket.StatusNormalClosure, host.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
				s.emit(2)
				s.instead(1, func(_ int, p peer) {
					event := `{"event":"said","sequence":1,"version":1,"time":"2026-11-21T12:00:00Z","data":{"n":1}}`
					p.says(welcome, event, event) // is delivered once
					if tc.bye != nil {
						p.bye(tc.bye)
					}
					p.Close(tc.status, "because")
				})
				cn := s.connect(c, said)
				s.expect(cn, 1, 1)
				if tc.code == "" {
					s.expect(cn, 2, 2)
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for range 2 {
					wantCode(t, errOf(cn.Next(ctx)), tc.code)
				}
				wantCode(t, errOf(call(cn, ctx, "echo", "1", "")), tc.code)
			})
		})
	}
}

func (p peer) bye(e *host.Error) {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	p.says(`{"bye":` + string(text) + `}`)
}

func TestARefusalInTheFirstMessage(t *testing.T) {
	for _, tc := range []struct {
		frame  string
		status websocket.StatusCode
		code   host.Code // "" if the node is asked until it welcomes
	}{
		{`{"bye":{"code":"permission_denied","message":"not you"}}`, websocket.StatusPolicyViolation, host.PermissionDenied},
		{`{"bye":{"code":"actor_paused","message":"for an hour","retryable":true}}`, websocket.StatusTryAgainLater, ""},
		{`{"bye":{"code":"too_large","message":"parameters"}}`, websocket.StatusMessageTooBig, host.TooLarge},
		{"", 0, host.Internal}, {"{}", 0, host.Internal}, {`{"welcome":`, 0, host.Internal}, {`[]`, 0, host.Internal},
	} {
		onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
			s.instead(3, func(_ int, p peer) {
				p.says(tc.frame)
				if tc.status != 0 {
					p.Close(tc.status, "")
				}
			})
			want := 1
			if tc.code == "" {
				s.connect(c, host.ConnectRequest{})
				want = 4
			} else {
				wantCode(t, errOf(c.Connect(t.Context(), room, host.ConnectRequest{})), tc.code, tc.frame)
			}
			errorIf(t, s.tries != want, "%s: %d tries", tc.frame, s.tries)
		})
	}
}

func TestGarbageIsALossOfTheSocket(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.instead(3, func(try int, p peer) {
			p.says(welcome)
			p.reads()
			// The client skips messages of a newer node.
			p.says(`{"news":{"of":"later"}}`, []string{"\x00", `{"id":"x"}`, `{"time":7}`}[try-1])
			p.reads()
		})
		cn := s.connect(c, said)
		must(t, errOf(call(cn, t.Context(), "echo", "1", "")))
		errorIf(t, s.tries != 4, "%d sockets", s.tries)
		s.emit(1)
		s.expect(cn, 1, 1)
	})
}

func TestALongMessageOfTheNodeEndsAConnection(t *testing.T) {
	onStage(t, client.Options{ReplyBytes: 100}, func(t *testing.T, s *stage, c *client.Client) {
		s.instead(1, func(_ int, p peer) {
			p.says(welcome, strings.Repeat("x", 101))
			p.reads()
		})
		err := errOf(s.connect(c, said).Next(t.Context()))
		e, ok := errors.AsType[*host.Error](err)
		errorIf(t, !ok || e.Code != host.TooLarge || e.Metadata["limit"] != "100" || e.Metadata["actual"] != "101", "%+v", err)
	})
}

func TestANodeThatFallsSilentIsNotWaitedForForEver(t *testing.T) {
	onStage(t, client.Options{StreamSilence: 30 * time.Second}, func(t *testing.T, s *stage, c *client.Client) {
		s.instead(2, func(try int, p peer) {
			if try == 1 {
				p.reads() // until the client gives up
				return
			}
			p.says(welcome)
			time.Sleep(time.Hour) // without reading, so without pongs
		})
		start := time.Now()
		cn := s.connect(c, said)
		took := time.Since(start)
		errorIf(t, took < 30*time.Second || took > 31*time.Second, "it connects after %v", took)
		s.emit(1)
		start = time.Now()
		s.expect(cn, 1, 1)
		took = time.Since(start)
		errorIf(t, took > 31*time.Second, "it connects again after %v", took)
		time.Sleep(time.Hour) // a quiet client stays
		errorIf(t, s.tries != 3, "%d sockets", s.tries)
		s.instead(1000, func(_ int, p peer) { p.reads() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, errOf(c.Connect(ctx, room, host.ConnectRequest{})), host.DeadlineExceeded)
	})
}
