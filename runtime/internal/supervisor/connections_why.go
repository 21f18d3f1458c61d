package supervisor

import (
	"fmt"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// explain implements explainer.
func (*connPart) explain(q *inquiry, _ *engine.Snapshot) error {
	q.ask(rankConnections, func() *host.Explanation {
		n := q.status.Connections
		if n == 0 {
			return nil
		}
		return &host.Explanation{Why: host.WhyConnections,
			Text:    fmt.Sprintf("%s connected; it waits for what they do.", count(n, "client is", "clients are")),
			Details: map[string]string{"connections": strconv.Itoa(n)}}
	})
	return nil
}
