package conn

import (
	"fmt"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Explain implements survey.Explainer.
func (*Part) Explain(q *survey.Inquiry, _ *engine.Snapshot) error {
	q.Ask(survey.RankConnections, func() *host.Explanation {
		n := q.Status.Connections
		if n == 0 {
			return nil
		}
		return &host.Explanation{Why: host.WhyConnections,
			Text:    fmt.Sprintf("%s connected; it waits for them.", survey.Count(n, "client is", "clients are")),
			Details: map[string]string{"connections": strconv.Itoa(n)}}
	})
	return nil
}
