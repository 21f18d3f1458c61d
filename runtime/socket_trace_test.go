package runtime_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor"
)

func TestAnswersOverAWebSocketNameTheirTrace(t *testing.T) {
	t.Parallel()
	rt := openDir(t, t.TempDir(), botDefinition(actor.Spec[bot]{}))
	s := httptest.NewServer(rt.Handler())
	defer s.Close()
	defer rt.Close()
	ws, _, err := websocket.Dial(t.Context(), s.URL+"/actors/bot/a/-/connect", &websocket.DialOptions{Subprotocols: []string{"cairn.v1"}})
	must(t, err)
	defer ws.CloseNow()
	ask := func(text string) (traceresponse string) {
		t.Helper()
		must(t, ws.Write(t.Context(), websocket.MessageText, []byte(text)))
		_, b, err := ws.Read(t.Context())
		must(t, err)
		var m struct{ Traceresponse string }
		must(t, json.Unmarshal(b, &m))
		return m.Traceresponse
	}
	ask(`{"connect":{}}`)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, what := range []string{`"call":"deliver","input":{"From":"w","N":1}`, `"call":"nothing"`} {
		for flag, from := range map[string]string{
			"-01": `,"traceparent":"00-` + trace + `-b7ad6b7169203331-01"`, "-00": `,"traceparent":"00-` + trace + `-b7ad6b7169203331-00"`,
		} {
			got := ask(`{"id":1,` + what + from + `}`)
			errorIf(t, len(got) != 55 || !strings.HasPrefix(got, "00-"+trace) || strings.Contains(got, "b7ad6b7169203331") || !strings.HasSuffix(got, flag), "%s%s: %q", what, from, got)
		}
		got := ask(`{"id":1,` + what + `}`)
		errorIf(t, len(got) != 55 || !strings.HasSuffix(got, "-01"), "%s: %q", what, got)
	}
}
