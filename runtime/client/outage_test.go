package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

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
				// The same while it reconnects: an outage is waited for, a refusal ends it.
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
					errorIf(t, tc.again != (took >= time.Minute) || !tc.again && took > time.Second || took > 90*time.Second, "after %v", took)
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
		"the actor closed it":           {host.Errorf(host.FailedPrecondition, "kicked"), websocket.StatusNormalClosure, host.FailedPrecondition},
		"the actor is gone":             {host.Errorf(host.Destroyed, "gone"), websocket.StatusNormalClosure, host.Destroyed},
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
			// What a newer node may send is skipped.
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
