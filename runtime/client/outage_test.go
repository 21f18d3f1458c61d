package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

func TestConnectingDistinguishesRefusalsFromOutages(t *testing.T) {
	answer := func(status int, body string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		again  bool
		code   host.Code
	}{
		{"a proxy without a node", answer(503, "<html>"), true, host.Unavailable},
		{"a broken proxy", answer(500, "<html>"), true, host.Internal},
		{"a node that shuts down", answer(503, `{"code":"unavailable","message":"shutting down","retryable":true}`), true, host.Unavailable},
		{"a paused actor", answer(503, `{"code":"actor_paused","message":"paused"}`), true, host.ActorPaused},
		{"too many", answer(429, `{"code":"overloaded","message":"full","retryable":true}`), true, host.Overloaded},
		{"no token", answer(401, `{"code":"unauthenticated","message":"who?"}`), false, host.Unauthenticated},
		{"not allowed", answer(403, `{"code":"permission_denied","message":"no"}`), false, host.PermissionDenied},
		{"no such type", answer(404, `{"code":"unknown_type","message":"none"}`), false, host.UnknownType},
		{"no such page", answer(404, "<html>"), false, host.Internal},
		{"something else", answer(200, "hello"), false, host.Internal},
		{"lost at once", func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }, true, host.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, times := range []int{1, 1000} {
				onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
					s.onUpgrade(func(try int, w http.ResponseWriter, _ *http.Request) bool {
						if try <= times {
							tc.answer(w)
						}
						return try <= times
					})
					cn, err := c.Connect(t.Context(), room, host.ConnectRequest{})
					switch {
					case tc.again && times == 1:
						if err != nil || s.tries != 2 {
							t.Fatalf("%d tries, %v", s.tries, err)
						}
						hangUp(t, cn)
					case host.CodeOf(err) != tc.code:
						t.Errorf("%v", err)
					case tc.again && s.tries != client.DefaultAttempts, !tc.again && s.tries != 1:
						t.Errorf("%d tries", s.tries)
					}
				})
				// The same while it reconnects: an outage is waited for, a refusal ends it.
				onStage(t, client.Options{MaxOutage: time.Minute}, func(t *testing.T, s *stage, c *client.Client) {
					cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
					defer hangUp(t, cn)
					s.onUpgrade(func(try int, w http.ResponseWriter, _ *http.Request) bool {
						if try <= times {
							tc.answer(w)
						}
						return try <= times
					})
					s.cut()
					s.emit(1)
					start := time.Now()
					if tc.again && times == 1 {
						s.expect(cn, 1, 1)
						return
					}
					_, err := cn.Next(t.Context())
					if host.CodeOf(err) != tc.code {
						t.Error(err)
					}
					if took := time.Since(start); tc.again && (took < time.Minute || took > 90*time.Second) || !tc.again && took > time.Second {
						t.Errorf("after %v", took)
					}
				})
			}
		})
	}
}

// A peer is what answers a WebSocket instead of the gateway.
type peer struct {
	*websocket.Conn
	stop context.Context
}

// instead has f answer each of the next n WebSockets, after the connect message.
func (s *stage) instead(n int, f func(try int, p peer)) {
	s.onUpgrade(func(try int, w http.ResponseWriter, r *http.Request) bool {
		if try > n {
			return false
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"cairn.v1"}})
		if err != nil {
			s.t.Error(err)
			return true
		}
		defer ws.CloseNow()
		p := peer{ws, s.t.Context()}
		if p.reads() {
			f(try, p)
		}
		return true
	})
}

// reads waits for a message and reports whether one came.
func (p peer) reads() bool {
	_, _, err := p.Read(p.stop)
	return err == nil
}

func (p peer) says(frames ...string) {
	for _, f := range frames {
		p.Write(p.stop, websocket.MessageText, []byte(f))
	}
}

const welcome = `{"welcome":{"connection":"x","token":"t","cursor":0,"events":["said"]}}`

func TestAByeEndsAConnectionOrAsksToComeBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		bye    *host.Error
		status websocket.StatusCode
		code   host.Code // "" if it comes back
	}{
		{"shutting down", host.Errorf(host.Unavailable, "shutting down").Retry(), websocket.StatusGoingAway, ""},
		{"shutting down without a word", nil, websocket.StatusGoingAway, ""},
		{"too slow", host.Errorf(host.Overloaded, "too slow"), websocket.StatusTryAgainLater, ""},
		{"a fault of the node", nil, websocket.StatusInternalError, ""},
		{"the actor closed it", host.Errorf(host.FailedPrecondition, "kicked"), websocket.StatusNormalClosure, host.FailedPrecondition},
		{"the actor is gone", host.Errorf(host.Destroyed, "gone"), websocket.StatusNormalClosure, host.Destroyed},
		{"another client took it", host.Errorf(host.Unavailable, "taken over").With("reason", "taken_over").Retry(), websocket.StatusGoingAway, host.Unavailable},
		{"policy", host.Errorf(host.PermissionDenied, "no"), websocket.StatusPolicyViolation, host.PermissionDenied},
		{"policy without a word", nil, websocket.StatusPolicyViolation, host.PermissionDenied},
		{"ended without a word", nil, websocket.StatusNormalClosure, host.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
				s.emit(2)
				s.instead(1, func(_ int, p peer) {
					event := `{"event":"said","sequence":1,"version":1,"time":"2026-11-21T12:00:00Z","data":{"n":1}}`
					p.says(welcome, event, event) // is delivered once
					if bye, err := json.Marshal(tc.bye); err == nil && tc.bye != nil {
						p.says(`{"bye":` + string(bye) + `}`)
					}
					p.Close(tc.status, "because")
				})
				cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
				defer hangUp(t, cn)
				s.expect(cn, 1, 1)
				if tc.code == "" {
					s.expect(cn, 2, 2)
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for range 2 {
					if _, err := cn.Next(ctx); host.CodeOf(err) != tc.code {
						t.Error(err)
					}
				}
				if _, err := call(cn, t.Context(), "echo", "1", ""); host.CodeOf(err) != tc.code {
					t.Error(err)
				}
			})
		})
	}
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
		{"", 0, host.Internal}, {"hello", 0, host.Internal}, {"{}", 0, host.Internal}, {`{"welcome":`, 0, host.Internal}, {`[]`, 0, host.Internal},
	} {
		onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
			s.instead(3, func(_ int, p peer) {
				p.says(tc.frame)
				if tc.status != 0 {
					p.Close(tc.status, "")
				}
			})
			cn, err := c.Connect(t.Context(), room, host.ConnectRequest{})
			if err == nil {
				hangUp(t, cn)
			}
			if want := map[bool]int{true: 4, false: 1}[tc.code == ""]; host.CodeOf(err) != tc.code || s.tries != want {
				t.Errorf("%s: %v after %d tries", tc.frame, err, s.tries)
			}
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
		cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		if _, err := call(cn, t.Context(), "echo", "1", ""); err != nil || s.tries != 4 {
			t.Error(err, s.tries)
		}
		s.emit(1)
		s.expect(cn, 1, 1)
	})
}

func TestASocketThatFallsSilentIsReplaced(t *testing.T) {
	onStage(t, client.Options{StreamSilence: 30 * time.Second}, func(t *testing.T, s *stage, c *client.Client) {
		s.instead(1, func(_ int, p peer) {
			p.says(welcome)
			time.Sleep(time.Hour) // without reading, so without pongs
		})
		cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		s.emit(1)
		start := time.Now()
		s.expect(cn, 1, 1)
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("after %v", took)
		}
		// One that only has nothing to say stays.
		time.Sleep(time.Hour)
		if s.tries != 2 {
			t.Errorf("%d sockets", s.tries)
		}
	})
}

func TestANodeThatDoesNotAnswerIsNotWaitedForForEver(t *testing.T) {
	onStage(t, client.Options{StreamSilence: 10 * time.Second}, func(t *testing.T, s *stage, c *client.Client) {
		s.instead(1, func(_ int, p peer) { p.reads() }) // until the client gives up
		start := time.Now()
		cn := s.connect(c, host.ConnectRequest{})
		if took := time.Since(start); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("after %v", took)
		}
		hangUp(t, cn)
		s.instead(1000, func(_ int, p peer) { p.reads() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Connect(ctx, room, host.ConnectRequest{}); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
	})
}
