package gateway

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// A wsClient is a client's end of a WebSocket.
type wsClient struct {
	t    *testing.T
	ws   *websocket.Conn
	conn net.Conn // below it
}

// handshake asks a listener for a WebSocket. Headers are "Name: value".
func handshake(t *testing.T, l *pipeListener, path string, protocols []string, headers ...string) (*wsClient, *http.Response, error) {
	t.Helper()
	c := &wsClient{t: t}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		c.conn = l.dial()
		return c.conn, nil
	}}
	defer transport.CloseIdleConnections()
	h := http.Header{}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	ws, res, err := websocket.Dial(t.Context(), "ws://localhost"+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: h, Subprotocols: protocols,
	})
	if ws != nil {
		ws.SetReadLimit(-1)
	}
	c.ws = ws
	return c, res, err
}

const connectPath = "/actors/room/a/-/connect"

// dialSocket does a handshake that succeeds.
func dialSocket(t *testing.T, l *pipeListener, headers ...string) *wsClient {
	t.Helper()
	c, _, err := handshake(t, l, connectPath, []string{Subprotocol}, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// join connects with a message and reads the welcome.
func join(t *testing.T, l *pipeListener, headers ...string) *wsClient {
	t.Helper()
	c := dialSocket(t, l, headers...)
	c.say(`{"connect":{}}`)
	c.expect(welcomeText)
	return c
}

const welcomeText = `{"welcome":{"connection":"c1","token":"t1","cursor":17,"resumed":false,"events":["said"]}}`

func (c *wsClient) say(text string) {
	c.t.Helper()
	if err := c.ws.Write(c.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// hear reads the next message. The error is that of the socket's end.
func (c *wsClient) hear() (string, error) {
	_, b, err := c.ws.Read(context.WithoutCancel(c.t.Context()))
	return string(b), err
}

func (c *wsClient) expect(want string) {
	c.t.Helper()
	if got, err := c.hear(); got != want || err != nil {
		c.t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

// expectBye reads a bye whose error contains want, and then the close code.
func (c *wsClient) expectBye(want string, code websocket.StatusCode) {
	c.t.Helper()
	got, err := c.hear()
	if !strings.HasPrefix(got, `{"bye":{`) || !strings.Contains(got, want) {
		c.t.Fatalf("got %q, %v; want a bye with %q", got, err, want)
	}
	if got, err := c.hear(); websocket.CloseStatus(err) != code {
		c.t.Fatalf("got %q, %v; want the close code %d", got, err, code)
	}
}

func (c *wsClient) leave(code websocket.StatusCode) { c.ws.Close(code, "") }
