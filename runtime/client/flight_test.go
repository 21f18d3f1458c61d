package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/runtime/client"
)

func TestCallsInFlightAreRepeatedOnlyIfThatIsSafe(t *testing.T) {
	for _, tc := range []struct {
		name, method, input, key string
		attempts, sent           int
		code                     host.Code
	}{
		{name: "a key of the client's making", method: "add", input: "1", sent: 2},
		{name: "the caller's key", method: "add", input: "1", key: "order-7", sent: 2},
		{name: "a query of every actor", method: host.QueueStatsMethod, input: "{}", sent: 2},
		{name: "sent once only", method: "add", input: "1", attempts: 1, sent: 1, code: host.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onStage(t, client.Options{Attempts: tc.attempts}, func(t *testing.T, s *stage, c *client.Client) {
				s.call("none", "")
				cn := s.connect(c, host.ConnectRequest{})
				defer hangUp(t, cn)
				var sent atomic.Int32
				s.node.Before = func(_ context.Context, op string, r *host.Request) error {
					if op == "call" && r.Method == tc.method && sent.Add(1) == 1 {
						s.mu.Lock()
						s.lose = true // the answer
						s.mu.Unlock()
					}
					return nil
				}
				reply, err := call(cn, t.Context(), tc.method, tc.input, tc.key)
				var e *host.Error
				if errors.As(err, &e); host.CodeOf(err) != tc.code || e != nil && (e.Retryable || !strings.Contains(e.Message, "unknown")) {
					t.Errorf("%+v", err)
				}
				total, err2 := s.node.Call(t.Context(), &host.Request{Address: room, Method: "total", Codec: host.JSON})
				if err2 != nil || tc.method == "add" && (string(total.Output) != "1" || err == nil && !reply.Replayed) {
					t.Errorf("the total is %s, %v: %+v", total.Output, err2, reply)
				}
				keys := make(map[string]bool)
				for _, q := range s.node.Requests() {
					if q.Method == tc.method {
						keys[q.IdempotencyKey] = true
					}
				}
				if int(sent.Load()) != tc.sent || len(keys) != 1 || tc.key != "" && !keys[tc.key] {
					t.Errorf("it was sent %d times, with the keys %v", sent.Load(), keys)
				}
			})
		})
	}
}

func TestARequestThatBreaksEverySocketIsGivenUp(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		var sent atomic.Int32
		s.node.Before = func(_ context.Context, op string, r *host.Request) error {
			if op == "call" && string(r.Input) == `"poison"` {
				sent.Add(1)
				s.cut()
			}
			return nil
		}
		if _, err := call(cn, t.Context(), "echo", `"poison"`, ""); host.CodeOf(err) != host.Unavailable || sent.Load() != client.DefaultAttempts {
			t.Errorf("%v after %d", err, sent.Load())
		}
		if _, err := call(cn, t.Context(), "echo", "1", ""); err != nil {
			t.Error(err)
		}
	})
}

func TestAMessageThatIsTooLongIsRefusedAndTheRestGoesOn(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.bodies = 30_000
		s.restart(0)
		cn := s.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		release := s.holding(`"wait"`)
		answered := make(chan error)
		go func() {
			_, err := call(cn, t.Context(), "echo", `"wait"`, "")
			answered <- err
		}()
		synctest.Wait()
		_, err := call(cn, t.Context(), "echo", `"`+strings.Repeat("x", 40_000)+`"`, "")
		if e := (*host.Error)(nil); !errors.As(err, &e) || e.Code != host.TooLarge || e.Metadata["limit"] != "30000" {
			t.Error(err)
		}
		release()
		err = <-answered
		if n := len(s.asked("connect")); err != nil || n != 2 && n != 3 { // the third if the close was lost because the client was writing
			t.Error(err, s.asked("connect"))
		}
	})
}

// The node closes the connection while the client may still write, so its last word may not come whole.
func TestAMessageThatIsTooLongIsRefusedThoughTheCloseIsLost(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.instead(1, func(_ int, p peer) {
			bye, err := json.Marshal(host.OverLimit("message", 1, 2))
			if p.says(welcome); p.reads() && err == nil {
				p.says(`{"bye":` + string(bye) + `}`)
				p.CloseNow()
			}
		})
		cn := s.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		if _, err := call(cn, t.Context(), "echo", "1", ""); host.CodeOf(err) != host.TooLarge {
			t.Error(err)
		}
		if _, err := call(cn, t.Context(), "echo", "2", ""); err != nil {
			t.Error(err)
		}
	})
}

func TestCallsWaitForTheNodeToComeBack(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		s.stop()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := call(cn, ctx, "echo", `"given up"`, ""); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
		time.AfterFunc(time.Minute, s.start)
		if _, err := call(cn, t.Context(), "echo", "2", ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if sent := s.asked("call"); len(sent) != 1 {
			t.Errorf("%q: what its caller gave up before it was sent is not sent", sent)
		}
	})
}

func TestCallsThatDidNothingAreRepeated(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		var asked atomic.Int32
		s.node.Before = func(_ context.Context, op string, r *host.Request) error {
			switch {
			case op == "call" && string(r.Input) == "2":
				return &host.Error{Code: "not_yet_invented", Message: "no"}
			case op == "call" && asked.Add(1) < 3:
				return host.Errorf(host.Overloaded, "full").Retry()
			}
			return nil
		}
		if _, err := call(cn, t.Context(), "echo", "1", ""); err != nil || asked.Load() != 3 {
			t.Error(err, asked.Load())
		}
		if _, err := call(cn, t.Context(), "echo", "2", ""); host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), "not_yet_invented") {
			t.Error(err)
		}
	})
}

func TestABadRequestIsNotSent(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{})
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
		if all := fmt.Sprint(s.asked("call"), s.asked("subscribe"), s.asked("unsubscribe"), len(s.asked("connect"))); all != "[] [] [] 1" {
			t.Error(all)
		}
	})
}

func TestCallsOverATokenCarryIt(t *testing.T) {
	n := &hosttest.Recorder{Before: refusing(host.Errorf(host.NotFound, "seen"))}
	c, _ := connect(t, n, client.Options{})
	r := host.Request{Address: room, Method: "m", Codec: host.CBOR, Input: []byte{1}, IdempotencyKey: "k"}
	if _, err := c.CallOver(t.Context(), "the token", &r); host.CodeOf(err) != host.NotFound {
		t.Error(err)
	}
	if r.Connection = "the token"; !reflect.DeepEqual(n.Requests(), []host.Request{r}) {
		t.Errorf("%+v", n.Requests())
	}
}

func TestQueriesOfEveryActorCarryNoKey(t *testing.T) {
	for method, want := range map[string]bool{
		host.QueueReceive: true, host.QueueSend: true, host.ActorPause: true, "get": true,
		host.QueueHeld: false, host.QueueResult: false, host.QueueStatsMethod: false, host.QueuePeek: false, host.QueueDeadList: false,
		host.ScheduleList: false, host.ScheduleRuns: false, host.AlarmList: false, host.StreamRead: false, host.StreamList: false,
		host.ConnectionList: false, host.ActorWhy: false,
	} {
		n := &hosttest.Recorder{Before: refusing(host.Errorf(host.NotFound, "seen"))}
		c, w := connect(t, n, client.Options{Backoff: 1, MaxBackoff: 1})
		w.after = first(1, errors.New("connection reset"))
		_, err := c.Call(t.Context(), &host.Request{Address: room, Method: method, Codec: host.JSON, Input: []byte("{}")})
		q := n.Requests()
		if host.CodeOf(err) != host.NotFound || len(q) != 2 || !reflect.DeepEqual(q[0], q[1]) || (q[0].IdempotencyKey != "") != want {
			t.Errorf("%s: %+v, %v", method, q, err)
		}
	}
}
