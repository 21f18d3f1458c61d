package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

func TestAnExportThatFailsHalfWayIsCutOff(t *testing.T) {
	t.Parallel()
	g := newGateway(t, setup{Databases: &fakeDatabases{}})
	for _, h2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(g)
		server.EnableHTTP2 = h2
		server.StartTLS()
		res, err := server.Client().Get(server.URL + "/actors/room/half/-/sqlite")
		must(t, err)
		n, err := io.Copy(io.Discard, res.Body)
		res.Body.Close()
		server.Close()
		errorIf(t, res.ProtoMajor == 2 != h2 || res.StatusCode != 200 || err == nil || n > 1<<20,
			"%s: %d, %d bytes, %v", res.Proto, res.StatusCode, n, err)
	}
}

func TestAClientThatDoesNotReadItsFileIsCutOff(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 1)
	d := &fakeDatabases{heard: func(fault string) { ended <- fault }}
	server := httptest.NewServer(newGateway(t, setup{Limits: serve.Limits{StreamWriteTimeout: 50 * time.Millisecond}, Databases: d}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET /actors/room/endless/-/sqlite HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-ended
}
