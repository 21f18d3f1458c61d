package runtime_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor"
)

// TestSessionScripts of package gateway has what waits for what. Here a node runs many calls at once.

func TestCallsOverOneWebSocketRunInTheOrderInWhichTheyWereSent(t *testing.T) {
	t.Parallel()
	const requests, each = 300, 4 // of which each fourth is a query
	rt := openDir(t, t.TempDir(), botDefinition(actor.Spec[bot]{}))
	s := httptest.NewServer(rt.Handler())
	defer s.Close()
	defer rt.Close()
	ws, _, err := websocket.Dial(t.Context(), s.URL+"/actors/bot/a/-/connect", &websocket.DialOptions{Subprotocols: []string{"cairn.v1"}})
	must(t, err)
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	say := func(format string, args ...any) {
		err := ws.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...))
		errorIf(t, err != nil, "%v", err)
	}
	hear := func() (id int, output string) {
		var m struct {
			ID            int
			Output, Error json.RawMessage
		}
		_, b, err := ws.Read(t.Context())
		must(t, err)
		must(t, json.Unmarshal(b, &m))
		fatalIf(t, m.Error != nil, "%s", b)
		return m.ID, string(m.Output)
	}
	say(`{"connect":{}}`)
	hear()
	length := named(query(func(b bot, _ *actor.ReadContext) (string, error) { return fmt.Sprint(len(b.Notes["w"])), nil }))
	places := make(chan struct{}, 64) // as many requests may be in flight
	go func() {
		for id := 1; id <= requests; id++ {
			places <- struct{}{}
			if id%each == 0 {
				say(`{"id":%d,"call":"ask","input":%q}`, id, length)
			} else {
				say(`{"id":%d,"call":"deliver","input":{"From":"w","N":%d}}`, id, id)
			}
		}
	}()
	for range requests {
		id, output := hear()
		<-places
		want := fmt.Sprintf("%q", fmt.Sprint(id-id/each))
		errorIf(t, id%each == 0 && output != want, "query %d sees %s calls; %s were sent before it", id, output, want)
	}
	got := look(t, rt, "a").Notes["w"]
	errorIf(t, len(got) != requests-requests/each || !slices.IsSorted(got), "%d calls ran, in the order %v", len(got), got)
}
