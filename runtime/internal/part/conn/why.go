package conn

import (
	"fmt"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// Explain implements kernel.Explainer.
func (*Part) Explain(q *kernel.Inquiry, _ *engine.Snapshot) error {
	q.Ask(kernel.RankConnections, func() *host.Explanation {
		n := q.Status.Connections
		if n == 0 {
			return nil
		}
		return &host.Explanation{Why: host.WhyConnections,
			Text:    fmt.Sprintf("%s connected; it waits for them.", kernel.Count(n, "client is", "clients are")),
			Details: map[string]string{"connections": strconv.Itoa(n)}}
	})
	return nil
}
