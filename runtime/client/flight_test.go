package client_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

func TestCallsInFlightAreRepeatedOnlyIfThatIsSafe(t *testing.T) {
	for _, tc := range []struct {
		name, method, key string
		attempts          int
		runs              int
		code              host.Code
	}{
		{name: "a key of the client's making", method: "pay", runs: 1},
		{name: "the caller's key", method: "pay", key: "order-7", runs: 1},
		{name: "a query of every actor", method: host.QueueStatsMethod, runs: 2},
		{name: "sent once only", method: "pay", attempts: 1, runs: 1, code: host.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withSocketNode(t, client.Options{Attempts: tc.attempts}, func(t *testing.T, n *socketNode, c *client.Client) {
				cn := n.connect(c, host.ConnectRequest{})
				defer hangUp(t, cn)
				keys := make(map[string]bool)
				lost := false
				n.onCall(func(m *frame) (string, bool) {
					keys[m.IdempotencyKey] = true
					if !lost {
						// It is done, and the answer is lost.
						lost = true
						n.done[m.Call]++
						if m.IdempotencyKey != "" {
							n.replies[m.IdempotencyKey] = `"version":7,"output":1`
						}
						n.cutLocked()
						return "", true
					}
					return "", false
				})
				reply, err := call(cn, t.Context(), tc.method, "1", tc.key)
				var e *host.Error
				if errors.As(err, &e); host.CodeOf(err) != tc.code || e != nil && (e.Retryable || !strings.Contains(e.Message, "unknown")) {
					t.Errorf("%+v", err)
				}
				if err == nil && tc.runs == 1 && !reply.Replayed {
					t.Errorf("%+v", reply)
				}
				synctest.Wait()
				if n.done[tc.method] != tc.runs || len(keys) != 1 || tc.key != "" && !keys[tc.key] {
					t.Errorf("it ran %d times, with the keys %v", n.done[tc.method], keys)
				}
			})
		})
	}
}

func TestARequestThatBreaksEverySocketIsGivenUp(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		sent := 0
		n.onCall(func(m *frame) (string, bool) {
			if m.Call != "poison" {
				return "", false
			}
			sent++
			n.cutLocked()
			return "", true
		})
		if _, err := call(cn, t.Context(), "poison", "1", ""); host.CodeOf(err) != host.Unavailable || sent != client.DefaultAttempts {
			t.Errorf("%v after %d", err, sent)
		}
		if _, err := call(cn, t.Context(), "say", "1", ""); err != nil {
			t.Error(err)
		}
	})
}

func TestAMessageThatIsTooLongIsRefusedAndTheRestGoesOn(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		n.onCall(func(m *frame) (string, bool) { return "", m.Call == "wait" && len(n.hellos) == 1 }) // answered by the second socket
		answered := make(chan error)
		go func() {
			_, err := call(cn, t.Context(), "wait", "1", "")
			answered <- err
		}()
		synctest.Wait()
		// The node reads 32 KiB at most, and does not say so.
		if _, err := call(cn, t.Context(), "say", `"`+strings.Repeat("x", 40_000)+`"`, ""); host.CodeOf(err) != host.InvalidArgument {
			t.Error(err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
	})
}

func TestCallsWaitForTheNodeToComeBack(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		n.stop()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := call(cn, ctx, "pay", "1", ""); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
		time.AfterFunc(time.Minute, n.start)
		if _, err := call(cn, t.Context(), "say", "2", ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n.done["pay"] != 0 || n.done["say"] != 1 {
			t.Errorf("%v: what its caller gave up before it was sent is not sent", n.done)
		}
	})
}

func TestCallsThatDidNothingAreRepeated(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		asked := 0
		n.onCall(func(m *frame) (string, bool) {
			asked++
			return fmt.Sprintf(`{"id":%d,"error":{"code":"overloaded","message":"full","retryable":true}}`, m.ID), asked < 3
		})
		if _, err := call(cn, t.Context(), "say", "1", ""); err != nil || asked != 3 {
			t.Error(err, asked)
		}
		n.onCall(func(m *frame) (string, bool) {
			return fmt.Sprintf(`{"id":%d,"error":{"code":"not_yet_invented","message":"no"}}`, m.ID), true
		})
		if _, err := call(cn, t.Context(), "say", "1", ""); host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), "not_yet_invented") {
			t.Error(err)
		}
	})
}

func TestABadRequestIsNotSent(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		for _, r := range []host.Request{
			{Codec: host.JSON}, {Method: "m"}, {Method: "m", Codec: host.JSON, Input: []byte("{")}, {Method: "m", Codec: host.JSON, Create: true},
		} {
			if _, err := cn.Call(t.Context(), &r); host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("%+v: %v", r, err)
			}
		}
		if err := cn.Subscribe(t.Context(), "a", ""); host.CodeOf(err) != host.InvalidArgument {
			t.Error(err)
		}
		if err := errors.Join(cn.Subscribe(t.Context()), cn.Unsubscribe(t.Context())); err != nil {
			t.Error(err)
		}
		for _, r := range []host.ConnectRequest{{Params: []byte("{")}, {Events: []string{""}}} {
			if _, err := c.Connect(t.Context(), room, r); host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("%+v: %v", r, err)
			}
		}
		if _, err := c.CallOver(t.Context(), "a\nb", &host.Request{Address: room, Method: "m", Codec: host.JSON}); host.CodeOf(err) != host.InvalidArgument {
			t.Error(err)
		}
	})
}

func TestCallsOverATokenCarryIt(t *testing.T) {
	n := &node{}
	c, w := connect(t, n, client.Options{})
	r := host.Request{Address: host.Address{Type: "t"}, Method: "m", Codec: host.CBOR, Input: []byte{1}, IdempotencyKey: "k"}
	w.before = func(int) error {
		h := w.headers[len(w.headers)-1]
		if h.Get("Cairn-Connection") != "the token" || h.Get("Idempotency-Key") != "k" {
			t.Errorf("%v", h)
		}
		return errors.New("seen")
	}
	if _, err := c.CallOver(t.Context(), "the token", &r); host.CodeOf(err) != host.Unavailable {
		t.Error(err)
	}
}

func TestQueriesOfEveryActorCarryNoKey(t *testing.T) {
	for method, want := range map[string]bool{
		host.QueueReceive: true, host.QueueSend: true, host.ActorPause: true, "get": true,
		host.QueueHeld: false, host.QueueResult: false, host.QueueStatsMethod: false, host.QueuePeek: false, host.QueueDeadList: false,
		host.ScheduleList: false, host.ScheduleRuns: false, host.AlarmList: false, host.StreamRead: false, host.StreamList: false,
		host.ConnectionList: false, host.ActorWhy: false,
	} {
		n := &node{}
		c, w := connect(t, n, client.Options{Backoff: 1, MaxBackoff: 1})
		w.after = first(1, errors.New("connection reset"))
		_, err := c.Call(t.Context(), &host.Request{Address: host.Address{Type: "t"}, Method: method, Codec: host.JSON, Input: []byte("{}")})
		if err != nil || w.attempts != 2 || !reflect.DeepEqual(n.requests[0], n.requests[1]) || (n.requests[0].IdempotencyKey != "") != want {
			t.Errorf("%s: %d attempts, %+v, %v", method, w.attempts, n.requests, err)
		}
	}
}
