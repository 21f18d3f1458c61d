package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
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
		onStage(t, client.Options{Attempts: tc.attempts}, func(t *testing.T, s *stage, c *client.Client) {
			s.call("none", "")
			cn := s.connect(c, host.ConnectRequest{})
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
			wantCode(t, err, tc.code, tc.name)
			e, failed := errors.AsType[*host.Error](err)
			errorIf(t, failed && (e.Retryable || !strings.Contains(e.Message, "unknown")), "%s: %+v", tc.name, err)
			total, err := s.node.Call(t.Context(), &host.Request{Address: room, Method: "total", Codec: host.JSON})
			must(t, err)
			errorIf(t, tc.method == "add" && (string(total.Output) != "1" || !failed && !reply.Replayed),
				"%s: the total is %s: %+v", tc.name, total.Output, reply)
			keys := make(map[string]bool)
			for _, q := range s.node.Requests() {
				if q.Method == tc.method {
					keys[q.IdempotencyKey] = true
				}
			}
			errorIf(t, int(sent.Load()) != tc.sent || len(keys) != 1 || tc.key != "" && !keys[tc.key],
				"%s: it was sent %d times, with the keys %v", tc.name, sent.Load(), keys)
		})
	}
}

func TestCallsThatFailAreGivenUpAndTheRestGoesOn(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{})
		var asked atomic.Int32
		s.node.Before = func(_ context.Context, op string, r *host.Request) error {
			switch {
			case op != "call":
			case string(r.Input) == `"poison"`:
				asked.Add(1)
				s.cut()
			case string(r.Input) == `"later"` && asked.Add(1) < 3:
				return host.Errorf(host.Overloaded, "full").Retry()
			case string(r.Input) == `"odd"`:
				return &host.Error{Code: "not_yet_invented", Message: "no"}
			}
			return nil
		}
		for _, tc := range []struct {
			input string
			asked int32
			code  host.Code
			says  string
		}{
			{`"poison"`, client.DefaultAttempts, host.Unavailable, ""}, {`"later"`, 3, "", ""}, {`"odd"`, 0,
				host.Internal, "not_yet_invented"},
		} {
			asked.Store(0)
			err := errOf(call(cn, t.Context(), "echo", tc.input, ""))
			wantCode(t, err, tc.code, tc.input)
			errorIf(t, asked.Load() != tc.asked || err != nil && !strings.Contains(err.Error(), tc.says), "%d times: %v", asked.Load(), err)
		}
	})
}

func TestAMessageThatIsTooLongIsRefusedAndTheRestGoesOn(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.bodies = 30_000
		s.restart(0)
		cn := s.connect(c, host.ConnectRequest{})
		release := s.holding(`"wait"`)
		answered := make(chan error)
		go func() { answered <- errOf(call(cn, t.Context(), "echo", `"wait"`, "")) }()
		synctest.Wait()
		err := errOf(call(cn, t.Context(), "echo", `"`+strings.Repeat("x", 40_000)+`"`, ""))
		e, ok := errors.AsType[*host.Error](err)
		errorIf(t, !ok || e.Code != host.TooLarge || e.Metadata["limit"] != "30000", "%v", err)
		release()
		must(t, <-answered)
		n := len(s.asked("connect")) // the third if the close was lost because the client was writing
		errorIf(t, n != 2 && n != 3, "%q", s.asked("connect"))
		// The node closes the connection while the client may still write, so its last message may
		// be incomplete.
		for named, code := range map[bool]host.Code{true: host.TooLarge, false: host.InvalidArgument} {
			s.instead(1, func(_ int, p peer) {
				p.says(welcome)
				p.reads()
				if named {
					p.bye(host.OverLimit("message", 1, 2))
					p.CloseNow()
				}
				p.Close(websocket.StatusMessageTooBig, "")
			})
			cn = s.connect(c, host.ConnectRequest{})
			wantCode(t, errOf(call(cn, t.Context(), "echo", "1", "")), code)
			must(t, errOf(call(cn, t.Context(), "echo", "2", "")))
		}
	})
}

func TestCallsWaitForTheNodeToComeBack(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{})
		s.stop()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, errOf(call(cn, ctx, "echo", `"given up"`, "")), host.DeadlineExceeded)
		time.AfterFunc(time.Minute, s.start)
		must(t, errOf(call(cn, t.Context(), "echo", "2", "")))
		synctest.Wait()
		sent := s.asked("call")
		errorIf(t, len(sent) != 1, "%q: what its caller gave up before it was sent is not sent", sent)
	})
}

func TestABadRequestIsNotSent(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		ctx, at := t.Context(), host.Address{Type: "t"}
		cn := s.connect(c, host.ConnectRequest{})
		for _, r := range []host.Request{
			{Codec: host.JSON}, {Method: "m"}, {Method: "m", Codec: host.JSON, Input: []byte("{")},
			{Method: "m", Codec: host.JSON, Create: true},
		} {
			wantCode(t, errOf(cn.Call(ctx, &r)), host.InvalidArgument, r)
		}
		for _, r := range []host.Request{
			{Address: host.Address{Type: ""}, Method: "m", Codec: host.CBOR},
			{Address: host.Address{Type: "t", Key: []string{"\xff"}}, Method: "m", Codec: host.CBOR},
			{Address: at, Method: "\xff", Codec: host.CBOR}, {Address: at, Method: "m"}, {Address: at, Codec: host.CBOR},
			{Address: at, Method: "m", Codec: host.CBOR, IdempotencyKey: "a\nb"},
			{Address: at, Method: "m", Codec: host.CBOR, IdempotencyKey: " a"},
		} {
			wantCode(t, errOf(c.Call(ctx, &r)), host.InvalidArgument, r)
		}
		for _, r := range []host.ConnectRequest{{Params: []byte("{")}, {Events: []string{""}}} {
			wantCode(t, errOf(c.Connect(ctx, room, r)), host.InvalidArgument, r)
		}
		over := host.Request{Address: room, Method: "m", Codec: host.JSON}
		wantCode(t, errOf(c.CallOver(ctx, "a\nb", &over)), host.InvalidArgument)
		wantCode(t, cn.Subscribe(ctx, "a", ""), host.InvalidArgument)
		must(t, errors.Join(cn.Subscribe(ctx), cn.Unsubscribe(ctx)))
		all := fmt.Sprint(s.asked("call"), s.asked("subscribe"), s.asked("unsubscribe"), len(s.asked("connect")))
		errorIf(t, all != "[] [] [] 1", "%s", all)
	})
}

func TestQueriesOfEveryActorCarryNoKey(t *testing.T) {
	for method, want := range map[string]bool{
		host.QueueReceive: true, host.ActorPause: true, "get": true,
		host.QueueHeld: false, host.QueuePeek: false, host.ScheduleList: false, host.StreamRead: false, host.ActorWhy: false,
	} {
		n := refusing(errSeen)
		c, w := connect(t, n, client.Options{Backoff: 1, MaxBackoff: 1})
		w.after = first(1, errors.New("connection reset"))
		r := host.Request{Address: room, Method: method, Codec: host.JSON, Input: []byte("{}")}
		wantCode(t, errOf(c.Call(t.Context(), &r)), host.NotFound)
		q := n.Requests()
		errorIf(t, len(q) != 2 || q[0].IdempotencyKey != q[1].IdempotencyKey || (q[0].IdempotencyKey != "") != want, "%s: %+v", method, q)
	}
}
