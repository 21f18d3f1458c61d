package client_test

import (
	"context"
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
				withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
					n.handshake = func(try int, w http.ResponseWriter) bool {
						if try <= times {
							tc.answer(w)
						}
						return try <= times
					}
					cn, err := c.Connect(t.Context(), room, host.ConnectRequest{})
					switch {
					case tc.again && times == 1:
						if err != nil || n.tries != 2 {
							t.Fatalf("%d tries, %v", n.tries, err)
						}
						hangUp(t, cn)
					case host.CodeOf(err) != tc.code:
						t.Errorf("%v", err)
					case tc.again && n.tries != client.DefaultAttempts, !tc.again && n.tries != 1:
						t.Errorf("%d tries", n.tries)
					}
				})
				// The same while it reconnects: an outage is waited for, a refusal ends it.
				withSocketNode(t, client.Options{MaxOutage: time.Minute}, func(t *testing.T, n *socketNode, c *client.Client) {
					cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
					defer hangUp(t, cn)
					n.mu.Lock()
					n.handshake = func(try int, w http.ResponseWriter) bool {
						if try <= 1+times {
							tc.answer(w)
						}
						return try <= 1+times
					}
					n.mu.Unlock()
					n.cut()
					n.emit("said")
					start := time.Now()
					if tc.again && times == 1 {
						n.expect(cn, 1)
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

func TestAByeEndsAConnectionOrAsksToComeBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		bye    bye
		resume bool
		code   host.Code
	}{
		{"shutting down", bye{host.Errorf(host.Unavailable, "shutting down").Retry(), websocket.StatusGoingAway}, true, ""},
		{"shutting down without a word", bye{nil, websocket.StatusGoingAway}, true, ""},
		{"too slow", bye{host.Errorf(host.Overloaded, "too slow"), websocket.StatusTryAgainLater}, true, ""},
		{"a fault of the node", bye{nil, websocket.StatusInternalError}, true, ""},
		{"the actor closed it", bye{host.Errorf(host.FailedPrecondition, "kicked"), websocket.StatusNormalClosure}, false, host.FailedPrecondition},
		{"the actor is gone", bye{host.Errorf(host.Destroyed, "gone"), websocket.StatusNormalClosure}, false, host.Destroyed},
		{"another client took it", bye{host.Errorf(host.Unavailable, "taken over").With("reason", "taken_over").Retry(), websocket.StatusGoingAway}, false, host.Unavailable},
		{"policy", bye{host.Errorf(host.PermissionDenied, "no"), websocket.StatusPolicyViolation}, false, host.PermissionDenied},
		{"policy without a word", bye{nil, websocket.StatusPolicyViolation}, false, host.PermissionDenied},
		{"ended without a word", bye{nil, websocket.StatusNormalClosure}, false, host.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
				cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
				defer hangUp(t, cn)
				n.emit("said")
				n.say(&tc.bye)
				time.Sleep(time.Second)
				n.mu.Lock()
				n.bye = nil
				n.mu.Unlock()
				n.emit("said")
				n.expect(cn, 1)
				if tc.resume {
					n.expect(cn, 2)
					return
				}
				for range 2 {
					if _, err := cn.Next(t.Context()); host.CodeOf(err) != tc.code {
						t.Error(err)
					}
				}
				if _, err := call(cn, t.Context(), "say", "1", ""); host.CodeOf(err) != tc.code {
					t.Error(err)
				}
			})
		})
	}
}

func TestARefusalInTheFirstMessage(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		n.onWelcome(func(try int, s *websocket.Conn) bool {
			write(t.Context(), s, `{"bye":{"code":"permission_denied","message":"not you"}}`)
			s.Close(websocket.StatusPolicyViolation, "")
			return true
		})
		if _, err := c.Connect(t.Context(), room, host.ConnectRequest{}); host.CodeOf(err) != host.PermissionDenied || n.tries != 1 {
			t.Error(err, n.tries)
		}
		n.onWelcome(func(try int, s *websocket.Conn) bool {
			if try < 4 {
				write(t.Context(), s, `{"bye":{"code":"actor_paused","message":"for an hour","retryable":true}}`)
				s.Close(websocket.StatusTryAgainLater, "")
			}
			return try < 4
		})
		hangUp(t, n.connect(c, host.ConnectRequest{}))
		if n.tries != 4 {
			t.Errorf("%d tries", n.tries)
		}
		n.tries = 0
		n.onWelcome(func(try int, s *websocket.Conn) bool {
			write(t.Context(), s, `{"bye":{"code":"too_large","message":"parameters"}}`)
			s.Close(websocket.StatusMessageTooBig, "")
			return true
		})
		if _, err := c.Connect(t.Context(), room, host.ConnectRequest{}); host.CodeOf(err) != host.TooLarge || n.tries != 1 {
			t.Error(err, n.tries)
		}
		for _, garbage := range []string{"", "hello", "{}", `{"welcome":`, `[]`} {
			n.onWelcome(func(try int, s *websocket.Conn) bool {
				write(t.Context(), s, garbage)
				return true
			})
			if _, err := c.Connect(t.Context(), room, host.ConnectRequest{}); host.CodeOf(err) != host.Internal {
				t.Errorf("%q: %v", garbage, err)
			}
		}
	})
}

func TestGarbageIsALossOfTheSocket(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		asked := 0
		n.onCall(func(m *frame) (string, bool) {
			asked++
			return []string{"\x00", `{"id":"x"}`, `{"time":7}`, ""}[asked-1], asked < 4
		})
		if _, err := call(cn, t.Context(), "say", "1", ""); err != nil || asked != 4 {
			t.Error(err, asked)
		}
		n.onCall(nil)
		n.emit("said")
		n.expect(cn, 1)
		// What a newer node may send is skipped.
		n.onCall(func(m *frame) (string, bool) { return `{"news":{"of":"later"}}`, m.Call == "odd" })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := call(cn, ctx, "odd", "1", ""); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
		if _, err := call(cn, t.Context(), "say", "1", ""); err != nil || len(n.hellos) != 4 {
			t.Error(err, len(n.hellos))
		}
	})
}

func TestASocketThatFallsSilentIsReplaced(t *testing.T) {
	withSocketNode(t, client.Options{StreamSilence: 30 * time.Second}, func(t *testing.T, n *socketNode, c *client.Client) {
		n.onWelcome(func(try int, s *websocket.Conn) bool {
			if try == 1 {
				write(t.Context(), s, `{"welcome":{"connection":"x","token":"t","cursor":0,"events":["said"]}}`)
				time.Sleep(time.Hour) // without reading, so without pongs
			}
			return try == 1
		})
		cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		n.emit("said")
		start := time.Now()
		n.expect(cn, 1)
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("after %v", took)
		}
		// One that only has nothing to say stays.
		time.Sleep(time.Hour)
		if len(n.hellos) != 1 {
			t.Errorf("%d sockets", len(n.hellos)+1)
		}
	})
}

func TestANodeThatDoesNotAnswerIsNotWaitedForForEver(t *testing.T) {
	withSocketNode(t, client.Options{StreamSilence: 10 * time.Second}, func(t *testing.T, n *socketNode, c *client.Client) {
		n.onWelcome(func(try int, s *websocket.Conn) bool {
			if try == 1 {
				s.Read(context.Background()) // until the client gives up
			}
			return try == 1
		})
		start := time.Now()
		cn := n.connect(c, host.ConnectRequest{})
		if took := time.Since(start); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("after %v", took)
		}
		hangUp(t, cn)
		n.onWelcome(func(try int, s *websocket.Conn) bool { s.Read(context.Background()); return true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Connect(ctx, room, host.ConnectRequest{}); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
	})
}
