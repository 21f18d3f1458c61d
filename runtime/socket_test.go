package runtime_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// TestSessionScripts of package gateway has what waits for what. Here a node runs many calls at once.

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
	const requests, each = 300, 4 // of which each fourth is a query
	s := openSocket(t)
	length := named(query(func(b bot, _ *actor.ReadContext) (string, error) { return fmt.Sprint(len(b.Notes["w"])), nil }))
	places := make(chan struct{}, 64) // as many requests may be in flight
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
			errorIf(t, len(got) != 55 || !strings.HasPrefix(got, "00-"+trace) || strings.Contains(got, "b7ad6b7169203331") || !strings.HasSuffix(got, flag),
				"%s%s: %q", what, from, got)
		}
		s.say(`{"id":1,%s}`, what)
		got := s.hear().Traceresponse
		errorIf(t, len(got) != 55 || !strings.HasSuffix(got, "-01"), "%s: %q", what, got)
	}
}
