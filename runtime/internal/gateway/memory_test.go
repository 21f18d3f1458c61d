package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

func TestMessagesOfAllWebSocketsShareAMemory(t *testing.T) {
	lobby(t, setup{Limits: serve.Limits{MemoryBytes: 300 << 10}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		release := make(chan struct{})
		conn.call = func(_ context.Context, r *host.Request) (host.Reply, error) {
			if r.Method == "slow" {
				<-release
			}
			return host.Reply{Version: 5}, nil
		}
		long := `"` + strings.Repeat("x", 250<<10) + `"`
		first, second := join(t, l), join(t, l)
		first.say(`{"id":1,"call":"slow","input":` + long + `}`)
		synctest.Wait()
		second.say(`{"id":1,"call":"add","input":` + long + `}`)
		second.expectBye("the bodies of other requests and what waits for other clients take all of 307200 bytes", websocket.StatusTryAgainLater)
		close(release)
		first.expect(`{"id":1,"version":5}`)
		first.say(`{"id":2,"call":"add","input":` + long + `}`)
		first.expect(`{"id":2,"version":5}`)
		for _, refused := range []string{`{"id":3,"connect":{"params":` + long + `}}`, `{"id":4,"call":"","input":` + long + `}`} {
			first.say(refused)
			if got, err := first.hear(); err != nil || !strings.Contains(got, `"error"`) {
				t.Errorf("got %q, %v", got, err)
			}
		}
		first.say(`{"unfollow":5` + strings.Repeat(" ", 200<<10) + `}`)
		first.ws.CloseNow()
		synctest.Wait()
		if n := g.front.Memory.Used(); n != 0 {
			t.Errorf("%d bytes are still taken", n)
		}
	})
}
