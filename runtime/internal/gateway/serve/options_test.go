package serve

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
)

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := New(Options{
		Token: "a b", AllowedOrigins: []string{"example.com", "https://x/"}, Behaviors: []*host.Behavior{nil},
		Registerer: onlyRegisterer{prometheus.NewRegistry()},
		Limits: Limits{BodyBytes: -1, BodyTimeout: -1, Streams: -1, Connections: -1, ConnectionCalls: -1, ConnectionBytes: -1,
			StreamWriteTimeout: -1, StreamBufferBytes: -1, Heartbeat: -1},
	})
	fatalIf(t, err == nil, "no error")
	for _, want := range []string{"Token", `"example.com"`, `"https://x/"`, "Behaviors[0]", "Registerer", "BodyBytes",
		"BodyTimeout", "Streams", "Connections", "ConnectionCalls", "ConnectionBytes", "StreamWriteTimeout", "StreamBufferBytes", "Heartbeat"} {
		errorIf(t, !strings.Contains(err.Error(), want), "%q is not reported in %v", want, err)
	}
	if _, err := New(Options{AllowedOrigins: []string{"*"}}); err == nil {
		t.Error(`"*" passes without authorization`)
	}
}

type onlyRegisterer struct{ prometheus.Registerer }
