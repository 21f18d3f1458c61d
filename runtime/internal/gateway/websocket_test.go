package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// lobby is a gateway whose clients all share one connection, in a bubble.
func lobby(t *testing.T, o setup, run func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		conn := newFakeConn()
		if o.Node == nil {
			o.Node = &fakeNode{connect: conn.connect}
		}
		g := newGateway(t, o)
		run(t, conn, g, launch(t, g))
	})
}

func said(n uint64, data string) host.EmittedEvent {
	return host.EmittedEvent{Sequence: n, Version: n + 100, Name: "said", Time: time.Unix(1_000_000_000, 0), Data: []byte(data),
		Shared: new(host.SharedFrames)}
}

func saidText(n uint64, data string) string {
	return fmt.Sprintf(`{"event":"said","sequence":%d,"version":%d,"time":"2001-09-09T01:46:40Z","data":%s}`, n, n+100, data)
}

func TestAWebSocketConnectsCallsAndBringsEventsInOrder(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		var asked *host.Request
		conn.call = func(_ context.Context, r *host.Request) (host.Reply, error) {
			asked = r
			switch r.Method {
			case "fail":
				return host.Reply{}, host.Errorf(host.NotFound, "no such thing").With("a", "b")
			case "none":
				return host.Reply{Version: 5}, nil
			}
			return host.Reply{Output: r.Input, Version: 42, Replayed: r.IdempotencyKey == "old"}, nil
		}
		c := join(t, l)
		if p := c.ws.Subprotocol(); p != Subprotocol {
			t.Errorf("subprotocol %q", p)
		}
		c.say(`{"id":1,"call":"add","input":{"n":1},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`)
		c.expect(`{"id":1,"version":42,"output":{"n":1}}`)
		if asked.Type != "room" || len(asked.Key) != 1 || asked.Codec != host.JSON || asked.Traceparent == "" || asked.IdempotencyKey != "" {
			t.Errorf("the node got %+v", asked)
		}
		c.say(`{"id":9007199254740991,"call":"queue.send","input":[],"idempotency_key":"old","traceparent":"nonsense"}`)
		c.expect(`{"id":9007199254740991,"version":42,"replayed":true,"output":[]}`)
		if asked.Traceparent != "" || asked.IdempotencyKey != "old" {
			t.Errorf("the node got %+v", asked)
		}
		c.say(`{"id":2,"call":"none"}`)
		c.expect(`{"id":2,"version":5}`)
		if asked.Input != nil {
			t.Errorf("the node got %+v", asked)
		}
		c.say(`{"id":3,"call":"fail"}`)
		c.expect(`{"id":3,"error":{"code":"not_found","message":"no such thing","metadata":{"a":"b"}}}`)

		conn.emit(said(18, `"a"`), said(19, `{"x":1}`))
		conn.deliveries <- host.Delivery{Missed: 5, Events: []host.EmittedEvent{said(25, `null`)}}
		c.expect(saidText(18, `"a"`))
		c.expect(saidText(19, `{"x":1}`))
		c.expect(`{"gap":{"missed":5}}`)
		c.expect(saidText(25, `null`))
		c.leave(websocket.StatusNormalClosure)
		if lost := <-conn.closed; lost {
			t.Error("a client that closed its socket counts as lost")
		}
	})
}

func TestWhatAClientSaysAboutItselfReachesTheNode(t *testing.T) {
	var got []host.ConnectRequest
	conn := newFakeConn()
	conn.welcome.Resumed, conn.welcome.Events = true, nil
	node := &fakeNode{connect: func(_ context.Context, a host.Address, q host.ConnectRequest) (host.LiveConnection, error) {
		got = append(got, q)
		return conn, nil
	}}
	lobby(t, setup{Node: node}, func(t *testing.T, _ *fakeConn, g *Gateway, l *pipeListener) {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		for _, text := range []string{
			`{"connect":{"params":{"name":"x"},"events":["said","left"],"token":"t0","after":0,"life":"` + lifeOne + `"}}`,
			`{"connect":{"params":null,"events":[]}}`,
		} {
			c := dialSocket(t, l, "If-Match: *", "Traceparent: "+trace)
			c.say(text)
			c.expect(`{"welcome":{"connection":"c1","token":"t1","cursor":17,"resumed":true,"events":[]}}`)
			c.leave(websocket.StatusGoingAway)
		}
		want := `[{Params:[123 34 110 97 109 101 34 58 34 120 34 125] Events:[said left] Token:t0 After:0 HasAfter:true Life:` + lifeOne + ` Transport:websocket Existing:true ` +
			`Traceparent:` + trace + `} {Params:[] Events:[] Token: After:0 HasAfter:false Life: Transport:websocket Existing:true Traceparent:` + trace + `}]`
		if fmt.Sprintf("%+v", got) != want {
			t.Errorf("%+v", got)
		}
	})
}

func TestHandshakesThatAreWrongAreAnsweredAsOverHTTP(t *testing.T) {
	lobby(t, setup{LoopbackOnly: true}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		upgrade := []string{"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng=="}
		for _, c := range []struct {
			name, url, header, want string
			status                  int
		}{
			{"a page of a foreign origin", connectPath, "Origin: https://evil.example", "evil.example", 403},
			{"a name that was pointed at this node", connectPath, "Host: evil.example", "loopback", 403},
			{"a parameter", connectPath + "?token=x", "X: y", "token", 400},
			{"a condition", connectPath, "If-None-Match: *", "If-None-Match", 400},
			{"a bad condition", connectPath, "If-Match: 5", "If-Match", 400},
			{"another version", connectPath, "Sec-WebSocket-Version: 12", "version", 400},
			{"no key", connectPath, "Sec-WebSocket-Key: ", "Sec-WebSocket-Key", 400},
			{"no upgrade of the connection", connectPath, "Connection: close", "Connection header", 426},
			{"a path without a key", "/actors/room/connect", "X: y", "path", 400},
			{"another route", "/actors/room/-/call/add", "X: y", "method GET", 405},
		} {
			name, value, _ := strings.Cut(c.header, ": ")
			var headers []string
			for _, h := range upgrade {
				if !strings.HasPrefix(h, name+":") {
					headers = append(headers, h)
				}
			}
			if value != "" {
				headers = append(headers, c.header)
			}
			if name != "Host" {
				headers = append(headers, "Host: localhost")
			}
			w := ask(g, "GET", c.url, "", headers...)
			if w.Code != c.status || !strings.Contains(errorOf(t, w).Message, c.want) {
				t.Errorf("%s: %d %q", c.name, w.Code, w.Body)
			}
		}
	})
}

func TestAnAllowedOriginMayConnect(t *testing.T) {
	lobby(t, setup{AllowedOrigins: []string{"https://app.example.com"}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		for _, header := range []string{"Origin: https://app.example.com", "Origin: http://localhost"} {
			join(t, l, header).leave(websocket.StatusNormalClosure)
		}
		for _, header := range []string{"Origin: https://app.example.com.evil.example", "Origin: null"} {
			_, res, err := handshake(t, l, connectPath, nil, header)
			if err == nil || res == nil || res.StatusCode != 403 {
				t.Errorf("%s: %v %v", header, res, err)
			}
		}
	})
}

func TestWhoMayNotConnectIsToldSoOnTheSocket(t *testing.T) {
	token := func(s string) string { return tokenProtocol + base64.RawURLEncoding.EncodeToString([]byte(s)) }
	lobby(t, setup{Token: "sesam"}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		for _, protocols := range [][]string{nil, {Subprotocol}, {Subprotocol, token("other")}, {Subprotocol, tokenProtocol + "!"},
			{Subprotocol, tokenProtocol}, {Subprotocol, token("a b")}} {
			c, res, err := handshake(t, l, connectPath, protocols)
			if err != nil {
				t.Fatal(protocols, err)
			}
			if p := res.Header.Get("Sec-WebSocket-Protocol"); strings.Contains(p, "token") {
				t.Errorf("the token comes back: %q", p)
			}
			c.expectBye(`"unauthenticated"`, websocket.StatusPolicyViolation)
		}
		for _, protocols := range [][]string{{Subprotocol, token("sesam")}, {token("sesam"), Subprotocol}} {
			c, _, err := handshake(t, l, connectPath, protocols)
			if err != nil || c.ws.Subprotocol() != Subprotocol {
				t.Fatal(err)
			}
			c.say(`{"connect":{}}`)
			c.expect(welcomeText)
			c.leave(websocket.StatusNormalClosure)
		}
		join(t, l, "Authorization: Bearer sesam").leave(websocket.StatusNormalClosure)
	})
}

func TestAuthorizeIsAskedForTheConnectionAndEveryCall(t *testing.T) {
	var seen []string
	o := setup{Authorize: func(_ context.Context, r serve.AuthRequest) error {
		seen = append(seen, fmt.Sprintf("%s %s %v %q %s %q", r.Operation, r.Type, r.Key, r.Method, r.Header.Get("Authorization"), r.Header.Get("Sec-WebSocket-Protocol")))
		switch {
		case r.RemoteAddr == "":
			t.Error("no address")
		case r.Operation == serve.Operate:
			return errors.New("secret reason")
		}
		return nil
	}}
	lobby(t, o, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		conn.call = func(_ context.Context, r *host.Request) (host.Reply, error) {
			if r.Method == host.StreamRead {
				return host.Reply{Output: []byte(`{"items":[],"next":0,"closed":true}`)}, nil
			}
			return host.Reply{}, nil
		}
		conn.subscribed = func(string, []string) error { return nil }
		c, _, err := handshake(t, l, connectPath, []string{Subprotocol, tokenProtocol + "c2VzYW0"})
		if err != nil {
			t.Fatal(err)
		}
		c.say(`{"connect":{}}`)
		c.expect(welcomeText)
		c.say(`{"id":1,"call":"add"}`)
		c.expect(`{"id":1,"version":0}`)
		c.say(`{"id":2,"call":"actor.pause"}`)
		c.expect(`{"id":2,"error":{"code":"permission_denied","message":"not allowed"}}`)
		c.say(`{"id":3,"call":"create"}`)
		c.expect(`{"id":3,"version":0}`)
		c.say(`{"id":4,"follow":"tokens"}`)
		c.expect(`{"id":4}`)
		c.expect(`{"stream":4,"end":true}`)
		c.say(`{"id":5,"subscribe":["said"]}`)
		c.expect(`{"id":5}`)
		c.leave(websocket.StatusNormalClosure)
		synctest.Wait()
		var want []string
		for _, op := range []string{`connect room [a] ""`, `call room [a] "add"`, `operate room [a] "actor.pause"`, `call room [a] "create"`, `follow room [a] "stream.read"`} {
			want = append(want, op+` Bearer sesam "cairn.v1"`)
		}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("got  %s\nwant %s", strings.Join(seen, "\n     "), strings.Join(want, "\n     "))
		}
	})
}

func TestACallOverAWebSocketSaysWhetherItsCallerMayOperate(t *testing.T) {
	o := setup{Authorize: func(_ context.Context, r serve.AuthRequest) error {
		if r.Operation == serve.Operate && r.Header.Get("Role") != "operator" {
			return errors.New("operators only")
		}
		return nil
	}}
	lobby(t, o, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		var veiled []bool
		conn.call = func(_ context.Context, r *host.Request) (host.Reply, error) {
			veiled = append(veiled, r.Veiled)
			return host.Reply{}, nil
		}
		for _, role := range []string{"operator", "reader"} {
			c := join(t, l, "Role: "+role)
			c.say(`{"id":1,"call":"workflow.status"}`)
			c.expect(`{"id":1,"version":0}`)
			c.say(`{"id":2,"call":"workflow.result"}`)
			c.expect(`{"id":2,"version":0}`)
			c.leave(websocket.StatusNormalClosure)
		}
		if want := []bool{false, false, true, true}; !slices.Equal(veiled, want) {
			t.Errorf("veiled: %v, want %v", veiled, want)
		}
	})
}

func TestTheFirstMessageMustConnectInTime(t *testing.T) {
	lobby(t, setup{Limits: serve.Limits{BodyBytes: 100_000}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		for text, want := range map[string]string{
			`{"id":1,"call":"add"}`:              "first message must be connect",
			`{}`:                                 "one of connect",
			`{"connect":{},"id":1}`:              "no id",
			`{"connect":{"events":[""]}}`:        "events has an empty name",
			`{"connect":{"event":[]}}`:           `unknown field \"connect.event\"`,
			`{"connect":{"after":-1}}`:           "connect.after",
			`{"connect":5}`:                      "connect",
			`[]`:                                 "an object is expected",
			`hello`:                              "not JSON",
			"{\"connect\":{\"token\":\"\xff\"}}": "not JSON",
			`{"connect":{}}{}`:                   "not JSON",
		} {
			c := dialSocket(t, l)
			c.say(text)
			c.expectBye(want, websocket.StatusPolicyViolation)
		}
		for text, want := range map[string]string{
			`{"connect":{"params":"` + strings.Repeat("x", host.MaxConnectionParams) + `"}}`: `"what":"params"`,
			`{"connect":{"events":[` + strings.Repeat(`"x",`, 256) + `"x"]}}`:                "events: 257",
			`{"connect":{"token":"` + strings.Repeat(`x`, 1025) + `"}}`:                      "token: 1025 is over",
		} {
			c := dialSocket(t, l)
			c.say(text)
			c.expectBye(want, websocket.StatusMessageTooBig)
		}

		c := dialSocket(t, l)
		start := time.Now()
		if _, err := c.hear(); err == nil || time.Since(start) != ConnectTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestAConnectionThatTheNodeRefusesGetsTheErrorAndACode(t *testing.T) {
	for code, want := range map[host.Code]websocket.StatusCode{
		host.PermissionDenied: 1008, host.UnknownType: 1008, host.NotFound: 1008, host.FailedPrecondition: 1008, host.Destroyed: 1008,
		host.Unavailable: 1001, host.Overloaded: 1013, host.ActorPaused: 1013, host.ActorFailed: 1013, host.Internal: 1011, host.Crashed: 1011,
	} {
		node := &fakeNode{connect: func(context.Context, host.Address, host.ConnectRequest) (host.LiveConnection, error) {
			return nil, fmt.Errorf("wrapped: %w", host.Errorf(code, "why").With("a", "b"))
		}}
		lobby(t, setup{Node: node}, func(t *testing.T, _ *fakeConn, g *Gateway, l *pipeListener) {
			c := dialSocket(t, l)
			c.say(`{"connect":{}}`)
			c.expectBye(fmt.Sprintf(`"code":%q,"message":"why","metadata":{"a":"b"}`, code), want)
		})
	}
}

func TestTheEndOfAConnectionIsToldWithACode(t *testing.T) {
	for code, want := range map[host.Code]websocket.StatusCode{
		host.PermissionDenied: 1000, host.Destroyed: 1000, host.Canceled: 1000, host.Unavailable: 1001, host.Overloaded: 1013, host.Internal: 1011,
	} {
		lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
			c := join(t, l)
			conn.emit(said(18, `1`))
			conn.fault <- host.Errorf(code, "kicked")
			c.expect(saidText(18, `1`))
			c.expectBye(`"kicked"`, want)
			if lost := <-conn.closed; !lost {
				t.Errorf("%s: the answer to this side's close frame counts as the client's wish", code)
			}
		})
	}
}

func TestHowAClientLeavesDecidesWhetherItMayComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(*wsClient)
		lost  bool
	}{
		"normal":           {func(c *wsClient) { c.leave(websocket.StatusNormalClosure) }, false},
		"going away":       {func(c *wsClient) { c.leave(websocket.StatusGoingAway) }, false},
		"without a code":   {func(c *wsClient) { c.leave(websocket.StatusNoStatusRcvd) }, false},
		"with another":     {func(c *wsClient) { c.leave(4000) }, true},
		"without a frame":  {func(c *wsClient) { c.ws.CloseNow() }, true},
		"in mid-message":   {func(c *wsClient) { c.conn.Write([]byte{0x01, 0x85, 0, 0, 0, 0, '{'}); c.conn.Close() }, true},
		"against protocol": {func(c *wsClient) { c.conn.Write([]byte{0x8f, 0x80, 0, 0, 0, 0}); io.Copy(io.Discard, c.conn) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
				client := join(t, l)
				c.leave(client)
				if lost := <-conn.closed; lost != c.lost {
					t.Errorf("lost: %v", lost)
				}
				client.ws.CloseNow()
				synctest.Wait()
				if n := g.front.Open(); n != 0 {
					t.Errorf("%d are open", n)
				}
			})
		})
	}
}

func TestMalformedMessagesAreAnsweredAndTheSocketStays(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		c := join(t, l)
		for _, m := range []struct{ text, id, want string }{
			{`{}`, ``, "this one has 0"},
			{`{"id":7}`, `"id":7,`, "this one has 0"},
			{`{"id":7,"call":"a","follow":"b"}`, `"id":7,`, "this one has 2"},
			{`{"call":"add"}`, ``, "member id is 0"},
			{`{"id":-1,"call":"add"}`, ``, "member id is -1"},
			{`{"id":9007199254740992,"call":"add"}`, ``, "member id is 9007199254740992"},
			{`{"id":"1","call":"add"}`, ``, "member id cannot be: string"},
			{`{"id":1.5,"call":"add"}`, ``, "member id cannot be: number 1.5"},
			{`{"id":7,"cal":"add"}`, `"id":7,`, `unknown field \"cal\"`},
			{`{"id":7,"call":"add","idempotency_key":"` + strings.Repeat("k", 256) + `"}`, `"id":7,`, "256 bytes long; the limit is 255"},
			{`{"id":7,"subscribe":[]}`, `"id":7,`, "subscribe names no event"},
			{`{"id":7,"unsubscribe":[""]}`, `"id":7,`, "unsubscribe has an empty name"},
			{`{"id":7,"subscribe":["a"],"input":1}`, `"id":7,`, "belong to call"},
			{`{"id":7,"call":"add","after":1}`, `"id":7,`, "belong to follow"},
			{`{"id":7,"call":"add","life":"x"}`, `"id":7,`, "belong to follow"},
			{`{"id":7,"follow":"tokens","life":"` + lifeOne + `"}`, `"id":7,`, "after, which is missing"},
			{`{"id":7,"follow":"tokens","after":1,"life":"x"}`, `"id":7,`, `"field":"life"`},
			{`{"id":7,"unfollow":-1}`, `"id":7,`, "member unfollow is -1"},
			{`{"connect":{}}`, ``, "made already"},
			{`5`, ``, "an object is expected"},
		} {
			c.say(m.text)
			got, err := c.hear()
			if err != nil || !strings.HasPrefix(got, `{`+m.id+`"error":{"code":"`) || !strings.Contains(got, m.want) {
				t.Errorf("%s: %s %v", m.text, got, err)
			}
		}
		c.leave(websocket.StatusNormalClosure)
	})
}

func TestWhatIsNoMessageEndsTheConnection(t *testing.T) {
	for name, m := range map[string]struct {
		typ  websocket.MessageType
		text string
		want string
		code websocket.StatusCode
	}{
		"not JSON":  {websocket.MessageText, `{"id":`, "not JSON", websocket.StatusPolicyViolation},
		"empty":     {websocket.MessageText, ``, "not JSON", websocket.StatusPolicyViolation},
		"not UTF-8": {websocket.MessageText, "\"\xff\"", "not JSON", websocket.StatusPolicyViolation},
		"binary":    {websocket.MessageBinary, `{}`, "not binary", websocket.StatusUnsupportedData},
		"too long":  {websocket.MessageText, strings.Repeat(" ", 1001), `the message is longer than 1000 bytes","metadata":{"actual":"1001","limit":"1000","what":"message"}`, websocket.StatusMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			lobby(t, setup{Limits: serve.Limits{BodyBytes: 1000}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
				c := join(t, l)
				if err := c.ws.Write(t.Context(), m.typ, []byte(m.text)); err != nil {
					t.Fatal(err)
				}
				c.expectBye(m.want, m.code)
				if lost := <-conn.closed; !lost {
					t.Error("the client cannot come back")
				}
			})
		})
	}
}

func TestMessagesUpToTheLimitAreTaken(t *testing.T) {
	lobby(t, setup{Limits: serve.Limits{BodyBytes: 1000}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		conn.call = func(_ context.Context, r *host.Request) (host.Reply, error) { return host.Reply{Output: r.Input}, nil }
		c := join(t, l)
		text := `{"id":1,"call":"add","input":"` + strings.Repeat("x", 1000-32) + `"}`
		c.say(text)
		c.expect(`{"id":1,"version":0,"output":"` + strings.Repeat("x", 1000-32) + `"}`)
		c.leave(websocket.StatusNormalClosure)
	})
}
